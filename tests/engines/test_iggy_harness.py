"""The harness that runs real Iggy servers: it starts, stops and restarts them, and leaves none behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from laser.testing.finding import find_iggy
from laser.testing.process import ServerProcess
from laser.testing.server import IggyServer, find_server_binary, run_iggy_server

pytestmark = pytest.mark.anyio


def _sleeper(tmp_path: Path, code: str) -> ServerProcess:
    return ServerProcess(
        [sys.executable, "-u", "-c", code], directory=tmp_path, env=dict(os.environ), log=tmp_path / "log"
    )


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, "it did not come true in 60 s"
        time.sleep(0.01)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    if not Path("/proc/self/stat").exists():
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False  # it went between the two looks


def test_readiness_is_read_from_the_log_of_this_run(tmp_path: Path) -> None:
    process = _sleeper(tmp_path, "import time; print('\\x1b[32mready\\x1b[0m at 17'); time.sleep(60)")
    for _ in range(2):
        process.start()
        assert process.wait_for(r"ready at (\d+)", timeout=60).group(1) == "17"
        with pytest.raises(RuntimeError, match="running already"):
            process.start()
        process.stop()
        assert not process.running
    process.stop()
    process.kill()


def test_a_process_that_ends_or_never_gets_ready_is_told_with_its_last_words(tmp_path: Path) -> None:
    process = _sleeper(tmp_path, "print('no port left'); raise SystemExit(3)")
    process.start()
    with pytest.raises(RuntimeError, match=r"(?s)ended before it was ready.*no port left"):
        process.wait_for("ready", timeout=60)
    process.kill()
    process = _sleeper(tmp_path, "import time; print('thinking'); time.sleep(60)")
    process.start()
    with pytest.raises(RuntimeError, match=r"(?s)not ready after 0\.5 s.*thinking"):
        process.wait_for("ready", timeout=0.5)
    process.kill()


def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    process = _sleeper(
        tmp_path, "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready'); time.sleep(60)"
    )
    process.start()
    process.wait_for("ready", timeout=60)
    pid = process.pid
    with pytest.raises(RuntimeError, match="was killed"):
        process.stop(timeout=0.3)
    assert not _alive(pid)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_outlives_its_tests(tmp_path: Path, how: signal.Signals) -> None:
    code = textwrap.dedent(f"""
        import os, sys, time
        from pathlib import Path
        from laser.testing.process import ServerProcess
        here = Path({str(tmp_path)!r})
        process = ServerProcess(["/bin/sleep", "60"], directory=here, env=dict(os.environ), log=here / "log")
        process.start()
        print(process.pid, flush=True)
        time.sleep(60)
    """)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as tests:
        assert tests.stdout is not None
        pid = int(tests.stdout.readline())
        assert _alive(pid)
        tests.send_signal(how)
    _until(lambda: not _alive(pid))


@pytest.mark.iggy
async def test_a_server_keeps_its_port_and_removes_its_directory() -> None:
    if find_server_binary() is None:
        pytest.skip("no iggy-server program: put it on the PATH or into LASER_TEST_IGGY_SERVER")
    async with run_iggy_server() as server:
        url, first = server.url, server.process.pid
        assert server.port > 0
        await server.restart()
        await server.restart(kill=True)
        assert server.url == url
        assert server.process.pid != first
        directory = server.directory
        assert directory.exists()
        assert server.password not in repr(server).replace(server.address, "")
    assert not directory.exists()
    assert not server.process.running


def test_what_is_set_by_hand_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LASER_TEST_IGGY", "user:canary@host:1")
    found = find_iggy()
    assert (found.kind, found.detail) == ("running", "host:1")
    monkeypatch.delenv("LASER_TEST_IGGY")
    program = tmp_path / "iggy"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("LASER_TEST_IGGY_SERVER", str(program))
    assert (find_iggy().kind, find_iggy().detail) == ("binary", str(program))
    monkeypatch.setenv("LASER_TEST_IGGY_SERVER", str(tmp_path / "absent"))
    with pytest.raises(RuntimeError, match="LASER_TEST_IGGY_SERVER"):
        find_iggy()


def test_without_a_program_it_says_so() -> None:
    if find_server_binary() is not None:
        pytest.skip("there is a program")
    with pytest.raises(RuntimeError, match="LASER_TEST_IGGY_SERVER"):
        IggyServer()
