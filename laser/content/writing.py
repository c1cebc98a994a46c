"""Putting content: bytes first, then the catalog."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from contextlib import aclosing
from functools import lru_cache
from typing import Final

import anyio

from laser.content.hashing import Hasher
from laser.content.sources import Source
from laser.content.store import ContentStore
from laser.errors import LaserError
from laser.limits import MAX_INLINE_BYTES
from laser.model.ids import new_conversation_id
from laser.ports.catalog import NewBlob

__all__ = ["put_source"]

_log = logging.getLogger("laser.content")
_TIDY_SECONDS: Final = 5.0


async def put_source(store: ContentStore, tenant: str, source: Source, children: Sequence[str]) -> str:
    """Puts content and returns its digest.

    Raises:
        NotFoundError: a child is absent. ConfigError: too large without object storage. Nothing was entered.
    """
    if source.whole and len(source.head) <= MAX_INLINE_BYTES:
        digest, _ = (await source.hashed()).finish()
        await store.catalog.put(tenant, NewBlob(digest, len(source.head), source.head), children)
        return digest
    store.need_objects()
    if source.again and not children:
        # A hash costs far less than an upload.
        digest, _ = (await source.hashed()).finish()
        if await store.catalog.admit(tenant, digest) is not None:
            return digest
    return await _upload(store, tenant, source, children)


async def _upload(store: ContentStore, tenant: str, source: Source, children: Sequence[str]) -> str:
    objects, catalog = store.need_objects(), store.catalog
    # A name that never comes again: what is deleted late under an old one cannot be this.
    key = f"{_tenant_digest(tenant)}/{new_conversation_id()}"
    hasher = Hasher()
    await catalog.begin_upload(key)
    try:
        async with aclosing(source.chunks(hasher)) as chunks:
            await objects.put(key, chunks)
        digest, parts = hasher.finish()
        entered = await catalog.put(tenant, NewBlob(digest, hasher.size, None, key, parts), children)
    except BaseException:
        # Not for long: where the store is down the collector does it.
        with anyio.move_on_after(_TIDY_SECONDS, shield=True):
            await _discard(store, key)
        raise
    if entered.key != key:
        await _discard(store, key)
    return digest


async def _discard(store: ContentStore, key: str) -> None:
    """Removes an object that nothing names. Where that fails the collector does it: the catalog knows the key."""
    try:
        # The answer to a put may have been lost after it was entered; only a key that is loose is nobody's.
        if not await store.catalog.abandon(key):
            return
        await store.need_objects().delete([key])
        await store.catalog.forget([key])
    except LaserError as error:
        _log.info("object %s stays until the next collection: %s", key, error)


@lru_cache(maxsize=1024)
def _tenant_digest(tenant: str) -> str:
    return hashlib.sha256(tenant.encode()).hexdigest()[:32]
