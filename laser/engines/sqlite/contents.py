"""The embedded engine's content catalog: tables in the file of the log."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from typing import Final

from laser.engines._kv import AFTER_ALL
from laser.engines.sqlite import content_rows as rows
from laser.engines.sqlite.appending import append
from laser.engines.sqlite.database import Database
from laser.engines.sqlite.rows import position
from laser.engines.sqlite.store import SqliteStore
from laser.engines.sqlite.transaction import Transaction
from laser.engines.sqlite.writer import Unfinished
from laser.errors import AppendIndeterminateError
from laser.model.content import ContentHead
from laser.model.records import Appended, NewRecord
from laser.ports.catalog import Blob, CollectedPage, Hold, NewBlob
from laser.ports.clock import Clock, SystemClock

__all__ = ["SqliteCatalog", "open_sqlite_catalog"]

_COUNTS: Final = """
SELECT (SELECT count(*) FROM content_holds WHERE content = ?1),
    (SELECT count(*) FROM content_children WHERE child = ?1),
    (SELECT count(*) FROM content_children WHERE parent = ?1)
"""
_HELD: Final = """
SELECT hex(c.digest) FROM content_holds h JOIN contents c ON c.id = h.content
WHERE h.tenant = ? AND h.holder = ? AND c.digest > ? ORDER BY c.digest LIMIT ?
"""
_ABANDON: Final = "UPDATE loose_objects SET uploading = 0 WHERE key = ?"
_RELEASE_ONE: Final = """
DELETE FROM content_holds WHERE tenant = ?1 AND holder = ?2
    AND content = (SELECT id FROM contents WHERE tenant = ?1 AND digest = ?3)
