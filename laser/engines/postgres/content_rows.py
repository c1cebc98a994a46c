"""What happens to contents inside a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import psycopg

from laser.engines._catalog import lease_lost, missing, upload_lost
from laser.model.content import ContentHead
from laser.ports.catalog import Blob, CollectedPage, NewBlob

__all__ = [
    "Cursor",
    "abandon",
    "admit",
    "admit_rows",
    "begin_upload",
    "collect",
    "enter",
    "forget",
    "head",
    "loose",
    "need",
    "read",
    "take_lease",
]

Cursor = psycopg.Cursor[Any]

_MICROS: Final = "(extract(epoch FROM admitted_at) * 1000000)::bigint"
_ROW: Final = f"digest, size, object_key, parts, {_MICROS}"
# Rows are locked in one order by all, and before anything else: so nobody waits for somebody who waits for him.
_LOCK: Final = """
SELECT id, digest FROM laser.contents WHERE tenant = %b AND digest = ANY(%b) ORDER BY digest FOR NO KEY UPDATE
"""
# The collector skips a row that is locked, and looks anew at one that was changed since it began.
_ADMIT: Final = (
    "UPDATE laser.contents SET admitted_at = greatest(admitted_at, clock_timestamp()) WHERE id = ANY(%s::bigint[])"
)
_ADMIT_ONE: Final = f"{_ADMIT} RETURNING {_ROW}"
_NAME: Final = """
INSERT INTO laser.content_children (parent, child) SELECT %s::bigint, unnest(%s::bigint[]) ON CONFLICT DO NOTHING
"""
_ENTER: Final = f"""
INSERT INTO laser.contents (tenant, digest, size, admitted_at, object_key, parts, data)
VALUES (%b, %b, %s::bigint, clock_timestamp(), %s::text, %b, %b)
ON CONFLICT (tenant, digest) DO UPDATE SET admitted_at = greatest(contents.admitted_at, clock_timestamp())
RETURNING id, {_ROW}
"""  # noqa: S608
_GET: Final = f"SELECT {_ROW}, data FROM laser.contents WHERE tenant = %b AND digest = %b"  # noqa: S608
_HEAD: Final = f"""
SELECT size, object_key IS NULL, {_MICROS},
    (SELECT count(*) FROM laser.content_holds WHERE content = c.id),
    (SELECT count(*) FROM laser.content_children WHERE child = c.id),
    (SELECT count(*) FROM laser.content_children WHERE parent = c.id)
FROM laser.contents c WHERE tenant = %b AND digest = %b
"""  # noqa: S608
_LEASE: Final = """
INSERT INTO laser.leases (name, owner, until) VALUES (%s, %s, clock_timestamp() + %s::float8 * interval '1 second')
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
WHERE leases.owner = excluded.owner OR leases.until <= clock_timestamp()
"""
_HAS_LEASE: Final = (
    "SELECT 1 FROM laser.leases WHERE name = %s AND owner = %s AND until > clock_timestamp() FOR NO KEY UPDATE"
)
_PAGE: Final = """
SELECT id FROM laser.contents WHERE id > %s::bigint AND (%s::boolean OR tenant = %b) ORDER BY id LIMIT %s::bigint
"""
_DOOMED: Final = """
SELECT id, size, object_key FROM laser.contents c
WHERE id = ANY(%s::bigint[]) AND admitted_at <= clock_timestamp() - %s::bigint * interval '1 microsecond'
    AND NOT EXISTS (SELECT 1 FROM laser.content_holds WHERE content = c.id)
    AND NOT EXISTS (SELECT 1 FROM laser.content_children WHERE child = c.id)
