"""The embedded engine: a ``Log`` in one SQLite file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from typing import Final, TypeVar

from laser.engines.sqlite import catalog
from laser.engines.sqlite.appending import append
from laser.engines.sqlite.database import Database
from laser.engines.sqlite.reading import read_page, read_window
from laser.engines.sqlite.states import (
    load_partition,
    load_topic,
    load_topics,
    topic_info,
)
from laser.engines.sqlite.store import SqliteStore
from laser.engines.sqlite.transaction import Transaction, absent
from laser.engines.sqlite.writer import Unfinished
from laser.errors import AppendIndeterminateError, InvalidError
from laser.model.records import Appended, NewRecord
from laser.model.topics import DURABILITIES, TopicConfig, TopicInfo
from laser.model.window import Match, Page, Window, WindowQuery
from laser.ports.clock import Clock, SystemClock
from laser.ports.log import EngineInfo

__all__ = ["SqliteLog", "open_sqlite_log"]

# A read that may be of more records than these, some two milliseconds' work, takes its turn with others of the kind.
_MANY_RECORDS: Final = 1_024

T = TypeVar("T")


async def open_sqlite_log(
    directory: str | os.PathLike[str], *, clock: Clock | None = None, timeout: float = 30.0
) -> SqliteLog:
    """Opens the log of a directory, and makes it where absent.

    Args:
        directory: made with mode 0700 where absent; its files are ``laser.db``, SQLite's ``-wal`` and ``-shm`` beside
            it, and ``laser.lock``, with mode 0600. Several processes may have it open at once. It must be on a disk of
            this machine.
        clock: the broker's clock; called from the log's threads.
        timeout: seconds that a call waits for its turn before it ends with ``DeadlineError``.

    Raises:
        StorageError: the directory or file cannot be used, is another program's, or was written by a newer release.
        DeadlineError: another process kept the write lock.
    """
    return SqliteLog(await Database.open(directory, clock=clock or SystemClock(), timeout=timeout))


class SqliteLog(SqliteStore):
    """A ``Log`` on SQLite in WAL mode. Made by ``open_sqlite_log``; close it, or use ``async with``.

    **Durability.** ``process``, the default: an acknowledged record survives the death of any process; a power cut
    takes at most the newest ones, and none from between others. ``power``: ``append`` returns when the record is on the
    disk. ``memory`` is kept as asked and gets what ``process`` gets.

    **Time.** A record's time is the clock's, but later than that of every append before it in the whole log; the
    records of one batch share theirs. After a clock that ran ahead was set back, times go on from where they were.

    **Groups.** Appends that come while another commit is under way are committed together. Each of them is still all
    or none, and the failure of one leaves the others alone.

    **Retention** hides what is too old from the next read on, and keeps a topic's size within a 64th of its bound for
    each process that writes to it (``laser.engines.sqlite.retention``).

    **Damage.** Each record carries a checksum over its place, time, id, headers and payload. A read that meets a record
    which does not match raises ``StorageError`` with topic, partition and offset.
    """

    async def ensure_topic(self, stream: str, topic: str, config: TopicConfig) -> TopicInfo:
        """See ``Log.ensure_topic``. ``InvalidError`` for a number of partitions that no topic can have."""
        catalog.check_config(config)
        found = await self.topic(stream, topic)
        if found is not None:
            return found
        return await self._database.write(lambda tx: catalog.ensure_topic(tx, stream, topic, config))

    # The functions that go to the threads hold the database, not the log: a thread that is about to forget one must not
    # be the last to know the log, or nobody would be told that it was never closed.

    async def topic(self, stream: str, topic: str) -> TopicInfo | None:
        """See ``Log.topic``."""
        database = self._database

        def run(connection: sqlite3.Connection) -> TopicInfo | None:
            row = load_topic(connection, stream, topic)
            return None if row is None else topic_info(row, database.partitions(connection, row))

        return await database.read(run)

    async def topics(self, stream: str, names: Sequence[str] | None = None) -> tuple[TopicInfo, ...]:
        """See ``Log.topics``."""
        database = self._database
        wanted = None if names is None else sorted(set(names))

        def run(connection: sqlite3.Connection) -> tuple[TopicInfo, ...]:
            if wanted is None:
                rows = load_topics(connection, stream)
            else:
                found = [load_topic(connection, stream, name) for name in wanted]
                rows = [row for row in found if row is not None]
            return tuple([topic_info(row, database.partitions(connection, row)) for row in rows])

        return await database.read(run)

    async def append(
        self, stream: str, topic: str, records: Sequence[NewRecord], *, key: str, find_first: bool = False
    ) -> Appended:
        """See ``Log.append``. The partition is a BLAKE2b hash of the key, modulo the number of partitions."""
        upkeep = self._database.upkeep

        def run(tx: Transaction) -> Appended:
            row, appended, written = append(tx, stream, topic, records, key, find_first)
            upkeep.appended(row, written)
            return appended

        try:
            return await self._database.write(run)
        except Unfinished as error:
            ids = tuple(record.id for record in records)
            raise AppendIndeterminateError(f"topic {topic!r}: {error}", record_ids=ids) from error

    async def read(
        self, stream: str, topic: str, partition: int, *, start: int, limit: int, match: Match | None = None
    ) -> Page:
        """See ``Log.read``. A page of large records may hold fewer than ``limit`` (64 MB)."""
        database = self._database

        def run(connection: sqlite3.Connection) -> Page:
            row = load_topic(connection, stream, topic)
            if row is None:
                raise absent(stream, topic)
            part = load_partition(connection, row.id, partition)
            if part is None:
                raise absent(stream, topic, partition)
            database.without_expired(connection, row, [part])
            return read_page(connection, database.path, row, part, start=start, limit=limit, match=match)

        return await database.read(run, large=limit > _MANY_RECORDS)

    async def look(
        self, stream: str, topic: str, partition: int, *, start: int, limit: int
    ) -> tuple[TopicInfo | None, Page | None]:
        """See ``Log.look``. Both are as of the same moment."""
        database = self._database

        def run(connection: sqlite3.Connection) -> tuple[TopicInfo | None, Page | None]:
            row = load_topic(connection, stream, topic)
            if row is None:
                return None, None
            parts = database.partitions(connection, row)
            info = topic_info(row, parts)
            part = next((part for part in parts if part.id == partition), None)
            if part is None:
                return info, None
            return info, read_page(connection, database.path, row, part, start=start, limit=limit, match=None)

        return await database.read(run, large=limit > _MANY_RECORDS)

    async def window(self, stream: str, topic: str, query: WindowQuery) -> Window | None:
        """See ``Log.window``. An index by conversation finds the records; others are not walked."""
        database = self._database

        def run(connection: sqlite3.Connection) -> Window | None:
            row = load_topic(connection, stream, topic)
            if row is None:
                return None
            parts = database.partitions(connection, row)
            return Window(topic_info(row, parts), read_window(connection, database.path, row, parts, query))

        return await database.read(run, large=query.newest is None or query.newest > _MANY_RECORDS)

    async def add_partitions(self, stream: str, topic: str, count: int) -> TopicInfo:
        """See ``Log.add_partitions``."""
        if count < 1:
            raise InvalidError(f"count: {count} is not 1 or more", argument="count")
        return await self._database.write(lambda tx: catalog.add_partitions(tx, stream, topic, count))

    async def purge(self, stream: str, topic: str) -> None:
        """See ``Log.purge``. The disk space of the records is used again, after a while."""
        await self._database.write(lambda tx: catalog.purge(tx, stream, topic))
        self._database.upkeep.sweep()

    async def delete_topic(self, stream: str, topic: str) -> None:
        """See ``Log.delete_topic``. The topic's number is not used again."""
        await self._database.write(lambda tx: catalog.delete_topic(tx, stream, topic))
        self._database.upkeep.sweep()

    async def describe(self) -> EngineInfo:
        """See ``Log.describe``."""
        await self._database.read(lambda connection: None)
        return EngineInfo(
            engine="embedded",
            version=f"SQLite {sqlite3.sqlite_version}",
            location=self._database.directory,
            default_durability=catalog.DEFAULT_DURABILITY,
            durabilities=DURABILITIES,
        )
