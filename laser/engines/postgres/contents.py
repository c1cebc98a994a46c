"""The PostgreSQL engine's content catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from laser.engines._remote_store import RemoteStore
from laser.engines.postgres import content_holds as holds
from laser.engines.postgres import content_rows as rows
from laser.engines.postgres.config import PostgresConfig
from laser.engines.postgres.driver import Connection, PostgresDriver
from laser.engines.postgres.schema import CATALOG_MIGRATIONS, prepare
from laser.model.content import ContentHead
from laser.ports.catalog import Blob, CollectedPage, Hold, NewBlob

__all__ = ["PostgresCatalog"]

T = TypeVar("T")


class PostgresCatalog(RemoteStore[Connection]):
    """A ``Catalog`` in schema ``laser``. Made by ``open_postgres_catalog``; close it, or use ``async with``.

    **Durability** is the server's: with its defaults (``fsync`` and ``synchronous_commit`` on) an acknowledged write
    survives a power cut. **Time** is the server's.
    """

    def __init__(self, config: PostgresConfig, *, timeout: float) -> None:
        super().__init__(PostgresDriver(config, timeout), config.address, timeout)

    async def prepare(self) -> None:
        """Makes sure that the server answers and the tables are there; does not wait for one that is down."""
        await self._remote.call(
            lambda connection: prepare(connection, "contents", CATALOG_MIGRATIONS), repeatable=True, patient=False
        )

    async def begin_upload(self, key: str) -> None:
        """See ``Catalog.begin_upload``."""
        await self._call(lambda db: rows.begin_upload(db, key))

    async def abandon(self, key: str) -> bool:
        """See ``Catalog.abandon``."""
        return await self._call(lambda db: rows.abandon(db, key))

    async def put(self, tenant: str, new: NewBlob, children: Sequence[str] = ()) -> Blob:
        """See ``Catalog.put``."""
        return await self._call(lambda db: rows.enter(db, tenant.encode(), new, children))

    async def admit(self, tenant: str, digest: str) -> Blob | None:
        """See ``Catalog.admit``."""
        return await self._call(lambda db: rows.admit(db, tenant.encode(), digest))

    async def get(self, tenant: str, digest: str) -> Blob | None:
        """See ``Catalog.get``."""
        return await self._call(lambda db: rows.read(db, tenant.encode(), digest))

    async def head(self, tenant: str, digest: str) -> ContentHead | None:
        """See ``Catalog.head``."""
        return await self._call(lambda db: rows.head(db, tenant.encode(), digest))

    async def hold(self, tenant: str, holder: str, digests: Sequence[str], *, place: str | None = None) -> None:
        """See ``Catalog.hold``."""
        await self._call(lambda db: holds.hold(db, tenant.encode(), holder, digests, place))

    async def release(self, tenant: str, holder: str, digests: Sequence[str] | None = None) -> int:
        """See ``Catalog.release``."""
        return await self._call(lambda db: holds.release(db, tenant.encode(), holder, digests))

    async def release_below(self, tenant: str, prefix: str, limit: int) -> int:
        """See ``Catalog.release_below``."""
        return await self._call(lambda db: holds.release_below(db, tenant.encode(), prefix, limit))

    async def held(self, tenant: str, holder: str, *, after: str | None = None, limit: int = 100) -> list[str]:
        """See ``Catalog.held``."""
        return await self._call(lambda db: holds.held(db, tenant.encode(), holder, after, limit))

    async def placed(self, *, tenant: str | None, after: Hold | None = None, limit: int = 500) -> list[Hold]:
        """See ``Catalog.placed``."""
        home = None if tenant is None else tenant.encode()
        return await self._call(lambda db: holds.placed(db, home, after, limit))

    async def settle(self, changes: Sequence[tuple[Hold, str | None]]) -> int:
        """See ``Catalog.settle``. Done again after a lost answer it counts only what was left to do."""
        return await self._call(lambda db: holds.settle(db, changes))

    async def lease(self, name: str, owner: str, seconds: float) -> bool:
        """See ``Catalog.lease``."""
        return await self._call(lambda db: rows.take_lease(db, name, owner, seconds))

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
        return await self._call(lambda db: rows.collect(db, lease, grace_micros, home, after, limit))

    async def loose(self, *, upload_grace_micros: int, limit: int = 500) -> list[str]:
        """See ``Catalog.loose``."""
        return await self._call(lambda db: rows.loose(db, upload_grace_micros, limit))

    async def forget(self, keys: Sequence[str]) -> None:
        """See ``Catalog.forget``."""
        await self._call(lambda db: rows.forget(db, keys))

    async def _call(self, run: Callable[[rows.Cursor], T]) -> T:
        # Every method may be done twice: what a lost answer had done is found done.
        def work(connection: Connection) -> T:
            with connection.transaction():
                # Binary both ways: as text each byte of a value would take two.
                return run(connection.cursor(binary=True))

        return await self._remote.call(work, repeatable=True)
