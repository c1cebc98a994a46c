"""The server on a real socket, and the command."""

from __future__ import annotations

import http.client
import json
import logging
import re
import signal
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import pytest

import laser as ls
from laser.inspector import listen, serve
from laser.inspector.serving import Listener
from tests.commands import run_laser, run_python, start_laser


def get(url: str, path: str | None = None, **headers: str) -> tuple[int, bytes]:
    at = urlsplit(url)
    assert at.hostname is not None
    connection = http.client.HTTPConnection(at.hostname, at.port, timeout=120)
    try:
        connection.request("GET", at.path if path is None else path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
async def test_real_socket(host: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    try:
        listener = listen(host)
    except ls.ConfigError:
        if host == "::1":
            pytest.skip("this machine has no IPv6")
        raise
    stop = anyio.Event()
    async with ls.Laser.connect("memory:", stream="real") as laser:
        await laser.ensure_topic(ls.AgentTopic.Control)
        async with anyio.create_task_group() as group:
            group.start_soon(serve, laser, listener, stop.wait)
            in_thread = anyio.to_thread.run_sync
            status, body = await in_thread(get, listener.url)
            assert (status, b"sessions of stream real" in body) == (200, True)
            assert (await in_thread(get, listener.url, "/")) == (403, b"")
            rebound = await in_thread(lambda: get(listener.url, host="evil.example"))
            assert rebound == (403, b"")
            port = urlsplit(listener.url).port
            assert (await in_thread(lambda: get(listener.url, host=f"localhost:{port}")))[0] == 200
            # A cursor of a topic with many partitions makes a long address.
            assert (await in_thread(get, listener.url, urlsplit(listener.url).path + "?x=" + "y" * 150_000))[0] == 200
            stop.set()
    with pytest.raises(OSError, match="refused"):
        get(listener.url)
    assert listener.token not in repr(listener)
    assert listener.token not in caplog.text


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_cancelled() -> None:
    """The port is given back also when nobody stopped the server in order."""
    listener = listen()
    async with ls.Laser.connect("memory:") as laser:
        with anyio.move_on_after(0.2) as scope:
            await serve(laser, listener, anyio.sleep_forever)
    assert scope.cancelled_caught
    assert listener.socket.fileno() == -1


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_trio() -> None:
    listener = listen()
    async with ls.Laser.connect("memory:") as laser:
        with pytest.raises(ls.UnsupportedError, match="asyncio"):
            await serve(laser, listener, anyio.sleep_forever)
    assert listener.socket.fileno() == -1


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.0.2.1", "8.8.8.8", "fe80::1%lo", "example.com", "", "127.0.0.1:80", "localhost."]
)
def test_other_hosts(host: str) -> None:
    with pytest.raises(ls.InvalidError, match=r"^host: ") as refused:
        listen(host)
    assert refused.value.argument == "host"


@pytest.mark.parametrize("port", [-1, 65_536, True, "80"])
def test_bad_ports(port: Any) -> None:
    with pytest.raises(ls.InvalidError, match=r"^port: "):
        listen(port=port)


def test_taken_port() -> None:
    taken = listen()
    try:
        with pytest.raises(ls.ConfigError, match="cannot be listened on"):
            listen(port=taken.socket.getsockname()[1])
        assert taken.socket.family == socket.AF_INET
        assert len(taken.token) >= 43
        assert Listener(taken.socket, "127.0.0.1", 1).token != taken.token
    finally:
        taken.close()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_command(tmp_path: Path, number: signal.Signals, code: int) -> None:
    at = ["--url", "embedded:data"]
    assert run_laser("bootstrap", *at, cwd=tmp_path).returncode == 0
    with start_laser("inspect", *at, cwd=tmp_path) as inspect:
        assert inspect.stdout is not None
        assert inspect.stderr is not None
        line = inspect.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/[\w-]{43}/$", line.strip())
        assert found is not None, line
        status, body = get(found[0])
        assert (status, b"sessions of stream laser" in body) == (200, True)
        # One connection stays open and idle.
        with socket.create_connection(("127.0.0.1", urlsplit(found[0]).port or 0)):
            inspect.send_signal(number)
            assert inspect.wait(100) == code
        assert inspect.stdout.read() == ""
        said = inspect.stderr.read()
        assert said == "Ctrl-C ends it.\n"


def test_refused_command(tmp_path: Path) -> None:
    done = run_laser("inspect", "--host", "0.0.0.0", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "other machines" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra(tmp_path: Path) -> None:
    hide = (
        "import sys; sys.modules['uvicorn'] = None; from laser.cli import main; sys.argv = ['laser', 'inspect']; main()"
    )
    done = run_python("-c", hide, cwd=tmp_path)
    assert done.returncode == 1
    assert "pip install 'laser-context[inspect]'" in done.stderr
    assert json.dumps(done.stdout) == '""'
