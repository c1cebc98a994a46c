"""A server that the harness started ends with the process that started it, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from laser.testing.process import ServerProcess
from tests.commands import ROOT, environment

STARTER = """
import os, sys, pathlib
from laser.testing.process import ServerProcess
here = pathlib.Path(sys.argv[1])
server = ServerProcess(["/bin/sleep", "60"], directory=here, env=dict(os.environ), log=here / "log")
server.start()
print(server.pid, server._watcher.pid, flush=True)
sys.stdin.read()
"""


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    if not Path("/proc/self/stat").exists():
        return True
    try:
        # A zombie that nobody has reaped yet is dead.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False  # it went between the two looks


def wait_until(met: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, None], ids=["killed", "terminated", "ended"])
def test_a_server_ends_with_its_starter(tmp_path: Path, end: signal.Signals | None) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path)],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with starter:
        assert starter.stdout is not None
        assert starter.stdin is not None
        server, watcher = map(int, starter.stdout.readline().split())
        assert alive(server)
        assert alive(watcher)
        if end is None:
            starter.stdin.close()
        else:
            starter.send_signal(end)
        starter.wait(60)
    wait_until(lambda: not alive(server) and not alive(watcher))


def test_a_watcher_goes_before_the_servers_number_can_be_used_again(tmp_path: Path) -> None:
    server = ServerProcess(["/bin/true"], directory=tmp_path, env=dict(os.environ), log=tmp_path / "log")
    server.start()
    watcher = server._watcher
    assert watcher is not None
    wait_until(lambda: not server.running)
    assert watcher.returncode == 0, "dismissed, and so it killed nothing"
    server.kill()


def test_a_killed_and_restarted_server_has_one_watcher(tmp_path: Path) -> None:
    server = ServerProcess(["/bin/sleep", "60"], directory=tmp_path, env=dict(os.environ), log=tmp_path / "log")
    server.start()
    first = server._watcher
    server.kill()
    assert first is not None
    assert first.returncode == 0
    server.start()
    assert server._watcher is not None
    assert server._watcher is not first
    server.kill()
