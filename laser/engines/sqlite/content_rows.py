"""What happens to contents inside a transaction."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from typing import Final

from laser.engines._catalog import lease_lost, missing, upload_lost
from laser.engines.sqlite.transaction import Transaction
from laser.errors import StorageError
from laser.ports.catalog import Blob, CollectedPage, Hold, NewBlob

__all__ = [
    "admit",
    "collect",
    "enter",
    "find",
    "hold",
    "make_loose",
    "need",
    "placed",
    "read",
    "remove",
    "settle",
    "take_lease",
]

_FIND: Final = "SELECT id, size, admitted_at, key, crc, parts FROM contents WHERE tenant = ? AND digest = ?"
_ENTER: Final = "INSERT INTO contents (tenant, digest, size, admitted_at, key, crc, parts) VALUES (?, ?, ?, ?, ?, ?, ?)"
_ADMIT: Final = "UPDATE contents SET admitted_at = ? WHERE id = ? AND admitted_at < ?"
_LOOSE: Final = "INSERT OR IGNORE INTO loose_objects (key, since, uploading) VALUES (?, ?, ?)"
_PAGE: Final = "SELECT id, size, admitted_at, key FROM contents WHERE id > ? ORDER BY id LIMIT ?"
_PAGE_OF: Final = "SELECT id, size, admitted_at, key FROM contents WHERE id > ? AND tenant = ? ORDER BY id LIMIT ?"
_HOLD: Final = """
INSERT INTO content_holds (tenant, holder, content, pos, place) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (tenant, holder, content) DO UPDATE SET place = excluded.place WHERE excluded.place IS NOT NULL
"""
# By the index of holds with a place: in the file of a log most holds have none.
_PLACED_FROM: Final = """
SELECT h.tenant, h.holder, h.content, c.digest, h.place, c.admitted_at
FROM content_holds h INDEXED BY content_holds_place JOIN contents c ON c.id = h.content
WHERE h.place IS NOT NULL AND
"""
_PLACED: Final = (
    f"{_PLACED_FROM} (h.tenant, h.holder, h.content) > (?, ?, ?) ORDER BY h.tenant, h.holder, h.content LIMIT ?"
)
_PLACED_OF: Final = (
    f"{_PLACED_FROM} h.tenant = ? AND (h.holder, h.content) > (?, ?) ORDER BY h.holder, h.content LIMIT ?"
)
_END: Final = "DELETE FROM content_holds WHERE tenant = ? AND holder = ? AND content = ? AND place = ?"
_MOVE: Final = "UPDATE content_holds SET place = ? WHERE tenant = ? AND holder = ? AND content = ? AND place = ?"
_HELD: Final = "SELECT 1 FROM content_holds WHERE content = ? LIMIT 1"
_NAMED: Final = "SELECT 1 FROM content_children WHERE child = ? LIMIT 1"


def find(connection: sqlite3.Connection, path: str, tenant: bytes, digest: str) -> tuple[int, Blob] | None:
    """A content's number and what its row says, without its data; ``None`` where it is absent.

    Raises:
        StorageError: the row is damaged.
    """
    row = connection.execute(_FIND, (tenant, bytes.fromhex(digest))).fetchone()
    if row is None:
        return None
    number, size, admitted_at, key, crc, parts = row
    if crc != _checksum(tenant, digest, size, key, parts):
        raise StorageError(
            f"{path}: the entry of content sha256:{digest} does not match its checksum; the file is damaged, "
            "restore it from a backup",
            path=path,
        )
    return number, Blob(digest, size, None, key, parts, admitted_at)


def read(connection: sqlite3.Connection, path: str, tenant: bytes, digest: str) -> Blob | None:
    """A content with its data, where the file has them."""
    found = find(connection, path, tenant, digest)
    if found is None:
        return None
    number, blob = found
    if blob.key is not None:
        return blob
    row = connection.execute("SELECT data FROM content_data WHERE content = ?", (number,)).fetchone()
    # Missing or damaged data are what the reader's check of the hash finds.
    return Blob(digest, blob.size, b"" if row is None else row[0], None, b"", blob.admitted_at_micros)


def need(tx: Transaction, tenant: bytes, digests: Iterable[str]) -> list[int]:
    """The numbers of contents that must be there.

    Raises:
        NotFoundError: some are not.
    """
    found = {digest: find(tx.connection, tx.path, tenant, digest) for digest in dict.fromkeys(digests)}
    absent = [digest for digest, row in found.items() if row is None]
    if absent:
        raise missing(absent)
    return [row[0] for row in found.values() if row is not None]


def enter(tx: Transaction, tenant: bytes, new: NewBlob, children: Sequence[str]) -> Blob:
    """See ``Catalog.put``."""
    named = need(tx, tenant, children)
    if new.key is not None:
        row = tx.connection.execute("SELECT uploading FROM loose_objects WHERE key = ?", (new.key,)).fetchone()
        if row is None or not row[0]:
            raise upload_lost(new.key)
    found = find(tx.connection, tx.path, tenant, new.digest)
    if found is None:
        number, blob = _insert(tx, tenant, new)
        if new.key is not None:
            tx.connection.execute("DELETE FROM loose_objects WHERE key = ?", (new.key,))
    else:
        number, blob = found
        if new.key is not None:
            tx.connection.execute("UPDATE loose_objects SET uploading = 0 WHERE key = ?", (new.key,))
    tx.connection.executemany(
        "INSERT OR IGNORE INTO content_children (parent, child) VALUES (?, ?)",
        [(number, child) for child in named if child != number],
    )
    admit(tx, [*named, number])
    return Blob(blob.digest, blob.size, None, blob.key, blob.parts, max(blob.admitted_at_micros, tx.now))


def _insert(tx: Transaction, tenant: bytes, new: NewBlob) -> tuple[int, Blob]:
    crc = _checksum(tenant, new.digest, new.size, new.key, new.parts)
    row = (tenant, bytes.fromhex(new.digest), new.size, tx.now, new.key, crc, new.parts)
    number = tx.connection.execute(_ENTER, row).lastrowid
    assert number is not None
    if new.data is not None:
        tx.connection.execute("INSERT INTO content_data (content, data) VALUES (?, ?)", (number, new.data))
        tx.written += len(new.data)
    return number, Blob(new.digest, new.size, None, new.key, new.parts, tx.now)


def admit(tx: Transaction, numbers: Iterable[int]) -> None:
    """Sets the times of admission to now, never back."""
    tx.connection.executemany(_ADMIT, [(tx.now, number, tx.now) for number in numbers])


def hold(
    tx: Transaction,
    tenant: bytes,
    holder: str,
    numbers: Sequence[int],
    *,
    pos: int | None = None,
    place: str | None = None,
) -> None:
    """Has a holder hold contents that are there.

    Args:
        pos: the position of the record that is the holder, in this file. place: see ``Catalog.hold``.
    """
    tx.connection.executemany(_HOLD, [(tenant, holder.encode(), number, pos, place) for number in numbers])
    admit(tx, numbers)


def placed(
    connection: sqlite3.Connection, now: int, tenant: bytes | None, after: Hold | None, limit: int
) -> list[Hold]:
    """See ``Catalog.placed``."""
    owner, start = (b"", (b"", 0)) if after is None else (after.tenant.encode(), (after.holder.encode(), after.content))
    if tenant is None:
        found = connection.execute(_PLACED, (owner, *start, limit))
    else:
        found = connection.execute(_PLACED_OF, (tenant, *start, limit))
    return [
        Hold(owner.decode(), holder.decode(), content, digest.hex(), place, max(0, now - admitted_at))
        for owner, holder, content, digest, place, admitted_at in found.fetchall()
    ]


def settle(tx: Transaction, changes: Sequence[tuple[Hold, str | None]]) -> int:
    """See ``Catalog.settle``."""
    names = [((hold.tenant.encode(), hold.holder.encode(), hold.content, hold.place), to) for hold, to in changes]
    ended = tx.connection.executemany(_END, [name for name, to in names if to is None]).rowcount
    moved = tx.connection.executemany(_MOVE, [(to, *name) for name, to in names if to is not None]).rowcount
    # Without a row to run over, SQLite says -1.
    return max(0, ended) + max(0, moved)


def _has_lease(tx: Transaction, name: str, owner: str) -> bool:
    """Whether an owner has a lease now."""
    row = tx.connection.execute("SELECT owner, until FROM leases WHERE name = ?", (name,)).fetchone()
    return row is not None and row[0] == owner and row[1] > tx.now


def take_lease(tx: Transaction, name: str, owner: str, micros: int) -> bool:
    """See ``Catalog.lease``."""
    row = tx.connection.execute("SELECT owner, until FROM leases WHERE name = ?", (name,)).fetchone()
    if row is not None and row[0] != owner and row[1] > tx.now:
        return False
    tx.connection.execute(
        "INSERT OR REPLACE INTO leases (name, owner, until) VALUES (?, ?, ?)", (name, owner, tx.now + micros)
    )
    return micros > 0


def make_loose(tx: Transaction, key: str, *, uploading: bool) -> None:
    """Remembers a key that no content names."""
    tx.connection.execute(_LOOSE, (key, tx.now, uploading))


def collect(
    connection: sqlite3.Connection, border: int, tenant: bytes | None, after: int | None, limit: int
) -> tuple[CollectedPage, list[tuple[int, str | None]]]:
    """A page of contents: what is said of it, and number and key of those that nothing protects."""
    start = after or 0
    if tenant is None:
        rows = connection.execute(_PAGE, (start, limit + 1)).fetchall()
    else:
        rows = connection.execute(_PAGE_OF, (start, tenant, limit + 1)).fetchall()
    page = rows[:limit]
    doomed = [
        (number, size, key)
        for number, size, admitted_at, key in page
        if admitted_at <= border
        and connection.execute(_HELD, (number,)).fetchone() is None
        and connection.execute(_NAMED, (number,)).fetchone() is None
    ]
    size = sum(size for _, size, _ in doomed)
    following = page[-1][0] if len(rows) > limit else None
    return CollectedPage(len(page), len(doomed), size, following), [(number, key) for number, _, key in doomed]


def remove(tx: Transaction, lease: tuple[str, str], doomed: Sequence[tuple[int, str | None]]) -> None:
    """Removes contents that nothing protects.

    Raises:
        ConflictError: the lease is another's.
    """
    if not _has_lease(tx, *lease):
        raise lease_lost(lease[0])
    for number, key in doomed:
        tx.connection.execute("DELETE FROM contents WHERE id = ?", (number,))
        tx.connection.execute("DELETE FROM content_data WHERE content = ?", (number,))
        tx.connection.execute("DELETE FROM content_children WHERE parent = ?", (number,))
        if key is not None:
            make_loose(tx, key, uploading=False)


def _checksum(tenant: bytes, digest: str, size: int, key: str | None, parts: bytes) -> int:
    head = b"%d:%d:%d:" % (len(tenant), size, len(parts))
    return zlib.crc32(parts, zlib.crc32(head + tenant + digest.encode() + (key or "").encode()))
