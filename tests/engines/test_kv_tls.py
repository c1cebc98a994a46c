"""Encrypted connections to key-value stores: a server that cannot prove who it is gets nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from laser.errors import ConfigError, DeadlineError, DisconnectedError, LaserError, TransportError
from laser.testing.postgres_server import PostgresServer, find_postgres
from laser.testing.redis_server import RedisServer, find_redis
from laser.testing.service import Service
from tests.engines.certificates import Authority, authority
from tests.engines.kv_worker import open_kv

pytestmark = pytest.mark.anyio

Pair = tuple[Path, Path]


class _TlsRedis(RedisServer):
    @property
    def own_url(self) -> str:
        return super().own_url.replace("redis://", "rediss://")

    def command(self) -> list[str]:
        files = ("--tls-cert-file", "server.crt", "--tls-key-file", "server.key", "--tls-ca-cert-file", "server.crt")
        return [*super().command(), "--port", "0", "--tls-port", str(self.port), "--tls-auth-clients", "no", *files]


class _TlsPostgres(PostgresServer):
    def __init__(self) -> None:
        super().__init__(settings=["ssl=on", "ssl_cert_file=../server.crt", "ssl_key_file=../server.key"])


def _show(server: Service, pair: Pair) -> None:
    """Gives a server its certificate and key."""
    owner = server.directory.stat()
    for source, name in zip(pair, ("server.crt", "server.key"), strict=True):
        target = server.directory / name
        shutil.copyfile(source, target)
        target.chmod(0o600)
        if os.geteuid() == 0:
            os.chown(target, owner.st_uid, owner.st_gid)


@pytest.fixture
def anyio_backend() -> str:
    """TLS is the drivers' own work, in threads: the event loop adds nothing."""
    return "asyncio"


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("trusted"), "trusted")


@pytest.fixture(scope="module")
def pairs(trusted: Authority, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pair]:
    """What a server may show, by what is wrong with it."""
    stranger = authority(tmp_path_factory.mktemp("stranger"), "stranger")
    return {
        "nothing": trusted.sign("good", host="127.0.0.1"),
        "issuer": stranger.sign("strange", host="127.0.0.1"),
        "host": trusted.sign("elsewhere", host="example.com"),
        "date": trusted.sign("old", host="127.0.0.1", days=0),
    }


@pytest.fixture(scope="module", params=["redis", "postgres"])
def server(request: pytest.FixtureRequest, pairs: dict[str, Pair]) -> Iterator[Service]:
    find, kind = {"redis": (find_redis, _TlsRedis), "postgres": (find_postgres, _TlsPostgres)}[request.param]
    if missing := find(own=True):
        pytest.skip(missing)
    made: Service = kind()
    _show(made, pairs["nothing"])
    with made:
        yield made


def _verifying(server: Service, trusted: Authority) -> str:
    issuer = quote(str(trusted.certificate), safe="")
    redis = server.url.startswith("rediss:")
    return f"{server.url}?tls_ca_file={issuer}" if redis else f"{server.url}?sslmode=verify-full&sslrootcert={issuer}"


async def test_a_proven_server_is_used(server: Service, trusted: Authority, pairs: dict[str, Pair]) -> None:
    _show(server, pairs["nothing"])
    server.restart()
    store = await open_kv(_verifying(server, trusted))
    value = os.urandom(300_000)
    await store.set("tls", "key", value)
    entry = await store.get("tls", "key")
    assert entry is not None
    assert entry.value == value
    server.restart()
    assert await store.get("tls", "key") == entry
    await store.aclose()


@pytest.mark.parametrize("wrong", ["issuer", "host", "date"])
async def test_a_server_with_the_wrong_certificate_is_refused(
    server: Service, trusted: Authority, pairs: dict[str, Pair], wrong: str
) -> None:
    _show(server, pairs[wrong])
    server.restart()
    with pytest.raises(TransportError, match="certificate") as caught:
        await open_kv(_verifying(server, trusted), timeout=30)
    assert type(caught.value) is TransportError, "not taken for a server that is down, and not tried again"
    assert server.password not in str(caught.value)


async def test_a_store_in_use_refuses_a_server_that_changes(
    server: Service, trusted: Authority, pairs: dict[str, Pair]
) -> None:
    _show(server, pairs["nothing"])
    server.restart()
    store = await open_kv(_verifying(server, trusted), timeout=30)
    await store.set("tls", "key", b"1")
    _show(server, pairs["issuer"])
    server.restart()
    with pytest.raises(TransportError, match="certificate"):
        await store.set("tls", "key", b"2")
    _show(server, pairs["nothing"])
    server.restart()
    entry = await store.get("tls", "key")
    assert entry is not None
    assert entry.value == b"1"
    await store.aclose()


@pytest.mark.parametrize("content", [None, "not a certificate"], ids=["absent", "damaged"])
async def test_a_file_of_issuers_that_cannot_be_used_is_told(
    server: Service, tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "issuers.pem"
    if content is not None:
        path.write_text(content)
    name = "tls_ca_file" if server.url.startswith("rediss:") else "sslmode=verify-full&sslrootcert"
    with pytest.raises(LaserError) as caught:
        await open_kv(f"{server.url}?{name}={quote(str(path), safe='')}", timeout=30)
    assert not isinstance(caught.value, DisconnectedError), "trying again would not help"
    if content is None:
        assert isinstance(caught.value, ConfigError)


async def test_a_server_without_tls_gets_nothing(redis_server: RedisServer, postgres_server: PostgresServer) -> None:
    with pytest.raises(TransportError) as caught:
        await open_kv(f"{postgres_server.url}?sslmode=require", timeout=30)
    assert type(caught.value) is TransportError
    # Redis takes the greeting for the beginning of a long command, and waits for its end.
    with pytest.raises(DeadlineError):
        await open_kv(redis_server.url.replace("redis://", "rediss://"), timeout=1.5)
