"""The file of the read views, and the thread that works on it."""

from __future__ import annotations

import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import anyio

from laser.engines._fork import ForkGate
from laser.engines._loop import HomeLoop
from laser.engines._threads import Job, linger
from laser.engines.sqlite.errors import DRIVER_ERRORS, translate
from laser.errors import ClosedError, DeadlineError, StorageError

__all__ = ["ViewDatabase"]

T = TypeVar("T")

_FILE: Final = "views.db"
_APPLICATION_ID: Final = 0x4C415356  # "LASV"
_CACHE_KIB: Final = 32_768

_POSITIONS: Final = """
CREATE TABLE positions (
    view TEXT NOT NULL, -- "memory", "graph"
    stream TEXT NOT NULL,
    topic TEXT NOT NULL,
    position TEXT NOT NULL,
    PRIMARY KEY (view, stream, topic)
) WITHOUT ROWID;
"""


class ViewDatabase:
    """One SQLite file of read views, in a directory or in memory, and its thread.

    A file of another release's tables is emptied and made anew: everything in it can be folded again.

    Args:
        directory: where the file is; ``None`` keeps everything in memory.
        schema: scripts of all views' tables. version: a number that changes with them.
    """

    def __init__(self, directory: str | None, schema: Sequence[str], version: int, timeout: float) -> None:
        self.path = ":memory:" if directory is None else os.path.join(directory, _FILE)
        self._schema = (_POSITIONS, *schema)
        self._version = version
        self._timeout = timeout
        self._home = HomeLoop("the read views")
        self._gate = ForkGate()
        self._queue: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()
        self._end: Job[None] = Job(_nothing, timeout)
        self._thread: threading.Thread | None = None
        self._closed = False

    async def open(self) -> None:
        """Opens the file and starts the thread."""
        with anyio.CancelScope(shield=True):
            connection = await anyio.to_thread.run_sync(self._open)
        self._thread = threading.Thread(target=self._run, args=(connection,), name="laser-sqlite-views", daemon=True)
        self._thread.start()

    async def write(self, run: Callable[[sqlite3.Connection], T]) -> T:
        """Runs something in a write transaction of its own."""
        return await self._submit(lambda connection: _transact(connection, "BEGIN IMMEDIATE", run))

    async def read(self, run: Callable[[sqlite3.Connection], T]) -> T:
        """Runs something in a read transaction."""
        return await self._submit(lambda connection: _transact(connection, "BEGIN", run))

    async def aclose(self) -> None:
        """Closes the file once everything under way is done. Calling it again waits for the same end."""
        if self._home.forked:
            return
        self._home.check()
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        await self._end.wait()

    async def _submit(self, run: Callable[[sqlite3.Connection], T]) -> T:
        self._home.check()
        if self._closed:
            raise ClosedError("the read views were closed; connect again")
        job = Job(run, self._timeout)
        self._queue.put(job)
        return await job.wait()

    def _open(self) -> sqlite3.Connection:
        try:
            if self.path != ":memory:":
                os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600))
            connection = sqlite3.connect(
                self.path, timeout=self._timeout, isolation_level=None, check_same_thread=False, cached_statements=256
            )
        except (*DRIVER_ERRORS, OSError) as error:
            raise translate(error, self.path, self._timeout, views=True) from error
        try:
            for pragma in (
                "journal_mode = WAL",
                # A power cut may take the newest changes: the next catch-up folds them again.
                "synchronous = NORMAL",
                # What is forgotten is overwritten.
                "secure_delete = ON",
                "trusted_schema = OFF",
                "temp_store = MEMORY",
                f"cache_size = -{_CACHE_KIB:d}",
            ):
                connection.execute(f"PRAGMA {pragma}")
            _transact(connection, "BEGIN IMMEDIATE", self._prepare)
        except DRIVER_ERRORS as error:
            connection.close()
            raise translate(error, self.path, self._timeout, views=True) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        names = connection.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").fetchall()
        if application != _APPLICATION_ID and names:
            raise StorageError(
                f"{self.path}: is an SQLite database of another program; give another directory, or move the file away",
                path=self.path,
            )
        if application == _APPLICATION_ID and version == self._version:
            return
        # Virtual tables take their shadow tables with them, so those may be gone when it is their turn.
        for kind, name in sorted(names, key=lambda entry: entry[0] != "table"):
            if kind == "table":
                quoted = name.replace('"', '""')
                drop = f'DROP TABLE IF EXISTS "{quoted}"'  # a name takes no parameter; these are of laser's own file
                connection.execute(drop)
        for script in self._schema:
            for statement in script.split(";\n"):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID:d}")
        connection.execute(f"PRAGMA user_version = {self._version:d}")

    def _run(self, connection: sqlite3.Connection) -> None:
        try:
            while True:
                linger(self._queue)
                job = self._queue.get()
                if job is None:
                    break
                if job.claim():
                    self._serve(job, connection)
                # The thread must not hold the last result while it waits.
                del job
        finally:
            with self._gate:
                connection.close()
            self._home.post(self._end.set_done)

    def _serve(self, job: Job[Any], connection: sqlite3.Connection) -> None:
        try:
            if job.deadline <= time.monotonic():
                raise DeadlineError(
                    f"{self.path}: the call did not begin within {job.timeout:g} s", seconds=job.timeout
                )
            with self._gate:
                job.result = job.run(connection)
        except (*DRIVER_ERRORS, OSError) as error:
            job.error = translate(error, self.path, self._timeout, views=True)
        except BaseException as error:  # noqa: BLE001 - it belongs to the task that waits
            job.error = error
        self._home.post(job.set_done)


def _transact(connection: sqlite3.Connection, begin: str, run: Callable[[sqlite3.Connection], T]) -> T:
    connection.execute(begin)
    try:
        result = run(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return result


def _nothing(_: object) -> None:
    return None
