"""What all cases share: opening the catalog under test, and contents to put into it."""

from __future__ import annotations

import hashlib
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import ClassVar
from uuid import uuid4

import pytest

from laser.model.ids import new_conversation_id
from laser.ports.catalog import Blob, Catalog, CollectedPage, Hold, NewBlob

__all__ = ["CatalogCases", "Place", "digest_of", "inline", "new_key"]

HOUR = 3_600_000_000


def digest_of(data: bytes) -> str:
    """The digest of some bytes."""
    return hashlib.sha256(data).hexdigest()


def inline(data: bytes) -> NewBlob:
    """Bytes for the catalog itself."""
    return NewBlob(digest_of(data), len(data), data)


def new_key() -> str:
    """A key that was never used."""
    return f"{secrets.token_hex(16)}/{new_conversation_id()}"


class Place:
    """A tenant of the catalog under test, with the port's methods bound to it."""

    def __init__(self, catalog: Catalog, tenant: str) -> None:
        self.catalog = catalog
        self.tenant = tenant

    async def put(self, data: bytes, *children: bytes) -> Blob:
        return await self.catalog.put(self.tenant, inline(data), [digest_of(child) for child in children])

    async def put_object(self, data: bytes, key: str | None = None, *children: bytes) -> tuple[Blob, str]:
        """Enters content whose bytes are in an object, and returns the key that was offered."""
        key = key or new_key()
        await self.catalog.begin_upload(key)
        new = NewBlob(digest_of(data), len(data), None, key, b"0123456789abcdef")
        return await self.catalog.put(self.tenant, new, [digest_of(child) for child in children]), key

    async def get(self, data: bytes) -> Blob | None:
        return await self.catalog.get(self.tenant, digest_of(data))

    async def has(self, data: bytes) -> bool:
        return await self.get(data) is not None

    async def hold(self, holder: str, *data: bytes, place: str | None = None) -> None:
        await self.catalog.hold(self.tenant, holder, [digest_of(each) for each in data], place=place)

    async def placed(self, *, limit: int = 500) -> list[Hold]:
        """The tenant's holds with a place, page by page."""
        found: list[Hold] = []
        while True:
            page = await self.catalog.placed(tenant=self.tenant, after=found[-1] if found else None, limit=limit)
            assert len(page) <= limit
            found += page
            if len(page) < limit:
                return found

    async def release(self, holder: str, *data: bytes) -> int:
        digests = [digest_of(each) for each in data]
        return await self.catalog.release(self.tenant, holder, digests or None)

    async def counts(self, data: bytes) -> tuple[int, int, int]:
        """Holders, parents and children of a content."""
        head = await self.catalog.head(self.tenant, digest_of(data))
        assert head is not None
        return head.holders, head.parents, head.children

    async def collect(self, grace_micros: int = 0, *, limit: int = 500) -> int:
        """One pass over the tenant. Returns how many were removed."""
        pages = await self.pages(grace_micros, limit=limit)
        return sum(page.removed for page in pages)

    async def pages(self, grace_micros: int = 0, *, limit: int = 500, dry: bool = False) -> Sequence[CollectedPage]:
        """The pages of one pass. The lease is taken and given back."""
        owner = uuid4().hex
        pages: list[CollectedPage] = []
        lease = None if dry else (f"suite-{self.tenant}", owner)
        if lease is not None:
            assert await self.catalog.lease(*lease, 60)
        try:
            after = None
            while True:
                page = await self.catalog.collect(
                    lease=lease, grace_micros=grace_micros, tenant=self.tenant, after=after, limit=limit
                )
                assert page.scanned <= limit
                pages.append(page)
                if page.next is None:
                    return pages
                assert after is None or page.next > after, "a page must go forward"
                after = page.next
        finally:
            if lease is not None:
                await self.catalog.lease(*lease, 0)

    async def loose(self, upload_grace_micros: int = HOUR) -> set[str]:
        """All loose keys whose objects are to be deleted."""
        return set(await self.catalog.loose(upload_grace_micros=upload_grace_micros, limit=100_000))


class CatalogCases(ABC):
    """See ``CatalogConformance``, which documents what a subclass sets."""

    pytestmark: ClassVar = pytest.mark.anyio

    shares_data: ClassVar[bool] = True
    rounds: ClassVar[int] = 60

    @abstractmethod
    def open_catalog(self) -> AbstractAsyncContextManager[Catalog]:
        """Opens the catalog under test, and closes it at the end.

        Called again in the same test it opens the same data once more, where ``shares_data`` says so.
        """

    def set_clock(self, micros: int) -> None:
        """Sets the catalog's clock, microseconds since 1970 UTC. Left as it is, cases that need it are skipped."""
        pytest.skip("the catalog's clock cannot be set")

    @asynccontextmanager
    async def place(self) -> AsyncIterator[Place]:
        """A new tenant."""
        async with self.open_catalog() as catalog:
            yield Place(catalog, f"suite-{uuid4().hex}")

    @asynccontextmanager
    async def two_places(self) -> AsyncIterator[tuple[Place, Place]]:
        """A new tenant, seen by two clients where the catalog can have them."""
        async with self.place() as one:
            if not self.shares_data:
                yield one, one
                return
            async with self.open_catalog() as catalog:
                yield one, Place(catalog, one.tenant)
