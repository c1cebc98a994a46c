"""The readers' threads: each with a connection of its own."""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from laser.engines._fork import ForkGate
from laser.engines._loop import HomeLoop
from laser.engines._threads import Job, linger
from laser.engines.sqlite.errors import DRIVER_ERRORS, translate
from laser.errors import DeadlineError

__all__ = ["Readers"]

_MOST_THREADS: Final = 3


class Readers:
    """Runs reads, each in a transaction of its own: all that one read sees is of one moment.

    Reads of many records take turns. To make records takes the interpreter's lock: with several threads at it none is
    done earlier, and the event loop waits for all of them each time it wants to run.

    Args:
        connect: opens a connection; called in the new thread.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], home: HomeLoop, path: str, timeout: float) -> None:
        self.threads: list[threading.Thread] = []
        self._connect = connect
        self._home = home
        self._path = path
        self._timeout = timeout
        self._queue: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()
        self._under_way = 0
        self._large: Job[Any] | None = None
        self._waiting: deque[Job[Any]] = deque()

    def submit(self, job: Job[Any], *, large: bool) -> None:
        """Queues a read: its ``run`` gets the connection. ``large``: it may be of many records."""
        if large:
            if self._large is not None:
                self._waiting.append(job)
                return
            self._large = job
        self._start(job)

    def leave(self, job: Job[Any]) -> None:
        """A task no longer waits for its read."""
        if job in self._waiting:
            self._waiting.remove(job)
            return
        self._under_way -= 1
        if job is self._large:
            self._large = self._waiting.popleft() if self._waiting else None
            if self._large is not None:
                self._start(self._large)

    def stop(self) -> None:
        """Ends the threads once everything queued so far is done."""
        while self._waiting:
            self._start(self._waiting.popleft())
        for _ in self.threads:
            self._queue.put(None)

    def _start(self, job: Job[Any]) -> None:
        self._under_way += 1
        if self._under_way > len(self.threads) and len(self.threads) < _MOST_THREADS:
            thread = threading.Thread(target=self._run, name="laser-sqlite-reader", daemon=True)
            self.threads.append(thread)
            thread.start()
        self._queue.put(job)

    def _run(self) -> None:
        reader = _Reader(self._connect, self._home, self._path, self._timeout)
        while reader.serve(self._queue):
            pass


class _Reader:
    """What one thread keeps between reads."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], home: HomeLoop, path: str, timeout: float) -> None:
        self._connect = connect
        self._home = home
        self._path = path
        self._timeout = timeout
        self._gate = ForkGate()
        self._connection: sqlite3.Connection | None = None

    def serve(self, jobs: queue.SimpleQueue[Job[Any] | None]) -> bool:
        """Takes and runs one read. Returns ``False`` at the end. Between reads the thread holds no job."""
        linger(jobs)
        job = jobs.get()
        if job is None:
            if self._connection is not None:
                with self._gate:
                    self._connection.close()
            return False
        if job.claim():
            try:
                self._run(job)
            except (*DRIVER_ERRORS, OSError) as error:
                job.error = translate(error, self._path, self._timeout)
            except BaseException as error:  # noqa: BLE001 - it belongs to the task that waits
                job.error = error
            self._home.post(job.set_done)
        return True

    def _run(self, job: Job[Any]) -> None:
        if job.deadline <= time.monotonic():
            raise DeadlineError(f"{self._path}: the read did not begin within {job.timeout:g} s", seconds=job.timeout)
        with self._gate:
            if self._connection is None:
                self._connection = self._connect()
            self._connection.execute("BEGIN")
            try:
                job.result = job.run(self._connection)
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("COMMIT")
