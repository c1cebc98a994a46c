"""One server process for tests: started, watched through its log, stopped, killed and started again."""

from __future__ import annotations

import atexit
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

__all__ = ["ServerProcess"]

_POLL_SECONDS: Final = 0.02
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")


class ServerProcess:
    """A child process whose output goes to a file. All methods block; call them from a worker thread.

    Only the process that this object started is ever signalled, by its own handle, and it is killed when the
    interpreter exits. A watcher, one ``sh`` that waits, kills it also when the interpreter itself was killed.

    Args:
        command: program and arguments.
        directory: the working directory; must exist. env: the whole environment of the child.
        log: the file that stdout and stderr are appended to.
    """

    def __init__(self, command: Sequence[str], *, directory: Path, env: Mapping[str, str], log: Path) -> None:
        self.command = tuple(command)
        self.directory = directory
        self.env = dict(env)
        self.log = log
        self._child: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def running(self) -> bool:
        """Whether the process is alive now."""
        alive = self._child is not None and self._child.poll() is None
        if not alive:
            # The process was reaped: from now on its number may be another process's.
            self._dismiss_watcher()
        return alive

    @property
    def pid(self) -> int:
        """The process id.

        Raises:
            RuntimeError: it is not running.
        """
        child = self._child
        if child is None or child.poll() is not None:
            raise RuntimeError(f"{self.command[0]} is not running; its log ends with:\n{self.log_tail()}")
        return child.pid

    def start(self) -> None:
        """Starts the process; it need not be ready when this returns, see ``wait_for``."""
        if self.running:
            raise RuntimeError(f"{self.command[0]} is running already, as process {self.pid}")
        with self.log.open("ab") as output:
            self._log_start = output.tell()
            # A session of its own: Ctrl-C in the terminal reaches the tests, and they stop their servers.
            self._child = subprocess.Popen(
                self.command,
                cwd=self.directory,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._watcher = _watch(self._child.pid)
        atexit.register(self.kill)

    def wait_for(self, pattern: str, *, timeout: float) -> re.Match[str]:
        """Waits until a line that this run logged matches.

        Raises:
            RuntimeError: the process ended first, or ``timeout`` seconds passed; the end of the log is in the text.
        """
        deadline = time.monotonic() + timeout
        while True:
            # Alive is asked before the log is read, so that the last words of a dead process are still seen.
            alive = self.running
            found = re.search(pattern, self.output())
            if found is not None:
                return found
            if not alive:
                raise RuntimeError(f"{self.command[0]} ended before it was ready; its log ends:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"{self.command[0]} was not ready after {timeout:g} s; its log ends with:\n{self.log_tail()}"
                )
            time.sleep(_POLL_SECONDS)

    def stop(self, *, timeout: float = 45.0) -> None:
        """Asks the process to end (SIGTERM) and waits. Does nothing when it is not running.

        Raises:
            RuntimeError: it had to be killed after ``timeout`` seconds.
        """
        child = self._child
        if child is None:
            return
        child.terminate()
        try:
            child.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(
                f"{self.command[0]} did not end within {timeout:g} s of SIGTERM and was killed; its log ends with:\n"
                f"{self.log_tail()}"
            ) from None
        self._forget()

    def kill(self) -> None:
        """Ends the process at once (SIGKILL) and waits for that. Does nothing when it is not running."""
        child = self._child
        if child is None:
            return
        child.kill()
        child.wait()
        self._forget()

    def pause(self) -> None:
        """Freezes the process (SIGSTOP): its sockets stay open and nothing answers."""
        pid = self.pid
        os.kill(pid, signal.SIGSTOP)
        if hasattr(os, "waitid"):
            # Its threads stop one by one: until the last one has, it may still answer.
            os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        """Lets a frozen process go on."""
        os.kill(self.pid, signal.SIGCONT)

    def output(self) -> str:
        """What the current run, or the last one, has logged, without colours."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as file:
            file.seek(self._log_start)
            return _ANSI.sub("", file.read().decode("utf-8", "replace"))

    def log_tail(self, lines: int = 30) -> str:
        """The last lines of ``output``."""
        return "\n".join(self.output().splitlines()[-lines:])

    def _forget(self) -> None:
        self._child = None
        self._dismiss_watcher()
        atexit.unregister(self.kill)

    def _dismiss_watcher(self) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is None:
            return
        assert watcher.stdin is not None
        try:
            with watcher.stdin as pipe:
                pipe.write(b"dismissed\n")
        except BrokenPipeError:
            pass  # somebody killed the watcher, which then has nothing to be told
        watcher.wait()


def _watch(pid: int) -> subprocess.Popen[bytes]:
    """A process that kills another one when this interpreter is gone, unless it gets a line first.

    It reads a pipe whose other end only this process holds, so even kill -9 of this process ends its wait. No thread
    has to live for it, and it asks nothing of the process that it watches.
    """
    return subprocess.Popen(
        ["/bin/sh", "-c", 'read -r line || kill -9 "$0"', str(pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
