"""A random word as password: it comes up in no repr, error, traceback, log, file or output, on any engine.

TLS (wrong authority, wrong host, expired certificates) is tested in ``tests/engines/test_iggy_tls.py`` and
``test_kv_tls.py``, the modes of files in ``tests/engines/test_sqlite_files.py``.
"""

from __future__ import annotations

import logging
import secrets
import stat
import traceback
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

import laser as ls
from laser.testing.cluster import free_ports
from laser.testing.proxy import TcpProxy
from laser.testing.server import IggyServer, find_server_binary
from tests.commands import run_laser

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

CANARY = f"canary{secrets.token_hex(8)}"


@pytest.fixture(scope="module")
def server() -> Iterator[IggyServer]:
    """A server whose password is the canary."""
    if find_server_binary() is None:
        pytest.skip("no iggy-server program: put it on the PATH or into LASER_TEST_IGGY_SERVER")
    with IggyServer(password=CANARY) as running:
        yield running


def all_of(error: BaseException) -> str:
    """Everything that an error and those behind it say."""
    said = ["".join(traceback.format_exception(error))]
    chain: BaseException | None = error
    while chain is not None:
        said += [repr(chain), str(chain), repr(vars(chain))]
        chain = chain.__cause__ or chain.__context__
    return "\n".join(said)


@pytest.mark.iggy
async def test_a_used_password_shows_nowhere(
    server: IggyServer, stream_name: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    said: list[str] = []
    async with TcpProxy("127.0.0.1", server.port) as proxy:
        url = f"iggy://iggy:{CANARY}@{proxy.address}"
        connecting = ls.Laser.connect(url, stream=stream_name, timeout=3)
        said.append(repr(connecting))
        async with connecting as laser:
            await laser.ensure_topic("events", 2)
            scope = laser.context(ls.new_conversation_id())
            await scope.append("events", "x")
            log = laser.open_log()
            said += [repr(laser), repr(scope), repr(log), repr(vars(laser)), repr(await laser.info())]
            said += [repr(await laser.topics()), repr(laser.batching()), repr(scope.follow(["events"]))]
            proxy.accepting = False
            proxy.cut()
            with pytest.raises(ls.TransportError) as caught:
                await scope.append("events", "y")
            said.append(all_of(caught.value))
            with pytest.raises(ls.TransportError) as caught_too:
                await scope.fetch(topics=["events"])
            said.append(all_of(caught_too.value))
            proxy.accepting = True
            proxy.stall()
            with pytest.raises(ls.TransportError) as stalled:
                await scope.append("events", "z")
            said.append(all_of(stalled.value))
            proxy.resume()
        with pytest.raises(ls.ClosedError) as closed:
            await scope.append("events", "x")
        said.append(all_of(closed.value))
    printed = capfd.readouterr()
    everything = "\n".join([*said, caplog.text, printed.out, printed.err])
    assert len(everything) > 2_000
    assert CANARY not in everything


@pytest.mark.iggy
async def test_a_refused_password_shows_nowhere(server: IggyServer, tmp_path: Path) -> None:
    wrong = f"{CANARY}wrong"
    for url in (f"iggy://iggy:{wrong}@{server.address}", f"iggy:{wrong}@{server.address}"):
        with pytest.raises(ls.AuthenticationError) as caught:
            await ls.Laser.connect(url, timeout=60)
        assert CANARY not in all_of(caught.value)
    for command in (["topics"], ["serve-info"], ["append", "@k", "text"], ["fetch", "@k"]):
        done = run_laser(*command, cwd=tmp_path, LASER_CONNECTION_STRING=f"iggy://iggy:{wrong}@{server.address}")
        assert done.returncode == 1
        assert CANARY not in done.stdout + done.stderr
    assert not any(CANARY.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


async def test_urls_that_are_wrong_in_every_part(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    (port,) = free_ports(1)
    urls = [
        f"iggy://u:{CANARY}@127.0.0.1:{port}",
        f"iggy://u:{CANARY}@127.0.0.1:{port}?tls={CANARY}",
        f"iggy://u:{CANARY}@127.0.0.1:{port}?{CANARY}",
        f"iggy://u:{CANARY}@@x",
        f"iggy://iggypat-{CANARY}@127.0.0.1:{port}",
        f"iggy://iggypat-{CANARY}",
        f"iggy://u:{CANARY}@host:notaport",
        f"u:{CANARY}@127.0.0.1:{port}/x",
        f"http://u:{CANARY}@127.0.0.1:{port}",
        f"embedded:\0{CANARY}",
        f"//u:{CANARY}@h",
    ]
    stores = [
        f"redis://u:{CANARY}@127.0.0.1:{port}/0",
        f"redis://u:{CANARY}@127.0.0.1:{port}/{CANARY}",
        f"redis://u:{CANARY}@127.0.0.1:notaport",
        f"postgresql://u:{CANARY}@127.0.0.1:{port}/db",
        f"mysql://u:{CANARY}@127.0.0.1:{port}/db",
    ]
    said: list[str] = []
    for url, kv in [*((url, None) for url in urls), *(("memory:", kv) for kv in stores)]:
        connecting = ls.Laser.connect(url, kv=kv, timeout=0.3)
        said.append(repr(connecting))
        # A store is opened at its first use.
        with pytest.raises(ls.LaserError) as caught:
            async with connecting as laser:
                said.append(repr(vars(laser)))
                await laser.kv("n").get("k")
        said.append(all_of(caught.value))
    shown = [text for text in [*said, caplog.text] if CANARY in text]
    assert shown == []


async def test_no_secret_reaches_the_files_of_the_embedded_engine(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    directory = tmp_path / "data"
    async with ls.Laser.connect(
        f"embedded:{directory}", kv=f"redis://u:{CANARY}@127.0.0.1:{port}", timeout=20
    ) as laser:
        await laser.ensure_topic("events")
        await laser.context(ls.new_conversation_id()).append("events", "x")
        with pytest.raises(ls.LaserError):
            await laser.kv("n").set("k", b"v")
        files = [path for path in directory.rglob("*") if path.is_file()]
        assert {path.name for path in files} >= {"laser.db", "laser.db-wal", "laser.lock"}
        for path in files:
            assert CANARY.encode() not in await anyio.Path(path).read_bytes()
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
