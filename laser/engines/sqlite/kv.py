"""The embedded engine's key-value store: one table in the file of the log."""

from __future__ import annotations

import os
import sqlite3
import zlib
from typing import Final, NamedTuple

from laser.engines._kv import AFTER_ALL, conflict
from laser.engines.sqlite.database import Database
from laser.engines.sqlite.store import SqliteStore
from laser.engines.sqlite.transaction import Transaction
from laser.errors import StorageError
from laser.limits import MAX_SCAN_BYTES
from laser.ports.clock import Clock, SystemClock
from laser.ports.kv import ABSENT, ANY, KvEntry, KvPage

__all__ = ["SqliteKeyValue", "open_sqlite_kv"]

_SWEEP_ENTRIES: Final = 2

_COLUMNS: Final = "key, value, version, expires_at, crc"
_LIVING: Final = "(expires_at IS NULL OR expires_at > ?)"
_VERSION: Final = f"SELECT version FROM kv WHERE namespace = ? AND key = ? AND {_LIVING}"  # noqa: S608
_GET: Final = f"SELECT {_COLUMNS} FROM kv WHERE namespace = ? AND key = ? AND {_LIVING}"  # noqa: S608
_SCAN: Final = f"""
SELECT {_COLUMNS} FROM kv
WHERE namespace = ? AND key >= ? AND key > ? AND key < ? AND {_LIVING} ORDER BY key LIMIT ?
"""  # noqa: S608
# A replaced row goes and a new one comes, whose number is the new version.
_SET: Final = "INSERT OR REPLACE INTO kv (namespace, key, expires_at, crc, value) VALUES (?, ?, ?, ?, ?)"
_DELETE: Final = "DELETE FROM kv WHERE namespace = ? AND key = ?"
_SWEEP: Final = (
    "DELETE FROM kv WHERE version IN (SELECT version FROM kv WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)"
)


async def open_sqlite_kv(
    directory: str | os.PathLike[str], *, clock: Clock | None = None, timeout: float = 30.0
) -> SqliteKeyValue:
    """Opens the key-value store of a directory, and makes it where absent.

    Args:
        directory: may hold a log too, and be open in it; see ``open_sqlite_log`` for what is made there.
        clock: decides what has expired; called from the store's threads.
        timeout: seconds that a call waits for its turn before it ends with ``DeadlineError``.

    Raises:
        StorageError: the directory or file cannot be used, is another program's, or was written by a newer release.
        DeadlineError: another process kept the write lock.
    """
    return SqliteKeyValue(await Database.open(directory, clock=clock or SystemClock(), timeout=timeout))


class SqliteKeyValue(SqliteStore):
    """A ``KeyValue`` on SQLite in WAL mode. Made by ``open_sqlite_kv``; close it, or use ``async with``.

    **Durability.** An acknowledged write survives the death of any process; a power cut takes at most the newest ones.

    **Expiry** is by the clock of the process that asks: keep the clocks of one machine's processes alike. Expired
    entries are removed by later writes that expire too, a few each.

    **Versions** grow over all keys together, and have gaps.

    **Damage.** Each entry carries a checksum over its namespace, key, expiry and value. A read that meets one which
    does not match raises ``StorageError``.
    """

    async def get(self, namespace: str, key: str) -> KvEntry | None:
        """See ``KeyValue.get``."""
        home, name = namespace.encode(), key.encode()

        def run(connection: sqlite3.Connection) -> KvEntry | None:
            row = connection.execute(_GET, (home, name, self._database.clock.now_micros())).fetchone()
            return None if row is None else self._entry(namespace, home, _Row(*row))

        return await self._database.read(run)

    async def set(
        self, namespace: str, key: str, value: bytes, *, expect: int = ANY, ttl_micros: int | None = None
    ) -> int:
        """See ``KeyValue.set``."""
        home, name = namespace.encode(), key.encode()

        def run(tx: Transaction) -> int:
            _check(tx, namespace, key, expect)
            expires_at = None if ttl_micros is None else tx.now + ttl_micros
            if ttl_micros is not None:
                tx.connection.execute(_SWEEP, (tx.now, _SWEEP_ENTRIES))
            row = (home, name, expires_at, _checksum(home, name, expires_at, value), value)
            version = tx.connection.execute(_SET, row).lastrowid
            tx.written += len(value)
            assert version is not None
            return version

        return await self._database.write(run)

    async def delete(self, namespace: str, key: str, *, expect: int = ANY) -> bool:
        """See ``KeyValue.delete``."""

        def run(tx: Transaction) -> bool:
            found = _check(tx, namespace, key, expect)
            if found != ABSENT:
                tx.connection.execute(_DELETE, (namespace.encode(), key.encode()))
            return found != ABSENT

        return await self._database.write(run)

    async def scan(self, namespace: str, *, prefix: str = "", after: str | None = None, limit: int = 100) -> KvPage:
        """See ``KeyValue.scan``."""
        home, begin, start = namespace.encode(), prefix.encode(), b"" if after is None else after.encode()

        def run(connection: sqlite3.Connection) -> KvPage:
            bounds = (home, begin, start, begin + AFTER_ALL, self._database.clock.now_micros(), limit + 1)
            entries: list[KvEntry] = []
            size = 0
            # Rows are fetched one by one: none but the first value beyond the page is read in vain.
            for row in connection.execute(_SCAN, bounds):
                if len(entries) == limit or size >= MAX_SCAN_BYTES:
                    return KvPage(entries, entries[-1].key)
                entries.append(self._entry(namespace, home, _Row(*row)))
                size += len(entries[-1].value)
            return KvPage(entries, None)

        return await self._database.read(run)

    def _entry(self, namespace: str, home: bytes, row: _Row) -> KvEntry:
        if _checksum(home, row.key, row.expires_at, row.value) != row.crc:
            path = self._database.path
            raise StorageError(
                f"{path}: key {row.key.decode(errors='replace')!r} of namespace {namespace!r} does not match its "
                "checksum; the file is damaged, restore it from a backup",
                path=path,
            )
        return KvEntry(row.key.decode(), row.value, row.version, row.expires_at)


class _Row(NamedTuple):
    key: bytes
    value: bytes
    version: int
    expires_at: int | None
    crc: int


def _check(tx: Transaction, namespace: str, key: str, expect: int) -> int:
    """The version that is there, which must be the expected one."""
    row = tx.connection.execute(_VERSION, (namespace.encode(), key.encode(), tx.now)).fetchone()
    found: int = ABSENT if row is None else row[0]
    if expect not in (ANY, found):
        raise conflict(namespace, key, expect, found)
    return found


def _checksum(namespace: bytes, key: bytes, expires_at: int | None, value: bytes) -> int:
    # Lengths first: the same bytes divided otherwise are another entry.
    head = b"%d:%d:%d:" % (len(namespace), len(key), expires_at or 0)
    return zlib.crc32(value, zlib.crc32(head + namespace + key))
