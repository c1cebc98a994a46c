"""What happens to holds inside a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from laser.engines._kv import AFTER_ALL
from laser.engines.postgres.content_rows import Cursor, admit_rows, need
from laser.ports.catalog import Hold

__all__ = ["held", "hold", "placed", "release", "release_below", "settle"]

_HOLD: Final = """
INSERT INTO laser.content_holds (tenant, holder, content, place) SELECT %b, %b, unnest(%s::bigint[]), %s::text
ON CONFLICT (tenant, holder, content) DO UPDATE SET place = excluded.place WHERE excluded.place IS NOT NULL
"""
_HELD: Final = """
SELECT digest FROM laser.content_holds h JOIN laser.contents c ON c.id = h.content
WHERE h.tenant = %b AND h.holder = %b AND c.digest > %b ORDER BY c.digest LIMIT %s::bigint
"""
_RELEASE: Final = """
DELETE FROM laser.content_holds h USING laser.contents c
WHERE h.tenant = %b AND h.holder = %b AND c.id = h.content AND (%s::boolean OR c.digest = ANY(%b))
"""
_RELEASE_BELOW: Final = """
DELETE FROM laser.content_holds WHERE (tenant, holder, content) IN (
    SELECT tenant, holder, content FROM laser.content_holds
    WHERE tenant = %b AND holder >= %b AND holder < %b LIMIT %s::bigint
)
"""
_PLACED: Final = """
SELECT h.tenant, h.holder, h.content, c.digest, h.place,
    (greatest(extract(epoch FROM clock_timestamp() - c.admitted_at), 0) * 1000000)::bigint
FROM laser.content_holds h JOIN laser.contents c ON c.id = h.content
WHERE h.place IS NOT NULL AND (h.tenant, h.holder, h.content) > (%b, %b, %s::bigint)
    AND h.tenant BETWEEN %b AND %b
ORDER BY h.tenant, h.holder, h.content LIMIT %s::bigint
"""
_WAS: Final = "(h.tenant, h.holder, h.content, h.place) = (was.tenant, was.holder, was.content, was.place)"
_END: Final = f"""
DELETE FROM laser.content_holds h
USING unnest(%s::bytea[], %s::bytea[], %s::bigint[], %s::text[]) AS was (tenant, holder, content, place)
WHERE {_WAS}
"""  # noqa: S608
_MOVE: Final = f"""
UPDATE laser.content_holds h SET place = was.moved_to
FROM unnest(%s::bytea[], %s::bytea[], %s::bigint[], %s::text[], %s::text[])
    AS was (tenant, holder, content, place, moved_to)
WHERE {_WAS}
"""  # noqa: S608


def hold(db: Cursor, tenant: bytes, holder: str, digests: Sequence[str], place: str | None) -> None:
    """See ``Catalog.hold``."""
    numbers = list(need(db, tenant, digests).values())
    db.execute(_HOLD, (tenant, holder.encode(), numbers, place))
    admit_rows(db, numbers)


def release(db: Cursor, tenant: bytes, holder: str, digests: Sequence[str] | None) -> int:
    """See ``Catalog.release``."""
    chosen = [bytes.fromhex(digest) for digest in digests or ()]
    return db.execute(_RELEASE, (tenant, holder.encode(), digests is None, chosen)).rowcount


def release_below(db: Cursor, tenant: bytes, prefix: str, limit: int) -> int:
    """See ``Catalog.release_below``."""
    begin = prefix.encode()
    return db.execute(_RELEASE_BELOW, (tenant, begin, begin + AFTER_ALL, limit)).rowcount


def held(db: Cursor, tenant: bytes, holder: str, after: str | None, limit: int) -> list[str]:
    """See ``Catalog.held``."""
    rows = db.execute(_HELD, (tenant, holder.encode(), bytes.fromhex(after or ""), limit)).fetchall()
    return [bytes(digest).hex() for (digest,) in rows]


def placed(db: Cursor, tenant: bytes | None, after: Hold | None, limit: int) -> list[Hold]:
    """See ``Catalog.placed``."""
    start = (b"", b"", 0) if after is None else (after.tenant.encode(), after.holder.encode(), after.content)
    bounds = (b"", AFTER_ALL) if tenant is None else (tenant, tenant)
    rows = db.execute(_PLACED, (*start, *bounds, limit)).fetchall()
    return [
        Hold(bytes(owner).decode(), bytes(holder).decode(), content, bytes(digest).hex(), place, age)
        for owner, holder, content, digest, place, age in rows
    ]


def settle(db: Cursor, changes: Sequence[tuple[Hold, str | None]]) -> int:
    """See ``Catalog.settle``."""
    count = 0
    ended, moved = [hold for hold, to in changes if to is None], [(hold, to) for hold, to in changes if to is not None]
    if ended:
        count += db.execute(_END, _names(ended)).rowcount
    if moved:
        count += db.execute(_MOVE, (*_names([hold for hold, _ in moved]), [to for _, to in moved])).rowcount
    return count


def _names(holds: Sequence[Hold]) -> tuple[list[bytes], list[bytes], list[int], list[str]]:
    return (
        [hold.tenant.encode() for hold in holds],
        [hold.holder.encode() for hold in holds],
        [hold.content for hold in holds],
        [hold.place for hold in holds],
    )
