"""The PostgreSQL engine's content catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Final, TypeVar

import psycopg

from laser.engines._catalog import lease_lost, missing, upload_lost
from laser.engines._kv import AFTER_ALL
from laser.engines._remote import Remote
from laser.engines.postgres.config import PostgresConfig
from laser.engines.postgres.driver import Connection, PostgresDriver
from laser.engines.postgres.schema import CATALOG_MIGRATIONS, prepare
from laser.model.content import ContentHead
from laser.ports.catalog import Blob, CollectedPage, NewBlob

__all__ = ["PostgresCatalog"]

T = TypeVar("T")

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
_HOLD: Final = """
INSERT INTO laser.content_holds (tenant, holder, content) SELECT %b, %b, unnest(%s::bigint[]) ON CONFLICT DO NOTHING
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


class PostgresCatalog:
    """A ``Catalog`` in schema ``laser``. Made by ``open_postgres_catalog``; close it, or use ``async with``.

    **Durability** is the server's: with its defaults (``fsync`` and ``synchronous_commit`` on) an acknowledged write
    survives a power cut. **Time** is the server's.
    """

    def __init__(self, config: PostgresConfig, *, timeout: float) -> None:
        self._remote: Remote[Connection] = Remote(PostgresDriver(config, timeout), timeout)
        self._address = config.address

    async def prepare(self) -> None:
        """Makes sure that the server answers and the tables are there; does not wait for one that is down."""
        await self._remote.call(
            lambda connection: prepare(connection, "contents", CATALOG_MIGRATIONS), repeatable=True, patient=False
        )

    async def begin_upload(self, key: str) -> None:
        """See ``Catalog.begin_upload``."""

        def run(db: psycopg.Cursor[Any]) -> None:
            # Again after a lost answer it is there already.
            db.execute(_UPLOADING, (key,))

        await self._call(run)

    async def abandon(self, key: str) -> bool:
        """See ``Catalog.abandon``."""
        return await self._call(lambda db: db.execute(_ABANDON, (key,)).rowcount > 0)

    async def put(self, tenant: str, new: NewBlob, children: Sequence[str] = ()) -> Blob:
        """See ``Catalog.put``."""
        home, digest = tenant.encode(), bytes.fromhex(new.digest)

        def run(db: psycopg.Cursor[Any]) -> Blob:
            named = _need(db, home, {*children, new.digest}, needed=children)
            fresh = new.key is None or _take_upload(db, new.key)
            if new.key is not None and not fresh:
                known = _one(db, _GET, (home, digest))
                # Where the content names the key, this very call was done before, and its answer was lost.
                if known is None or known[2] != new.key:
                    raise upload_lost(new.key)
            row = db.execute(
                _ENTER, (home, digest, new.size, new.key, new.parts, None if new.key else new.data)
            ).fetchone()
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
                db.execute(_ADMIT, (below,))
            return blob

        return await self._call(run)

    async def admit(self, tenant: str, digest: str) -> Blob | None:
        """See ``Catalog.admit``."""

        def run(db: psycopg.Cursor[Any]) -> Blob | None:
            found = _locked(db, tenant.encode(), [digest])
            row = _one(db, _ADMIT_ONE, ([found[digest]],)) if found else None
            return None if row is None else _blob(*row)

        return await self._call(run)

    async def get(self, tenant: str, digest: str) -> Blob | None:
        """See ``Catalog.get``."""
        row = await self._call(lambda db: _one(db, _GET, (tenant.encode(), bytes.fromhex(digest))))
        return None if row is None else _blob(*row)

    async def head(self, tenant: str, digest: str) -> ContentHead | None:
        """See ``Catalog.head``."""
        row = await self._call(lambda db: _one(db, _HEAD, (tenant.encode(), bytes.fromhex(digest))))
        return None if row is None else ContentHead(digest, *row)

    async def hold(self, tenant: str, holder: str, digests: Sequence[str]) -> None:
        """See ``Catalog.hold``."""
        home, name = tenant.encode(), holder.encode()

        def run(db: psycopg.Cursor[Any]) -> None:
            numbers = list(_need(db, home, digests).values())
            db.execute(_HOLD, (home, name, numbers))
            db.execute(_ADMIT, (numbers,))

        await self._call(run)

    async def release(self, tenant: str, holder: str, digests: Sequence[str] | None = None) -> int:
        """See ``Catalog.release``."""
        chosen = [bytes.fromhex(digest) for digest in digests or ()]
        args = (tenant.encode(), holder.encode(), digests is None, chosen)
        return await self._call(lambda db: db.execute(_RELEASE, args).rowcount)

    async def release_below(self, tenant: str, prefix: str, limit: int) -> int:
        """See ``Catalog.release_below``."""
        begin = prefix.encode()
        args = (tenant.encode(), begin, begin + AFTER_ALL, limit)
        return await self._call(lambda db: db.execute(_RELEASE_BELOW, args).rowcount)

    async def held(self, tenant: str, holder: str, *, after: str | None = None, limit: int = 100) -> list[str]:
        """See ``Catalog.held``."""
        args = (tenant.encode(), holder.encode(), bytes.fromhex(after or ""), limit)
        rows = await self._call(lambda db: db.execute(_HELD, args).fetchall())
        return [bytes(digest).hex() for (digest,) in rows]

    async def lease(self, name: str, owner: str, seconds: float) -> bool:
        """See ``Catalog.lease``."""
        taken = await self._call(lambda db: db.execute(_LEASE, (name, owner, seconds)).rowcount)
        return bool(taken) and seconds > 0

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
        home = b"" if tenant is None else tenant.encode()

        def run(db: psycopg.Cursor[Any]) -> CollectedPage:
            if lease is not None and _one(db, _HAS_LEASE, lease) is None:
                raise lease_lost(lease[0])
            rows = db.execute(_PAGE, (after or 0, tenant is None, home, limit + 1)).fetchall()
            page = [number for (number,) in rows[:limit]]
            if lease is None:
                doomed = db.execute(_DOOMED, (page, grace_micros)).fetchall()
            else:
                # Locked first and looked at then: a hold that was made in between is seen by the second statement.
                held = db.execute(_LOCK_DOOMED, (page, grace_micros)).fetchall()
                doomed = db.execute(_DOOMED, ([row[0] for row in held], grace_micros)).fetchall()
                _remove(db, doomed)
            following = page[-1] if len(rows) > limit else None
            return CollectedPage(len(page), len(doomed), sum(int(row[1]) for row in doomed), following)

        return await self._call(run)

    async def loose(self, *, upload_grace_micros: int, limit: int = 500) -> list[str]:
        """See ``Catalog.loose``."""

        def run(db: psycopg.Cursor[Any]) -> list[str]:
            db.execute(
                "UPDATE laser.loose_objects SET uploading = false WHERE uploading "
                "AND since <= clock_timestamp() - %s::bigint * interval '1 microsecond'",
                (upload_grace_micros,),
            )
            found = db.execute(
                "SELECT object_key FROM laser.loose_objects WHERE NOT uploading ORDER BY object_key LIMIT %s::bigint",
                (limit,),
            )
            return [key for (key,) in found.fetchall()]

        return await self._call(run)

    async def forget(self, keys: Sequence[str]) -> None:
        """See ``Catalog.forget``."""
        names = list(keys)

        def run(db: psycopg.Cursor[Any]) -> None:
            db.execute("DELETE FROM laser.loose_objects WHERE object_key = ANY(%s::text[])", (names,))

        await self._call(run)

    async def aclose(self) -> None:
        """See ``Catalog.aclose``. Calls under way end first, each by its deadline."""
        await self._remote.aclose()

    async def __aenter__(self) -> PostgresCatalog:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<PostgresCatalog {self._address}{' closed' if self._remote.closed else ''}>"

    def __del__(self) -> None:
        remote = getattr(self, "_remote", None)
        if remote is not None:
            remote.forget(self)

    async def _call(self, run: Callable[[psycopg.Cursor[Any]], T]) -> T:
        # Every method may be done twice: what a lost answer had done is found done.
        def work(connection: Connection) -> T:
            with connection.transaction():
                # Binary both ways: as text each byte of a value would take two.
                return run(connection.cursor(binary=True))

        return await self._remote.call(work, repeatable=True)


