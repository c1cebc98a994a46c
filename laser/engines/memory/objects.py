"""An ``Objects`` in a plain dict."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from anyio.lowlevel import checkpoint

from laser.engines._loop import HomeLoop
from laser.engines._objects import absent, check_key
from laser.errors import ClosedError

__all__ = ["MemoryObjects"]


class MemoryObjects:
    """An ``Objects`` in the memory of one process and one event loop. All is gone when it is closed.

    Must be made inside a running event loop.
    """

    def __init__(self) -> None:
        self._home = HomeLoop("the object store in memory")
        self._objects: dict[str, bytes] = {}
        self._closed = False

    async def put(self, key: str, chunks: AsyncIterator[bytes]) -> None:
        """See ``Objects.put``."""
        await self._enter()
        check_key(key)
        parts = [bytes(chunk) async for chunk in chunks]
        await self._enter()
        self._objects[key] = b"".join(parts)

    async def get(self, key: str, start: int, stop: int) -> bytes:
        """See ``Objects.get``."""
        await self._enter()
        data = self._objects.get(check_key(key))
        if data is None:
            raise absent("the object store in memory", key)
        return data[start:stop]

    async def delete(self, keys: Sequence[str]) -> None:
        """See ``Objects.delete``."""
        await self._enter()
        for key in keys:
            self._objects.pop(check_key(key), None)

    async def aclose(self) -> None:
        """See ``Objects.aclose``."""
        self._home.check()
        self._closed = True
        self._objects.clear()
        await checkpoint()

    def __repr__(self) -> str:
        return f"<MemoryObjects{' closed' if self._closed else ''}>"

    async def _enter(self) -> None:
        self._home.check()
        await checkpoint()
        if self._closed:
            raise ClosedError("the object store in memory was closed; open a new one")
