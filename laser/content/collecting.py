"""Collection: what nothing protects goes: first holds of messages that are gone, then contents, then objects."""

from __future__ import annotations

import secrets
from typing import Final

import anyio
import msgspec

from laser.content.settling import Settling
from laser.content.store import ContentStore
from laser.errors import ConflictError, InvalidError, LaserError
from laser.ports.log import Log

__all__ = ["CollectReport", "collect"]

_LEASE: Final = "content-collector"
_LEASE_SECONDS = 30.0
_PAGE: Final = 500


class CollectReport(msgspec.Struct, frozen=True):
    """What a collection did.

    Attributes:
        elected: whether this process was the one to collect; ``False`` while another one does, and then nothing was
            done. dry_run: whether nothing was to be removed.
        scanned: contents looked at, over all passes. removed: contents removed, and ``size``, their bytes; of a dry
            run, those of the first pass, without the children that would be freed by it.
        objects: objects removed: of contents, and of uploads that came to nothing.
        passes: how often all contents were looked at; a removed parent frees its children for the next pass.
        complete: whether nothing was left to do: no bound was met and no object stayed.
        failure: why an object could not be removed, or a topic not be asked; the next collection tries again.
        released: holds that ended because the log has their message no more: retention, a purge, or the topic's
            deletion. unconfirmed: holds that ended because their message never came to the log. Of a dry run, those
            that would end; ``removed`` is then without what they would free. A message has a hold for each content.
    """

    elected: bool
    dry_run: bool
    scanned: int = 0
    removed: int = 0
    size: int = 0
    objects: int = 0
    passes: int = 0
    complete: bool = False
    failure: str | None = None
    released: int = 0
    unconfirmed: int = 0


async def collect(
    store: ContentStore,
    log: Log,
    *,
    tenant: str | None,
    grace_micros: int,
    upload_grace_micros: int,
    dry_run: bool,
    max_pages: int,
    page: int = _PAGE,
) -> CollectReport:
    """See ``Content.collect``."""
    if type(max_pages) is not int or max_pages < 1:
        raise InvalidError(f"max_pages: {max_pages!r} is not a whole number from 1", argument="max_pages")
    work = _Collection(store, log, tenant, grace_micros, upload_grace_micros, max_pages, page)
    if dry_run:
        await work.settle(None)
        await work.one_pass(None)
        return work.report(elected=True, dry_run=True)
    # A name of this very call: two calls of one process do not share a lease either.
    lease = _LEASE, secrets.token_hex(16)
    if not await store.catalog.lease(*lease, _LEASE_SECONDS):
        return work.report(elected=False, dry_run=False)
    try:
        await work.run(lease)
    except ConflictError as error:
        # The lease was lost, as in a process that was stopped for a minute: another one goes on from here.
        work.failure = str(error)
    finally:
        with anyio.move_on_after(5, shield=True):
            await store.catalog.lease(*lease, 0)
    return work.report(elected=True, dry_run=False)


class _Collection:
    """One run: its bounds, and what it has done so far."""

    def __init__(
        self,
        store: ContentStore,
        log: Log,
        tenant: str | None,
        grace_micros: int,
        upload_grace_micros: int,
        pages: int,
        page: int,
    ) -> None:
        self.failure: str | None = None
        self._store = store
        self._log = log
        self._tenant = tenant
        self._grace = grace_micros
        self._upload_grace = upload_grace_micros
        self._pages = pages
        self._page = page
        self._scanned = self._removed = self._size = self._objects = self._passes = 0
        self._released = self._unconfirmed = 0
        self._settled = self._complete = False

    async def run(self, lease: tuple[str, str]) -> None:
        """Holds first, then passes until one removes nothing, and the objects after each."""
        await self.settle(lease)
        while await self.one_pass(lease):
            if not await self._remove_objects(lease):
                return
        await self._remove_objects(lease)

    async def settle(self, lease: tuple[str, str] | None) -> None:
        """Ends the holds of messages that the log does not hold."""

        async def keep() -> None:
            if lease is not None:
                await self._keep(lease)

        settling = Settling(
            self._store.catalog,
            self._log,
            keep,
            tenant=self._tenant,
            grace_micros=self._grace,
            dry_run=lease is None,
            pages=self._pages,
            page=self._page,
        )
        try:
            await settling.run()
        finally:
            self._released, self._unconfirmed = settling.released, settling.unconfirmed
        self._settled, self.failure = settling.complete, settling.failure

    async def one_pass(self, lease: tuple[str, str] | None) -> bool:
        """Looks at all contents once. Returns whether another pass may find more."""
        before, after = self._removed, None
        while self._pages:
            self._pages -= 1
            if lease is not None:
                await self._keep(lease)
            found = await self._store.catalog.collect(
                lease=lease, grace_micros=self._grace, tenant=self._tenant, after=after, limit=self._page
            )
            self._scanned += found.scanned
            self._removed += found.removed
            self._size += found.size
            after = found.next
            if after is None:
                self._passes += 1
                self._complete = self._removed == before
                return not self._complete
        self._complete = False
        return False

    async def _remove_objects(self, lease: tuple[str, str]) -> bool:
        """Removes the objects of loose keys. Returns whether all went."""
        if self._store.objects is None:
            return True
        while True:
            await self._keep(lease)
            keys = await self._store.catalog.loose(upload_grace_micros=self._upload_grace, limit=self._page)
            if not keys:
                return True
            try:
                await self._store.objects.delete(keys)
            except LaserError as error:
                self.failure = str(error)
                self._complete = False
                return False
            await self._store.catalog.forget(keys)
            self._objects += len(keys)

    async def _keep(self, lease: tuple[str, str]) -> None:
        if not await self._store.catalog.lease(*lease, _LEASE_SECONDS):
            raise ConflictError("another process collects now")

    def report(self, *, elected: bool, dry_run: bool) -> CollectReport:
        """What was done."""
        return CollectReport(
            elected,
            dry_run,
            self._scanned,
            self._removed,
            self._size,
            self._objects,
            self._passes,
            self._complete and self._settled and self.failure is None,
            self.failure,
            self._released,
            self._unconfirmed,
        )