"""
_RELEASE_BELOW: Final = """
DELETE FROM content_holds WHERE (tenant, holder, content) IN (
    SELECT tenant, holder, content FROM content_holds WHERE tenant = ? AND holder >= ? AND holder < ? LIMIT ?
)
"""


async def open_sqlite_catalog(
    directory: str | os.PathLike[str], *, clock: Clock | None = None, timeout: float = 30.0
) -> SqliteCatalog:
    """Opens the content catalog of a directory, and makes it where absent.

    Args:
        directory: may hold a log too, and be open in it; see ``open_sqlite_log`` for what is made there.
        clock: decides what is old; called from the catalog's threads.
        timeout: seconds that a call waits for its turn before it ends with ``DeadlineError``.

    Raises:
        StorageError: the directory or file cannot be used, is another program's, or was written by a newer release.
        DeadlineError: another process kept the write lock.
    """
    return SqliteCatalog(await Database.open(directory, clock=clock or SystemClock(), timeout=timeout))


class SqliteCatalog(SqliteStore):
    """A ``Catalog`` and ``JointAppends`` on SQLite in WAL mode. Made by ``open_sqlite_catalog``; close it.

    **Durability** is that of the key-value store: an acknowledged write survives the death of any process; a power cut
    takes at most the newest ones, and none from between others.

    **Damage.** Each entry carries a checksum; the bytes themselves are checked by whoever reads them.
    """

    async def begin_upload(self, key: str) -> None:
        """See ``Catalog.begin_upload``."""
        await self._database.write(lambda tx: rows.make_loose(tx, key, uploading=True))

    async def abandon(self, key: str) -> bool:
        """See ``Catalog.abandon``."""
        return await self._database.write(lambda tx: tx.connection.execute(_ABANDON, (key,)).rowcount > 0)

    async def put(self, tenant: str, new: NewBlob, children: Sequence[str] = ()) -> Blob:
        """See ``Catalog.put``."""
        return await self._database.write(lambda tx: rows.enter(tx, tenant.encode(), new, children))

    async def admit(self, tenant: str, digest: str) -> Blob | None:
        """See ``Catalog.admit``."""

        def run(tx: Transaction) -> Blob | None:
            found = rows.find(tx.connection, tx.path, tenant.encode(), digest)
            if found is None:
                return None
            rows.admit(tx, [found[0]])
            return found[1]

        return await self._database.write(run)

    async def get(self, tenant: str, digest: str) -> Blob | None:
        """See ``Catalog.get``."""
        path = self._database.path
        return await self._database.read(lambda connection: rows.read(connection, path, tenant.encode(), digest))

    async def head(self, tenant: str, digest: str) -> ContentHead | None:
        """See ``Catalog.head``."""
        path = self._database.path

        def run(connection: sqlite3.Connection) -> ContentHead | None:
            found = rows.find(connection, path, tenant.encode(), digest)
            if found is None:
                return None
            number, blob = found
            counts = connection.execute(_COUNTS, (number,)).fetchone()
            return ContentHead(digest, blob.size, blob.key is None, blob.admitted_at_micros, *counts)

        return await self._database.read(run)

    async def hold(self, tenant: str, holder: str, digests: Sequence[str], *, place: str | None = None) -> None:
        """See ``Catalog.hold``."""
        home = tenant.encode()
        await self._database.write(lambda tx: rows.hold(tx, home, holder, rows.need(tx, home, digests), place=place))

    async def release(self, tenant: str, holder: str, digests: Sequence[str] | None = None) -> int:
        """See ``Catalog.release``."""
        home, name = tenant.encode(), holder.encode()

        def run(tx: Transaction) -> int:
            if digests is None:
                gone = tx.connection.execute(
                    "DELETE FROM content_holds WHERE tenant = ? AND holder = ?", (home, name)
                ).rowcount
            else:
                gone = 0
                for digest in set(digests):
                    gone += tx.connection.execute(_RELEASE_ONE, (home, name, bytes.fromhex(digest))).rowcount
            return gone

        return await self._database.write(run)

    async def release_below(self, tenant: str, prefix: str, limit: int) -> int:
        """See ``Catalog.release_below``."""
        begin = prefix.encode()
        args = (tenant.encode(), begin, begin + AFTER_ALL, limit)
        return await self._database.write(lambda tx: tx.connection.execute(_RELEASE_BELOW, args).rowcount)

    async def held(self, tenant: str, holder: str, *, after: str | None = None, limit: int = 100) -> list[str]:
        """See ``Catalog.held``."""
        args = (tenant.encode(), holder.encode(), bytes.fromhex(after or ""), limit)
        found = await self._database.read(lambda connection: connection.execute(_HELD, args).fetchall())
        return [digest.lower() for (digest,) in found]

    async def placed(self, *, tenant: str | None, after: Hold | None = None, limit: int = 500) -> list[Hold]:
        """See ``Catalog.placed``."""
        home, clock = None if tenant is None else tenant.encode(), self._database.clock
        return await self._database.read(lambda db: rows.placed(db, clock.now_micros(), home, after, limit))

    async def settle(self, changes: Sequence[tuple[Hold, str | None]]) -> int:
        """See ``Catalog.settle``."""
        return await self._database.write(lambda tx: rows.settle(tx, changes))

    async def lease(self, name: str, owner: str, seconds: float) -> bool:
        """See ``Catalog.lease``."""
        return await self._database.write(lambda tx: rows.take_lease(tx, name, owner, int(seconds * 1_000_000)))

    async def collect(
        self,
        *,
        lease: tuple[str, str] | None,
        grace_micros: int,
        tenant: str | None = None,
        after: int | None = None,
        limit: int = 500,
    ) -> CollectedPage:
        """See ``Catalog.collect``."""
        home = None if tenant is None else tenant.encode()
        clock = self._database.clock
        if lease is None:
            return await self._database.read(
                lambda db: rows.collect(db, clock.now_micros() - grace_micros, home, after, limit)[0]
            )

        def run(tx: Transaction) -> CollectedPage:
            page, doomed = rows.collect(tx.connection, tx.now - grace_micros, home, after, limit)
            rows.remove(tx, lease, doomed)
            return page

        return await self._database.write(run)

    async def loose(self, *, upload_grace_micros: int, limit: int = 500) -> list[str]:
        """See ``Catalog.loose``."""

        def run(tx: Transaction) -> list[str]:
            tx.connection.execute(
                "UPDATE loose_objects SET uploading = 0 WHERE uploading AND since <= ?", (tx.now - upload_grace_micros,)
            )
            found = tx.connection.execute(
                "SELECT key FROM loose_objects WHERE NOT uploading ORDER BY key LIMIT ?", (limit,)
            )
            return [key for (key,) in found.fetchall()]

        return await self._database.write(run)

    async def forget(self, keys: Sequence[str]) -> None:
        """See ``Catalog.forget``."""
        await self._database.write(
            lambda tx: tx.connection.executemany("DELETE FROM loose_objects WHERE key = ?", [(key,) for key in keys])
        )

    async def append_holding(
        self,
        tenant: str,
        holder: str,
        digests: Sequence[str],
        stream: str,
        topic: str,
        record: NewRecord,
        *,
        key: str,
        find_first: bool = False,
    ) -> Appended:
        """See ``JointAppends.append_holding``."""
        home, upkeep = tenant.encode(), self._database.upkeep

        def run(tx: Transaction) -> Appended:
            numbers = rows.need(tx, home, digests)
            row, appended, written = append(tx, stream, topic, (record,), key, find_first)
            part = tx.partition(row, appended.partition)
            rows.hold(tx, home, holder, numbers, pos=position(part.key, appended.offsets[0]))
            upkeep.appended(row, written)
            return appended

        try:
            return await self._database.write(run)
        except Unfinished as error:
            raise AppendIndeterminateError(f"topic {topic!r}: {error}", record_ids=(record.id,)) from error