def _one(db: psycopg.Cursor[Any], statement: str, args: Sequence[object]) -> tuple[Any, ...] | None:
    row: tuple[Any, ...] | None = db.execute(statement, args).fetchone()
    return row


def _locked(db: psycopg.Cursor[Any], tenant: bytes, digests: Iterable[str]) -> dict[str, int]:
    """Numbers by digest of the contents that are there, which stay until the end of the transaction."""
    wanted = sorted(bytes.fromhex(digest) for digest in set(digests))
    return {bytes(digest).hex(): number for number, digest in db.execute(_LOCK, (tenant, wanted)).fetchall()}


def _need(
    db: psycopg.Cursor[Any], tenant: bytes, digests: Iterable[str], needed: Iterable[str] | None = None
) -> dict[str, int]:
    chosen = set(digests)
    found = _locked(db, tenant, chosen)
    absent = (chosen if needed is None else set(needed)) - found.keys()
    if absent:
        raise missing(absent)
    return found


def _take_upload(db: psycopg.Cursor[Any], key: str) -> bool:
    """Whether a key still belongs to its upload; if so it does until the end of the transaction."""
    return (
        _one(db, "SELECT 1 FROM laser.loose_objects WHERE object_key = %s AND uploading FOR UPDATE", (key,)) is not None
    )


def _remove(db: psycopg.Cursor[Any], doomed: Sequence[tuple[int, int, str | None]]) -> None:
    db.execute("DELETE FROM laser.contents WHERE id = ANY(%s::bigint[])", ([number for number, _, _ in doomed],))
    for _, _, key in doomed:
        if key is not None:
            db.execute(_LOOSE, (key,))


def _blob(
    digest: bytes, size: int, key: str | None, parts: bytes, admitted_at_micros: int, data: bytes | None = None
) -> Blob:
    return Blob(bytes(digest).hex(), size, None if data is None else bytes(data), key, bytes(parts), admitted_at_micros)
