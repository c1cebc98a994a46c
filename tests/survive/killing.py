"""Processes for a check: started, killed, and what writers said turned into a history."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from laser.testing.history import Operation
from tests.commands import ROOT, environment


class Processes:
    """Working processes. Enter it with ``with``; at the end none of them is left.

    Args:
        command: the module that imports, and forks a process for each line on stdin, and its arguments.
        counted: the first word of the lines that ``wait_for`` counts.

    Attributes:
        lines: what the processes said. living: process ids by name.
    """

    def __init__(self, command: list[str], counted: str = "did") -> None:
        self._command = [sys.executable, "-m", *command]
        self.lines: list[list[Any]] = []
        self._counted = counted
        self._done = 0
        self._heard = threading.Condition()
        self.living: dict[str, int] = {}
        self._started = 0

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self.living):
            self.kill(name)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(90)
        self._thread.join(90)
        self._process.stdout.close()

    def start(self, seconds: float = 90.0) -> str:
        """Starts a process, waits until it is there, and returns its name."""
        name = f"w{self._started}"
        self._started += 1
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name}\n".encode())
        self._process.stdin.flush()
        deadline = time.monotonic() + seconds
        with self._heard:
            while name not in self.living:
                if not self._heard.wait(max(0.0, deadline - time.monotonic())):
                    raise RuntimeError(f"process {name} did not start in {seconds} s")
        return name

    def wait_for(self, more: int, seconds: float = 120.0) -> None:
        """Waits until so many more of the counted lines were said."""
        deadline = time.monotonic() + seconds
        with self._heard:
            wanted = self._done + more
            while self._done < wanted:
                if not self._heard.wait(max(0.0, deadline - time.monotonic())):
                    raise RuntimeError(f"the processes did not do {more} more steps in {seconds} s")

    def kill(self, name: str) -> None:
        """Kills a process with SIGKILL."""
        os.kill(self.living.pop(name), signal.SIGKILL)

    def pause(self) -> None:
        """Stops all processes where they are."""
        for pid in self.living.values():
            os.kill(pid, signal.SIGSTOP)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            line = json.loads(text)
            with self._heard:
                if line[0] == "pid":
                    self.living[line[1]] = line[2]
                else:
                    self.lines.append(line)
                    self._done += line[0] == self._counted
                self._heard.notify_all()


def as_operations(lines: Iterable[list[Any]]) -> list[Operation]:
    """What writing processes said as operations. An append without an answer stays pending."""
    found: dict[str, Operation] = {}
    for line in lines:
        match line:
            case ["begin", writer, key, value, when]:
                found[value] = Operation(writer, "append", when, key=key, value=value)
            case ["done", _, value, partition, offset, when]:
                done = found[value]
                done.outcome, done.partition, done.offset, done.ended = "acknowledged", partition, offset, when
            case ["failed", _, value, _]:
                found[value].outcome = "failed"
    return list(found.values())


class Writers(Processes):
    """Writing processes on one log.

    Attributes:
        failures: appends that failed definitely, with the error.
    """

    def __init__(self, url: str, stream: str, tasks: int, durability: str = "process") -> None:
        super().__init__(["tests.survive.writer", url, stream, str(tasks), durability], "done")
        self.failures: list[str] = []

    @property
    def acknowledged(self) -> int:
        """Appends that were acknowledged so far."""
        return self._done

    def operations(self) -> list[Operation]:
        """What was done, after the end. An append without an answer stays pending."""
        operations = as_operations(self.lines)
        self.failures += (line[3] for line in self.lines if line[0] == "failed")
        return operations