"""
_ABANDON: Final = "UPDATE laser.loose_objects SET uploading = false WHERE object_key = %s"
_LOCK_DOOMED: Final = f"{_DOOMED} ORDER BY id FOR UPDATE SKIP LOCKED"
_UPLOADING: Final = (
    "INSERT INTO laser.loose_objects (object_key, since, uploading) VALUES (%s, clock_timestamp(), true) "
    "ON CONFLICT DO NOTHING"
)
_LOOSE: Final = "INSERT INTO laser.loose_objects (object_key, since, uploading) VALUES (%s, clock_timestamp(), false)"


def begin_upload(db: Cursor, key: str) -> None:
    """See ``Catalog.begin_upload``. Again after a lost answer it is there already."""
    db.execute(_UPLOADING, (key,))


def abandon(db: Cursor, key: str) -> bool:
    """See ``Catalog.abandon``."""
    return db.execute(_ABANDON, (key,)).rowcount > 0


def enter(db: Cursor, tenant: bytes, new: NewBlob, children: Sequence[str]) -> Blob:
    """See ``Catalog.put``."""
    digest = bytes.fromhex(new.digest)
    named = need(db, tenant, {*children, new.digest}, needed=children)
    fresh = new.key is None or _take_upload(db, new.key)
    if new.key is not None and not fresh:
        known = _one(db, _GET, (tenant, digest))
        # Where the content names the key, this very call was done before, and its answer was lost.
        if known is None or known[2] != new.key:
            raise upload_lost(new.key)
    row = db.execute(_ENTER, (tenant, digest, new.size, new.key, new.parts, None if new.key else new.data)).fetchone()
    assert row is not None
    number, blob = row[0], _blob(*row[1:])
    if new.key is not None and fresh:
        if blob.key == new.key:
            db.execute("DELETE FROM laser.loose_objects WHERE object_key = %s", (new.key,))
        else:
            db.execute(_ABANDON, (new.key,))
    below = sorted({named[child] for child in children} - {number})
    if below:
        db.execute(_NAME, (number, below))
        admit_rows(db, below)
    return blob


def admit(db: Cursor, tenant: bytes, digest: str) -> Blob | None:
    """See ``Catalog.admit``."""
    found = _locked(db, tenant, [digest])
    row = _one(db, _ADMIT_ONE, ([found[digest]],)) if found else None
    return None if row is None else _blob(*row)


def admit_rows(db: Cursor, numbers: Sequence[int]) -> None:
    """Sets the times of admission of contents to now, never back."""
    db.execute(_ADMIT, (numbers,))


def read(db: Cursor, tenant: bytes, digest: str) -> Blob | None:
    """See ``Catalog.get``."""
    row = _one(db, _GET, (tenant, bytes.fromhex(digest)))
    return None if row is None else _blob(*row)


def head(db: Cursor, tenant: bytes, digest: str) -> ContentHead | None:
    """See ``Catalog.head``."""
    row = _one(db, _HEAD, (tenant, bytes.fromhex(digest)))
    return None if row is None else ContentHead(digest, *row)


def take_lease(db: Cursor, name: str, owner: str, seconds: float) -> bool:
    """See ``Catalog.lease``."""
    return bool(db.execute(_LEASE, (name, owner, seconds)).rowcount) and seconds > 0


def collect(
    db: Cursor, lease: tuple[str, str] | None, grace_micros: int, tenant: bytes | None, after: int | None, limit: int
) -> CollectedPage:
    """See ``Catalog.collect``."""
    if lease is not None and _one(db, _HAS_LEASE, lease) is None:
        raise lease_lost(lease[0])
    rows = db.execute(_PAGE, (after or 0, tenant is None, tenant or b"", limit + 1)).fetchall()
    page = [number for (number,) in rows[:limit]]
    if lease is None:
        doomed = db.execute(_DOOMED, (page, grace_micros)).fetchall()
    else:
        # Locked first and looked at then: a hold that was made in between is seen by the second statement.
        locked = db.execute(_LOCK_DOOMED, (page, grace_micros)).fetchall()
        doomed = db.execute(_DOOMED, ([row[0] for row in locked], grace_micros)).fetchall()
        _remove(db, doomed)
    following = page[-1] if len(rows) > limit else None
    return CollectedPage(len(page), len(doomed), sum(int(row[1]) for row in doomed), following)


def loose(db: Cursor, upload_grace_micros: int, limit: int) -> list[str]:
    """See ``Catalog.loose``."""
    db.execute(
        "UPDATE laser.loose_objects SET uploading = false WHERE uploading "
        "AND since <= clock_timestamp() - %s::bigint * interval '1 microsecond'",
        (upload_grace_micros,),
    )
    found = db.execute(
        "SELECT object_key FROM laser.loose_objects WHERE NOT uploading ORDER BY object_key LIMIT %s::bigint", (limit,)
    )
    return [key for (key,) in found.fetchall()]


def forget(db: Cursor, keys: Sequence[str]) -> None:
    """See ``Catalog.forget``."""
    db.execute("DELETE FROM laser.loose_objects WHERE object_key = ANY(%s::text[])", (list(keys),))


def _one(db: Cursor, statement: str, args: Sequence[object]) -> tuple[Any, ...] | None:
    row: tuple[Any, ...] | None = db.execute(statement, args).fetchone()
    return row


def _locked(db: Cursor, tenant: bytes, digests: Iterable[str]) -> dict[str, int]:
    """Numbers by digest of the contents that are there, which stay until the end of the transaction."""
    wanted = sorted(bytes.fromhex(digest) for digest in set(digests))
    return {bytes(digest).hex(): number for number, digest in db.execute(_LOCK, (tenant, wanted)).fetchall()}


def need(db: Cursor, tenant: bytes, digests: Iterable[str], needed: Iterable[str] | None = None) -> dict[str, int]:
    """Numbers by digest of contents, which stay until the end of the transaction.

    Raises:
        NotFoundError: one that is needed is absent; all are, if not said otherwise.
    """
    chosen = set(digests)
    found = _locked(db, tenant, chosen)
    absent = (chosen if needed is None else set(needed)) - found.keys()
    if absent:
        raise missing(absent)
    return found


def _take_upload(db: Cursor, key: str) -> bool:
    """Whether a key still belongs to its upload; if so it does until the end of the transaction."""
    return (
        _one(db, "SELECT 1 FROM laser.loose_objects WHERE object_key = %s AND uploading FOR UPDATE", (key,)) is not None
    )


def _remove(db: Cursor, doomed: Sequence[tuple[int, int, str | None]]) -> None:
    db.execute("DELETE FROM laser.contents WHERE id = ANY(%s::bigint[])", ([number for number, _, _ in doomed],))
    for _, _, key in doomed:
        if key is not None:
            db.execute(_LOOSE, (key,))


def _blob(
    digest: bytes, size: int, key: str | None, parts: bytes, admitted_at_micros: int, data: bytes | None = None
) -> Blob:
    return Blob(bytes(digest).hex(), size, None if data is None else bytes(data), key, bytes(parts), admitted_at_micros)
