"""The content catalog: which bytes a tenant has, who holds them, and when nobody does any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from laser.model.content import ContentHead
from laser.model.records import Appended, NewRecord

__all__ = ["Blob", "Catalog", "CollectedPage", "Hold", "JointAppends", "NewBlob"]


class NewBlob(msgspec.Struct, frozen=True, gc=False):
    """Content to be entered.

    Attributes:
        digest: SHA-256, 64 hexadecimal digits. size: bytes.
        data: the bytes, at most ``MAX_INLINE_BYTES``; or ``None``, and then
        key: names the object that holds them, written already and announced by ``begin_upload``.
        parts: of an object, the first 16 bytes of the SHA-256 of each ``CONTENT_PART_BYTES`` of it, one after another.
    """

    digest: str
    size: int
    data: bytes | None
    key: str | None = None
    parts: bytes = b""


class Blob(msgspec.Struct, frozen=True, gc=False):
    """Content as entered. As ``NewBlob``; ``admitted_at_micros``: microseconds since 1970 UTC."""

    digest: str
    size: int
    data: bytes | None
    key: str | None
    parts: bytes
    admitted_at_micros: int


class Hold(msgspec.Struct, frozen=True, gc=False):
    """A hold that was given a place.

    Attributes:
        tenant, holder: whose. content: the catalog's number of what is held, with them the order of holds.
        digest: of the content. place: as given to ``hold``.
        age_micros: how long ago the content was last admitted, by the catalog's clock. The hold is at least as old.
    """

    tenant: str
    holder: str
    content: int
    digest: str
    place: str
    age_micros: int


class CollectedPage(msgspec.Struct, frozen=True, gc=False):
    """What one page of a collection found.

    Attributes:
        scanned: contents that were looked at. removed: those that nothing protected; of a dry run, those that would go.
        size: their bytes. next: pass it as ``after`` for the next page; ``None`` at the end.
    """

    scanned: int
    removed: int
    size: int
    next: int | None


class Catalog(Protocol):
    """A durable catalog of immutable contents, apart by tenant.

    A content is *admitted* when it is put, admitted, held, or named as a child: each of these sets its time of
    admission to now, never back. It is *protected* while a holder holds it or another content names it as a child.
    Reading neither admits nor protects.

    **Atomicity.** Every method is one transaction: all of it happens or nothing, it survives the death of the process
    when it returns, and every later call of every process sees it. Of a ``hold``, ``put`` or ``admit`` and a
    ``collect`` at the same time one comes first: a content that was protected or admitted is not removed, and one that
    was removed is reported as missing. Nothing is protected that is not there.

    **Tenants.** No method with a tenant shows, changes or protects anything of another. Equal bytes of two tenants are
    two contents.

    **Objects.** The catalog itself never touches them. It remembers every key that may have an object and that no
    content names (a *loose* key): from ``begin_upload`` until ``put`` names it, and from the removal of its content
    until ``forget``. An object is deleted only after the catalog has made its key loose, and a key is used once.

    **Errors of every method** are those of ``KeyValue``. Names, digests and sizes have been checked by the caller
    (``laser.limits``).
    """

    async def begin_upload(self, key: str) -> None:
        """Makes a new key loose, before anything is written under it."""
        ...

    async def abandon(self, key: str) -> bool:
        """Ends an upload that came to nothing: its key stays loose, and a ``put`` of it fails from now on.

        Returns:
            Whether the key is loose. Where it is not, a content names it, and its object must stay.
        """
        ...

    async def put(self, tenant: str, new: NewBlob, children: Sequence[str] = ()) -> Blob:
        """Enters a content, or admits the one that has the same bytes.

        Args:
            new: its ``key`` stops being loose if it is used. Where the content is there already, its own key or data
                stay, and the new key stays loose, to be forgotten at once.
            children: digests of contents of the tenant that it names; added to those it has, and admitted.

        Returns:
            The content as it is now, without its data. Its key tells whether the new one was used.

        Raises:
            NotFoundError: a child is absent; nothing was entered.
            ConflictError: the key is not loose any more: the upload took so long that it was collected.
        """
        ...

    async def admit(self, tenant: str, digest: str) -> Blob | None:
        """Admits a content and returns it without its data; ``None`` where it is absent."""
        ...

    async def get(self, tenant: str, digest: str) -> Blob | None:
        """A content with its data, where the catalog keeps them; ``None`` where it is absent."""
        ...

    async def head(self, tenant: str, digest: str) -> ContentHead | None:
        """What is known of a content; ``None`` where it is absent."""
        ...

    async def hold(self, tenant: str, holder: str, digests: Sequence[str], *, place: str | None = None) -> None:
        """Has a holder hold contents, beside those that it holds. Holding twice is as holding once.

        Args:
            place: where the holder is, in words of the caller's, at most ``MAX_PLACE_BYTES`` bytes; ``placed`` tells
                it again. It replaces the one that these holds had; ``None`` leaves it.

        Raises:
            NotFoundError: one of them is absent; none was held.
        """
        ...

    async def release(self, tenant: str, holder: str, digests: Sequence[str] | None = None) -> int:
        """Has a holder let go of contents, all of them without ``digests``. Returns how many it held."""
        ...

    async def release_below(self, tenant: str, prefix: str, limit: int) -> int:
        """Has every holder whose name begins with a prefix let go of everything, at most ``limit`` holds a call.

        Returns:
            How many holds there were; fewer than ``limit`` at the end.
        """
        ...

    async def held(self, tenant: str, holder: str, *, after: str | None = None, limit: int = 100) -> list[str]:
        """Digests that a holder holds, ascending, after one of them."""
        ...

    async def placed(self, *, tenant: str | None, after: Hold | None = None, limit: int = 500) -> list[Hold]:
        """Holds that have a place, in the order of tenant, holder and content, after one of them.

        Args:
            tenant: only its holds; ``None`` for everybody's.
        """
        ...

    async def settle(self, changes: Sequence[tuple[Hold, str | None]]) -> int:
        """Gives holds another place, or ends them (``None``); each only while its place is what it was.

        Returns:
            How many were changed.
        """
        ...

    async def lease(self, name: str, owner: str, seconds: float) -> bool:
        """Takes or keeps a lease, so that of several processes one does a work.

        Args:
            owner: a name that nobody else has. seconds: from now by the catalog's clock; 0 gives the lease up.

        Returns:
            Whether the owner has it now; ``False`` while another has it.
        """
        ...

    async def collect(
        self,
        *,
        lease: tuple[str, str] | None,
        grace_micros: int,
        tenant: str | None = None,
        after: int | None = None,
        limit: int = 500,
    ) -> CollectedPage:
        """Looks at a page of contents and removes those that are neither protected nor admitted within the grace.

        With a content go its naming of children, which may be what protected them: they are found by a later page or
        pass. Its key becomes loose.

        Args:
            lease: name and owner; removes only while the owner has it. ``None``: a dry run, removes nothing.
            tenant: only its contents. limit: contents to look at, from 1.

        Raises:
            ConflictError: the owner does not have the lease any more; nothing was removed.
        """
        ...

    async def loose(self, *, upload_grace_micros: int, limit: int = 500) -> list[str]:
        """Keys whose objects are to be deleted: of removed contents, and of uploads begun longer ago than the grace.

        Those of uploads are not theirs to use from now on: their ``put`` fails.
        """
        ...

    async def forget(self, keys: Sequence[str]) -> None:
        """Forgets loose keys, once their objects are gone."""
        ...

    async def aclose(self) -> None:
        """Closes the catalog. Calling it again does nothing."""
        ...


class JointAppends(Protocol):
    """A catalog in the same file as a log: a record and its hold are written together or not at all."""

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
        """Appends a record as ``Log.append`` does, and holds contents for as long as the log has the record.

        When the log removes the record, by retention or with its topic, the hold goes with it.

        Raises:
            NotFoundError: a content, the topic or the stream is absent; nothing was written. Others as ``Log.append``.
        """
        ...
