"""A tenant's content, as users see it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from datetime import timedelta
from typing import Final

import msgspec

from laser.content import reading
from laser.content.arguments import check_holder, check_range, check_refs, check_tenant, digest_of, micros_of
from laser.content.collecting import CollectReport, collect
from laser.content.previews import PREVIEW_BYTES, is_text, preview_of
from laser.content.sources import ContentSource, media_type_of, open_source
from laser.content.store import ContentConnection
from laser.content.writing import put_source
from laser.errors import InvalidError, LimitError
from laser.limits import CONTENT_GRACE_SECONDS, MAX_INLINE_BYTES, MAX_PAYLOAD_BYTES
from laser.model.content import ContentEntry, ContentHead, ContentRef
from laser.model.ids import new_conversation_id
from laser.model.messages import ContextMessage

__all__ = ["Content", "check_content", "collect_content"]

_RELEASE_PAGE: Final = 1_000


class Content:
    """Immutable bytes of one tenant, known by their SHA-256. ``Laser.content`` makes it, without any I/O.

    Equal bytes are kept once. Another tenant's bytes cannot be reached, also not by who knows their digest. Content
    stays as long as a *holder* holds it, or a content that stays names it as its child; and else for a grace of seven
    days since it was last put or admitted. Reading does not renew that. What nothing keeps, ``collect`` removes.

    **Order for a user of the bare methods:** put, hold, and then write down the reference; so no written reference ever
    breaks. ``ContextScope.append`` and ``append_content`` do so by themselves.

    **Errors of every method.** ``InvalidError`` and ``LimitError`` name a bad argument; nothing was written.
    ``NotFoundError``: the tenant has no such content. ``StorageError``: bytes are not what was put; they are never
    returned. ``ConfigError``: no catalog, or no object storage for what is larger than 64 KiB. ``ClosedError`` and the
    kinds of ``TransportError``: see ``Laser``.
    """

    def __init__(self, laser: ContentConnection, tenant: str, over: int = MAX_INLINE_BYTES) -> None:
        self._laser = laser
        self._tenant = check_tenant(tenant)
        if type(over) is not int or not 0 <= over <= MAX_PAYLOAD_BYTES:
            raise InvalidError(
                f"over: {over!r} is not a whole number of bytes from 0 to {MAX_PAYLOAD_BYTES}", argument="over"
            )
        self._over = over

    @property
    def tenant(self) -> str:
        """Whose content it is."""
        return self._tenant

    @property
    def over(self) -> int:
        """Payloads of more bytes than this are kept as content when they are appended with ``content=``."""
        return self._over

    async def put(
        self,
        data: ContentSource,
        *,
        media_type: str | None = None,
        provider_kind: str | None = None,
        children: Iterable[ContentRef | str] = (),
    ) -> ContentRef:
        """Puts bytes, whole or not at all. When it returns, they are there, and not held by anybody yet.

        Args:
            data: bytes, text, a path of a file, or an async iterator of bytes. Files and iterators are streamed in
                bounded memory. More than ``MAX_INLINE_BYTES`` go to object storage.
            media_type: ``None`` for text or unknown bytes. provider_kind: see ``ContentRef``. Both are part of the
                reference only.
            children: contents that these bytes name, and that are to stay as long as they do: a manifest's files.

        Raises:
            NotFoundError: a child is absent; nothing was put. ConflictError: the upload took longer than the grace.
        """
        digests = check_refs(children, "children")
        # Checked before anything is read.
        ref = ContentRef("0" * 64, media_type_of(data) if media_type is None else media_type, provider_kind)
        store = await self._laser.open_content()
        source = await open_source(data)
        try:
            digest = await put_source(store, self._tenant, source, digests)
        finally:
            await source.aclose()
        return ContentRef(digest, ref.media_type, ref.provider_kind)

    async def get(self, ref: ContentRef | str, *, start: int = 0, stop: int | None = None) -> bytes:
        """Bytes of a content, checked: all of them, or those from ``start`` up to, not including, ``stop``.

        What lies past the end is left out.
        """
        digest = digest_of(ref)
        check_range(start, stop)
        store = await self._laser.open_content()
        if start == 0 and stop is None:
            return await reading.read_whole(store, self._tenant, digest)
        return await reading.read_range(store, self._tenant, digest, start, stop)

    async def stream(
        self, ref: ContentRef | str, *, start: int = 0, stop: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Bytes of a content in pieces of at most 1 MiB, each checked before it is given out, in bounded memory."""
        digest = digest_of(ref)
        check_range(start, stop)
        store = await self._laser.open_content()
        async with aclosing(reading.stream_range(store, self._tenant, digest, start, stop)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def head(self, ref: ContentRef | str) -> ContentHead:
        """What is known of a content, without its bytes."""
        digest = digest_of(ref)
        store = await self._laser.open_content()
        found = await store.catalog.head(self._tenant, digest)
        if found is None:
            raise reading.unknown(digest)
        return found

    async def admit(self, ref: ContentRef | str) -> None:
        """Begins the grace of a content anew, as another put of it would."""
        digest = digest_of(ref)
        store = await self._laser.open_content()
        if await store.catalog.admit(self._tenant, digest) is None:
            raise reading.unknown(digest)

    async def hold(self, holder: str, refs: Iterable[ContentRef | str]) -> None:
        """Has a holder hold contents, beside those that it holds already; all or none.

        Args:
            holder: a name of yours, such as ``workspace:site``, 1 to ``MAX_HOLDER_BYTES`` bytes. Names that begin with
                ``record:`` are those of messages; a hold that you make under one stays until you release it.
        """
        name, digests = check_holder(holder), check_refs(refs, "refs")
        store = await self._laser.open_content()
        if digests:
            await store.catalog.hold(self._tenant, name, digests)

    async def release(self, holder: str, refs: Iterable[ContentRef | str] | None = None) -> int:
        """Has a holder let go of contents; of all without ``refs``. Returns how many it held."""
        name = check_holder(holder)
        digests = None if refs is None else check_refs(refs, "refs")
        store = await self._laser.open_content()
        return await store.catalog.release(self._tenant, name, digests)

    async def release_below(self, prefix: str) -> int:
        """Has every holder whose name begins with a prefix let go of everything. Returns how many holds there were.

        ``release_below(record_holder(stream, topic, conversation))`` is for a conversation whose content is to go
        though its messages stay. What the log itself has removed, ``collect`` finds.
        """
        check_holder(prefix, "prefix")
        store = await self._laser.open_content()
        total = 0
        while True:
            gone = await store.catalog.release_below(self._tenant, prefix, _RELEASE_PAGE)
            total += gone
            if gone < _RELEASE_PAGE:
                return total

    async def held(self, holder: str) -> list[str]:
        """Digests of what a holder holds, ascending."""
        name = check_holder(holder)
        store = await self._laser.open_content()
        found: list[str] = []
        while True:
            page = await store.catalog.held(self._tenant, name, after=found[-1] if found else None, limit=_RELEASE_PAGE)
            found += page
            if len(page) < _RELEASE_PAGE:
                return found

    async def entry(
        self,
        ref: ContentRef,
        *,
        kind: str = "content",
        source: str = "append",
        entry_id: str | None = None,
        tokens: int | None = None,
        preview: str | None = None,
        origin: str | None = None,
        provenance_ref: ContentRef | None = None,
    ) -> ContentEntry:
        """An entry for a content that is there, to be appended with ``ContextScope.append_content``.

        Args:
            kind, source, origin, provenance_ref: see ``ContentEntry``.
            entry_id: a name within the conversation; ``None`` makes one.
            tokens: what it costs a model; ``None`` estimates it for text, and leaves it open for anything else.
            preview: ``None`` takes the beginning of a text.
        """
        if not isinstance(ref, ContentRef):
            raise InvalidError(f"ref: expected a ContentRef, got {type(ref).__name__}", argument="ref")
        size = (await self.head(ref)).size
        if is_text(ref.media_type):
            if preview is None:
                preview = preview_of(await self.get(ref, start=0, stop=PREVIEW_BYTES))
            if tokens is None:
                tokens = (size + 3) // 4
        return ContentEntry(
            ref,
            size,
            tokens,
            kind,
            source,
            new_conversation_id() if entry_id is None else entry_id,
            preview or "",
            origin,
            provenance_ref,
        )

    async def resolve(self, message: ContextMessage) -> ContextMessage:
        """The message with its bytes as payload, where it refers to content; any other as it is.

        Raises:
            LimitError: the content is larger than a payload can be; read it with ``stream``.
        """
        entry = message.content
        if entry is None:
            return message
        if entry.size > MAX_PAYLOAD_BYTES:
            raise LimitError(
                f"message {message.id} of topic {message.topic!r}: its content has {entry.size} bytes, allowed are "
                f"{MAX_PAYLOAD_BYTES} in a message; read it with Content.stream(message.content.ref)",
                argument="message",
                size=entry.size,
                limit=MAX_PAYLOAD_BYTES,
            )
        return msgspec.structs.replace(message, payload=await self.get(entry.ref))

    async def collect(
        self,
        *,
        grace: timedelta | float = CONTENT_GRACE_SECONDS,
        upload_grace: timedelta | float = CONTENT_GRACE_SECONDS,
        dry_run: bool = False,
        max_pages: int = 1_000_000,
    ) -> CollectReport:
        """Removes what nothing keeps of this tenant, and objects that no content of anybody names.

        Safe beside everything else, in any number of processes: one of them is elected, the others do nothing. First
        the log is asked for messages that hold content: where it has them no more, by retention, a purge or the
        deletion of their topic, or where they never came in seven days, their holds end (``laser.content.settling``
        says when exactly; in doubt they stay). Then the catalog forgets, and then the object goes.
        ``Laser.collect_content`` does it for all tenants.

        Args:
            grace: seconds, or a ``timedelta``, that content stays since its last put or admission.
            upload_grace: how long an upload may take before it is taken for dead.
            dry_run: only report which holds would end, and what the first pass would remove as they are.
            max_pages: of 500 contents that may be looked at, and as many of 500 holds.
        """
        return await collect_content(self._laser, self._tenant, grace, upload_grace, dry_run, max_pages)

    def __repr__(self) -> str:
        return f"Content(tenant={self._tenant!r})"


def check_content(value: object, argument: str) -> None:
    """Refuses what is no tenant's content.

    Raises:
        InvalidError: so it is.
    """
    if not isinstance(value, Content):
        raise InvalidError(
            f"{argument}: expected a tenant's content, as laser.content(tenant) gives it, got {type(value).__name__}",
            argument=argument,
        )


async def collect_content(
    laser: ContentConnection,
    tenant: str | None,
    grace: timedelta | float,
    upload_grace: timedelta | float,
    dry_run: bool,
    max_pages: int,
) -> CollectReport:
    """See ``Content.collect``; all tenants without one."""
    grace_micros, upload_grace_micros = micros_of(grace, "grace"), micros_of(upload_grace, "upload_grace")
    return await collect(
        await laser.open_content(),
        laser.open_log(),
        tenant=tenant,
        grace_micros=grace_micros,
        upload_grace_micros=upload_grace_micros,
        dry_run=dry_run,
        max_pages=max_pages,
    )
