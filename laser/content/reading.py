"""Reading content: each byte is checked before it is given out."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from typing import Final

import anyio.to_thread

from laser.content.hashing import check_part, check_whole, damaged
from laser.content.store import ContentStore
from laser.errors import NotFoundError, StorageError
from laser.limits import CONTENT_PART_BYTES
from laser.ports.catalog import Blob

__all__ = ["find", "read_range", "read_whole", "stream_range", "unknown"]

_WHOLE_BYTES: Final = 64 << 20
_READ_PARTS: Final = 4


async def find(store: ContentStore, tenant: str, digest: str) -> Blob:
    """What the catalog has of a content.

    Raises:
        NotFoundError: the tenant has none such.
    """
    blob = await store.catalog.get(tenant, digest)
    if blob is None:
        raise unknown(digest)
    return blob


def unknown(digest: str) -> NotFoundError:
    """The tenant has no such content."""
    return NotFoundError(
        f"content sha256:{digest} does not exist for this tenant: never put, or collected since nothing held it"
    )


async def read_whole(store: ContentStore, tenant: str, digest: str) -> bytes:
    """All bytes of a content, checked by their digest."""
    blob = await find(store, tenant, digest)
    if blob.data is not None:
        check_whole(digest, blob.size, blob.data, "the catalog")
        return blob.data
    if blob.size > _WHOLE_BYTES:
        return b"".join([chunk async for chunk in stream_range(store, tenant, digest, 0, None)])
    data, blob = await _fetch(store, tenant, blob, 0, blob.size)
    await anyio.to_thread.run_sync(check_whole, digest, blob.size, data, "the object store")
    return data


async def read_range(store: ContentStore, tenant: str, digest: str, start: int, stop: int | None) -> bytes:
    """Some bytes of a content; those past its end are left out."""
    return b"".join([chunk async for chunk in stream_range(store, tenant, digest, start, stop)])


async def stream_range(
    store: ContentStore, tenant: str, digest: str, start: int, stop: int | None
) -> AsyncGenerator[bytes, None]:
    """Some bytes of a content, in pieces of at most ``CONTENT_PART_BYTES``."""
    blob = await find(store, tenant, digest)
    end = blob.size if stop is None else min(stop, blob.size)
    if blob.data is not None:
        check_whole(digest, blob.size, blob.data, "the catalog")
        if start < end:
            yield blob.data[start:end]
        return
    # A range from the beginning to the end is checked as a whole too, once more at its end.
    whole = hashlib.sha256() if start == 0 and end == blob.size else None
    number, last = start // CONTENT_PART_BYTES, -(-end // CONTENT_PART_BYTES)
    while start < end:
        upto = min(number + _READ_PARTS, last)
        first = number * CONTENT_PART_BYTES
        data, blob = await _fetch(store, tenant, blob, first, min(upto * CONTENT_PART_BYTES, blob.size))
        view = memoryview(data)
        while number < upto:
            at = number * CONTENT_PART_BYTES
            part = view[at - first : at - first + CONTENT_PART_BYTES]
            await anyio.to_thread.run_sync(check_part, digest, blob.parts, number, part, "the object store")
            if whole is not None:
                await anyio.to_thread.run_sync(whole.update, part)
            yield bytes(part[max(start - at, 0) : end - at])
            number += 1
            start = number * CONTENT_PART_BYTES
    if whole is not None and whole.hexdigest() != digest:
        raise damaged(digest, "the object store")


async def _fetch(store: ContentStore, tenant: str, blob: Blob, start: int, stop: int) -> tuple[bytes, Blob]:
    """Bytes of a content's object, and the content as it is by now."""
    while True:
        assert blob.key is not None
        try:
            data = await store.need_objects().get(blob.key, start, stop)
        except NotFoundError as error:
            # Perhaps collected and put again since it was looked up.
            now = await find(store, tenant, blob.digest)
            if now.key == blob.key or now.key is None:
                raise StorageError(
                    f"content sha256:{blob.digest}: its object {blob.key} is gone from the object store; restore it "
                    "from a backup"
                ) from error
            blob = now
            continue
        if len(data) != stop - start:
            raise damaged(blob.digest, "the object store")
        return data, blob
