"""A ``KeyValue`` in plain dicts: the smallest one that keeps the port's promises."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from itertools import count

from anyio.lowlevel import checkpoint

from laser.engines._kv import conflict
from laser.engines._loop import HomeLoop
from laser.errors import ClosedError
from laser.limits import MAX_SCAN_BYTES
from laser.ports.clock import Clock, SystemClock
from laser.ports.kv import ABSENT, ANY, KvEntry, KvPage

__all__ = ["MemoryKeyValue"]


class MemoryKeyValue:
    """A ``KeyValue`` in the memory of one process and one event loop. Entries are gone when it is closed.

    Args:
        clock: decides what has expired.

    Must be made inside a running event loop.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._home = HomeLoop("the key-value store in memory")
        self._closed = False
        self._versions = count(1)
        self._namespaces: dict[str, _Namespace] = {}

    async def get(self, namespace: str, key: str) -> KvEntry | None:
        """See ``KeyValue.get``."""
        await self._enter()
        return self._living(namespace, key)

    async def set(
        self, namespace: str, key: str, value: bytes, *, expect: int = ANY, ttl_micros: int | None = None
    ) -> int:
        """See ``KeyValue.set``."""
        await self._enter()
        self._check(namespace, key, expect)
        expires_at = None if ttl_micros is None else self._clock.now_micros() + ttl_micros
        entry = KvEntry(key, value, next(self._versions), expires_at)
        self._namespaces.setdefault(namespace, _Namespace()).put(entry)
        return entry.version

    async def delete(self, namespace: str, key: str, *, expect: int = ANY) -> bool:
        """See ``KeyValue.delete``."""
        await self._enter()
        self._check(namespace, key, expect)
        there = self._living(namespace, key) is not None
        if there:
            self._namespaces[namespace].drop(key)
        return there

    async def scan(self, namespace: str, *, prefix: str = "", after: str | None = None, limit: int = 100) -> KvPage:
        """See ``KeyValue.scan``."""
        await self._enter()
        home = self._namespaces.get(namespace)
        entries: list[KvEntry] = []
        size = 0
        for key in home.keys(prefix, after) if home is not None else ():
            entry = self._living(namespace, key)
            if entry is None:
                continue
            if len(entries) == limit or size >= MAX_SCAN_BYTES:
                return KvPage(entries, entries[-1].key)
            entries.append(entry)
            size += len(entry.value)
        return KvPage(entries, None)

    async def aclose(self) -> None:
        """See ``KeyValue.aclose``."""
        self._home.check()
        self._closed = True
        self._namespaces.clear()
        await checkpoint()

    def __repr__(self) -> str:
        return f"<MemoryKeyValue{' closed' if self._closed else ''}>"

    async def _enter(self) -> None:
        # Cancellation and other tasks come in here and nowhere else: what follows is atomic.
        self._home.check()
        await checkpoint()
        if self._closed:
            raise ClosedError("the key-value store in memory was closed; open a new one")

    def _living(self, namespace: str, key: str) -> KvEntry | None:
        home = self._namespaces.get(namespace)
        entry = home.entries.get(key) if home is not None else None
        if home is None or entry is None:
            return None
        if entry.expires_at_micros is not None and entry.expires_at_micros <= self._clock.now_micros():
            home.drop(key)
            return None
        return entry

    def _check(self, namespace: str, key: str, expect: int) -> None:
        entry = self._living(namespace, key)
        found = ABSENT if entry is None else entry.version
        if expect not in (ANY, found):
            raise conflict(namespace, key, expect, found)


class _Namespace:
    """Entries by key, and the keys in the order of their UTF-8 bytes."""

    def __init__(self) -> None:
        self.entries: dict[str, KvEntry] = {}
        self._order: list[bytes] = []

    def put(self, entry: KvEntry) -> None:
        if entry.key not in self.entries:
            insort(self._order, entry.key.encode())
        self.entries[entry.key] = entry

    def drop(self, key: str) -> None:
        del self.entries[key]
        del self._order[bisect_left(self._order, key.encode())]

    def keys(self, prefix: str, after: str | None) -> list[str]:
        """The keys of a scan, as they are now."""
        begin = prefix.encode()
        start = bisect_left(self._order, begin)
        if after is not None:
            start = max(start, bisect_right(self._order, after.encode()))
        found = []
        for key in self._order[start:]:
            if not key.startswith(begin):
                break
            found.append(key.decode())
        return found
