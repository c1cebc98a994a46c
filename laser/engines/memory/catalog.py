"""A ``Catalog`` in plain dicts: the smallest one that keeps the port's promises."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count

import msgspec
from anyio.lowlevel import checkpoint

from laser.engines._catalog import lease_lost, missing, upload_lost
from laser.engines._loop import HomeLoop
from laser.errors import ClosedError
from laser.model.content import ContentHead
from laser.ports.catalog import Blob, CollectedPage, Hold, NewBlob
from laser.ports.clock import Clock, SystemClock

__all__ = ["MemoryCatalog"]


class MemoryCatalog:
    """A ``Catalog`` in the memory of one process and one event loop. All is gone when it is closed.

    Args:
        clock: decides what is old.

    Must be made inside a running event loop.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._home = HomeLoop("the content catalog in memory")
        self._closed = False
        self._ids = count(1)
        self._rows: dict[int, _Row] = {}
        self._by_digest: dict[tuple[str, str], _Row] = {}
        self._holds: dict[tuple[str, str], set[str]] = {}
        self._places: dict[tuple[str, str, str], str] = {}
        self._loose: dict[str, tuple[int, bool]] = {}
        self._leases: dict[str, tuple[str, int]] = {}

    async def begin_upload(self, key: str) -> None:
        """See ``Catalog.begin_upload``."""
        await self._enter()
        self._loose.setdefault(key, (self._clock.now_micros(), True))

    async def abandon(self, key: str) -> bool:
        """See ``Catalog.abandon``."""
        await self._enter()
        if key not in self._loose:
            return False
        self._loose[key] = self._loose[key][0], False
        return True

    async def put(self, tenant: str, new: NewBlob, children: Sequence[str] = ()) -> Blob:
        """See ``Catalog.put``."""
        await self._enter()
        named = self._need(tenant, children)
        if new.key is not None and not self._loose.get(new.key, (0, False))[1]:
            raise upload_lost(new.key)
        row = self._by_digest.get((tenant, new.digest))
        if row is None:
            blob = Blob(new.digest, new.size, new.data, new.key, new.parts, 0)
            row = _Row(next(self._ids), tenant, blob)
            self._rows[row.id] = self._by_digest[tenant, new.digest] = row
            if new.key is not None:
                del self._loose[new.key]
        elif new.key is not None:
            self._loose[new.key] = self._loose[new.key][0], False
        for child in named:
            if child is not row:
                row.children.add(child.id)
                child.parents.add(row.id)
        self._admit(*named, row)
        return msgspec.structs.replace(row.blob, data=None)

    async def admit(self, tenant: str, digest: str) -> Blob | None:
        """See ``Catalog.admit``."""
        await self._enter()
        row = self._by_digest.get((tenant, digest))
        if row is None:
            return None
        self._admit(row)
        return msgspec.structs.replace(row.blob, data=None)

    async def get(self, tenant: str, digest: str) -> Blob | None:
        """See ``Catalog.get``."""
        await self._enter()
        row = self._by_digest.get((tenant, digest))
        return None if row is None else row.blob

    async def head(self, tenant: str, digest: str) -> ContentHead | None:
        """See ``Catalog.head``."""
        await self._enter()
        row = self._by_digest.get((tenant, digest))
        if row is None:
            return None
        blob = row.blob
        counts = len(row.holders), len(row.parents), len(row.children)
        return ContentHead(digest, blob.size, blob.key is None, blob.admitted_at_micros, *counts)

    async def hold(self, tenant: str, holder: str, digests: Sequence[str], *, place: str | None = None) -> None:
        """See ``Catalog.hold``."""
        await self._enter()
        rows = self._need(tenant, digests)
        for row in rows:
            row.holders.add(holder)
            self._holds.setdefault((tenant, holder), set()).add(row.blob.digest)
            if place is not None:
                self._places[tenant, holder, row.blob.digest] = place
        self._admit(*rows)

    async def release(self, tenant: str, holder: str, digests: Sequence[str] | None = None) -> int:
        """See ``Catalog.release``."""
        await self._enter()
        return self._release(tenant, holder, digests)

    async def release_below(self, tenant: str, prefix: str, limit: int) -> int:
        """See ``Catalog.release_below``."""
        await self._enter()
        holds = [
            (holder, digest)
            for (owner, holder), digests in self._holds.items()
            if owner == tenant and holder.startswith(prefix)
            for digest in digests
        ]
        return sum(self._release(tenant, holder, [digest]) for holder, digest in holds[:limit])

    async def held(self, tenant: str, holder: str, *, after: str | None = None, limit: int = 100) -> list[str]:
        """See ``Catalog.held``."""
        await self._enter()
        return [digest for digest in sorted(self._holds.get((tenant, holder), ())) if digest > (after or "")][:limit]

    async def placed(self, *, tenant: str | None, after: Hold | None = None, limit: int = 500) -> list[Hold]:
        """See ``Catalog.placed``."""
        await self._enter()
        now = self._clock.now_micros()
        found: list[Hold] = []
        for (owner, holder, digest), place in self._places.items():
            if tenant in (None, owner):
                row = self._by_digest[owner, digest]
                age = max(0, now - row.blob.admitted_at_micros)
                found.append(Hold(owner, holder, row.id, digest, place, age))
        found.sort(key=_order)
        return [hold for hold in found if after is None or _order(hold) > _order(after)][:limit]

    async def settle(self, changes: Sequence[tuple[Hold, str | None]]) -> int:
        """See ``Catalog.settle``."""
        await self._enter()
        count = 0
        for hold, place in changes:
            name = hold.tenant, hold.holder, hold.digest
            if self._places.get(name) != hold.place:
                continue
            count += 1
            if place is None:
                self._release(hold.tenant, hold.holder, [hold.digest])
            else:
                self._places[name] = place
        return count

    async def lease(self, name: str, owner: str, seconds: float) -> bool:
        """See ``Catalog.lease``."""
        await self._enter()
        if not (self._has_lease(name, owner) or self._lease_is_free(name)):
            return False
        self._leases[name] = owner, self._clock.now_micros() + int(seconds * 1_000_000)
        return seconds > 0

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
        await self._enter()
        if lease is not None and not self._has_lease(*lease):
            raise lease_lost(lease[0])
        border = self._clock.now_micros() - grace_micros
        ids = sorted(row.id for row in self._rows.values() if row.id > (after or 0) and tenant in (None, row.tenant))
        page = ids[:limit]
        doomed = [
            row
            for row in map(self._rows.__getitem__, page)
            if row.blob.admitted_at_micros <= border and not row.holders and not row.parents
        ]
        if lease is not None:
            for row in doomed:
                self._remove(row)
        size = sum(row.blob.size for row in doomed)
        return CollectedPage(len(page), len(doomed), size, page[-1] if len(ids) > limit else None)

    async def loose(self, *, upload_grace_micros: int, limit: int = 500) -> list[str]:
        """See ``Catalog.loose``."""
        await self._enter()
        border = self._clock.now_micros() - upload_grace_micros
        found = [key for key, (since, uploading) in self._loose.items() if not uploading or since <= border][:limit]
        for key in found:
            self._loose[key] = self._loose[key][0], False
        return found

    async def forget(self, keys: Sequence[str]) -> None:
        """See ``Catalog.forget``."""
        await self._enter()
        for key in keys:
            self._loose.pop(key, None)

    async def aclose(self) -> None:
        """See ``Catalog.aclose``."""
        self._home.check()
        self._closed = True
        await checkpoint()

    def __repr__(self) -> str:
        return f"<MemoryCatalog{' closed' if self._closed else ''}>"

    async def _enter(self) -> None:
        # Cancellation and other tasks come in here and nowhere else: what follows is atomic.
        self._home.check()
        await checkpoint()
        if self._closed:
            raise ClosedError("the content catalog in memory was closed; open a new one")

    def _need(self, tenant: str, digests: Iterable[str]) -> list[_Row]:
        wanted = dict.fromkeys(digests)
        absent = [digest for digest in wanted if (tenant, digest) not in self._by_digest]
        if absent:
            raise missing(absent)
        return [self._by_digest[tenant, digest] for digest in wanted]

    def _admit(self, *rows: _Row) -> None:
        for row in rows:
            newest = max(row.blob.admitted_at_micros, self._clock.now_micros())
            row.blob = msgspec.structs.replace(row.blob, admitted_at_micros=newest)

    def _release(self, tenant: str, holder: str, digests: Sequence[str] | None) -> int:
        held = self._holds.get((tenant, holder), set())
        gone = held & (held if digests is None else set(digests))
        for digest in gone:
            self._by_digest[tenant, digest].holders.discard(holder)
            self._places.pop((tenant, holder, digest), None)
        held -= gone
        if not held:
            self._holds.pop((tenant, holder), None)
        return len(gone)

    def _has_lease(self, name: str, owner: str) -> bool:
        return not self._lease_is_free(name) and self._leases[name][0] == owner

    def _lease_is_free(self, name: str) -> bool:
        return name not in self._leases or self._leases[name][1] <= self._clock.now_micros()

    def _remove(self, row: _Row) -> None:
        for child in row.children:
            self._rows[child].parents.discard(row.id)
        del self._rows[row.id], self._by_digest[row.tenant, row.blob.digest]
        if row.blob.key is not None:
            self._loose[row.blob.key] = self._clock.now_micros(), False


def _order(hold: Hold) -> tuple[bytes, bytes, int]:
    return hold.tenant.encode(), hold.holder.encode(), hold.content


class _Row:
    """A content with what protects it."""

    def __init__(self, id: int, tenant: str, blob: Blob) -> None:
        self.id = id
        self.tenant = tenant
        self.blob = blob
        self.holders: set[str] = set()
        self.parents: set[int] = set()
        self.children: set[int] = set()
