"""Puts and reads a large stream, and prints the most memory that the process had, in bytes.

``python -m benchmarks.streaming URL BYTES [OBJECTS]``.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import AsyncIterator

import anyio

import laser as ls
from benchmarks.child import memory

_CHUNK = bytes(range(256)) * 4_096


async def data(size: int) -> AsyncIterator[bytes]:
    """A stream of so many bytes."""
    for number in range(size // len(_CHUNK)):
        # Each chunk another one, so that nothing is the same twice.
        yield number.to_bytes(8, "big") + _CHUNK[8:]


async def main(url: str, size: int, objects: str | None = None) -> None:
    """Does it on a log, and on an object store where one is named."""
    async with ls.Laser.connect(url, objects=objects) as laser:
        content = laser.content("t")
        warm = await content.put(_CHUNK)
        await content.get(warm)
        ref = await content.put(data(size))
        digest = hashlib.sha256()
        async for chunk in content.stream(ref):
            digest.update(chunk)
        assert digest.hexdigest() == ref.digest
        assert (await content.head(ref)).size == size
    print(memory()["peak_bytes"])


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
