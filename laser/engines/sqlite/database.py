"""The store as tasks see it: writes and reads handed to its threads."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread

from laser.engines._loop import HomeLoop
from laser.engines._threads import Job
from laser.engines.sqlite.lockfile import LockFile
from laser.engines.sqlite.opening import connect, open_files
from laser.engines.sqlite.readers import Readers
from laser.engines.sqlite.retention import Upkeep
from laser.engines.sqlite.states import PartitionState, TopicRow, hide_expired, load_partitions
from laser.engines.sqlite.transaction import Transaction
from laser.engines.sqlite.writer import Writer
from laser.errors import ClosedError
from laser.ports.clock import Clock

__all__ = ["Database"]

T = TypeVar("T")


class Database:
    """One SQLite file in one directory, with a writing thread and up to three reading ones.

    Made by ``Database.open``. It belongs to the event loop and process that opened it.
    """

    def __init__(
        self, directory: str, path: str, lock: LockFile, connection: sqlite3.Connection, clock: Clock, timeout: float
    ) -> None:
        self.directory = directory
        self.path = path
        self.clock = clock
        self._timeout = timeout
        self._home = HomeLoop(f"the log in {directory}")
        self._end: Job[None] = Job(_nothing, timeout)
        self._writer = Writer(connection, lock, self._home, path, clock, timeout, self._end)
        self._readers = Readers(partial(connect, path, timeout), self._home, path, timeout)
        self._closed = False
        self._writer.thread.start()

    @staticmethod
    async def open(directory: str | os.PathLike[str], *, clock: Clock, timeout: float) -> Database:
        """Opens the store of a directory; see ``open_files`` for what is made and refused."""
        place = os.path.abspath(os.fspath(directory))  # noqa: ASYNC240 - looks at no file
        with anyio.CancelScope(shield=True):
            # Shielded: the files that a cancelled call had opened would be nobody's to close.
            path, lock, connection = await anyio.to_thread.run_sync(open_files, place, timeout)
        return Database(place, path, lock, connection, clock, timeout)

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    @property
    def forked(self) -> bool:
        """Whether this is a child process, forked after the store was opened."""
        return self._home.forked

    async def write(self, run: Callable[[Transaction], T]) -> T:
        """Runs a write, commits it together with others, and returns its result.

        Args:
            run: raises its own errors before it writes anything. It may be called again, when a group is begun anew.
        """
        self._check()
        job = Job(run, self._timeout)
        self._writer.submit(job)
        return await job.wait()

    async def read(self, run: Callable[[sqlite3.Connection], T], *, large: bool = False) -> T:
        """Runs a read in a transaction and returns its result. ``large``: it may be of many records."""
        self._check()
        job = Job(run, self._timeout)
        self._readers.submit(job, large=large)
        try:
            return await job.wait()
        finally:
            self._readers.leave(job)

    @property
    def upkeep(self) -> Upkeep:
        """What retention is to look at."""
        return self._writer.upkeep

    def partitions(self, connection: sqlite3.Connection, topic: TopicRow) -> list[PartitionState]:
        """The partitions of a topic without what is too old, to be called inside a read."""
        return self.without_expired(connection, topic, load_partitions(connection, topic.id))

    def without_expired(
        self, connection: sqlite3.Connection, topic: TopicRow, parts: list[PartitionState]
    ) -> list[PartitionState]:
        """These partitions without what is too old; the writer is told of it."""
        if topic.expire_micros is not None and hide_expired(
            connection, self.path, topic, parts, self.clock.now_micros()
        ):
            self.upkeep.poke(topic.id)
        return parts

    async def aclose(self) -> None:
        """Closes the store once everything under way is done. Calling it again waits for the same end."""
        self._home.check()
        self._stop()
        await self._end.wait()

    def abandon(self) -> None:
        """Has the threads end and close the files, without waiting for it."""
        self._stop()

    def _stop(self) -> None:
        if not self._closed:
            self._closed = True
            self._readers.stop()
            self._writer.stop(after=self._readers.threads)

    def _check(self) -> None:
        self._home.check()
        if self._closed:
            raise ClosedError(f"the log in {self.directory} was closed; open it again")


def _nothing(_: object) -> None:
    return None
