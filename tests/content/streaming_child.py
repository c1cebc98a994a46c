"""Puts and reads a large stream, and prints by how many bytes its memory grew at most.

``python -m tests.content.streaming_child URL OBJECTS BYTES``.
"""

from __future__ import annotations

import hashlib
import resource
import sys
from collections.abc import AsyncIterator

import anyio

import laser as ls

_CHUNK = bytes(range(256)) * 4_096


async def data(size: int) -> AsyncIterator[bytes]:
    for number in range(size // len(_CHUNK)):
        # Each chunk another one, so that nothing is the same twice.
        yield number.to_bytes(8, "big") + _CHUNK[8:]


async def main(url: str, objects: str, size: int) -> None:
    async with ls.Laser.connect(url, objects=objects or None) as laser:
        content = laser.content("t")
        warm = await content.put(_CHUNK)
        await content.get(warm)
        ref = await content.put(data(size))
        digest = hashlib.sha256()
        async for chunk in content.stream(ref):
            digest.update(chunk)
        assert digest.hexdigest() == ref.digest
        assert (await content.head(ref)).size == size
    # Kibibytes on Linux.
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
