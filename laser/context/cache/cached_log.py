"""A log with a read-through cache in front: a read asks the broker only for what is new since the last one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import anyio

from laser.context.cache.fold_cache import FoldCache
from laser.context.cache.topic_cache import TopicCache
from laser.context.cache.witness import Witness
from laser.context.telemetry import observe
from laser.limits import CONTEXT_READ_WINDOW
from laser.model.records import Appended, NewRecord
from laser.model.topics import TopicConfig, TopicInfo
from laser.model.window import Match, Page, Window, WindowQuery
from laser.ports.log import EngineInfo, Log

__all__ = ["CachedLog"]

_MAX_ATTEMPTS: Final = 3


class CachedLog:
    """A ``Log`` that remembers what it read, and gives the very answer that an uncached read would give.

    Every read first asks where the topic ends now, and looks at the last record that it knows. A topic that was made
    anew, purged, cut by retention, or that lost its end in a crash and grew again is noticed by that, and what was
    remembered of it is forgotten. So the cache is never trusted by time.

    Args:
        log: the log behind. max_bytes: memory for records, above 0; what was least recently read goes first.
        steady_clock: whether the log's timestamps never go back within a partition, see ``EngineInfo``.

    Attributes:
        witness: records that were seen at resume points.
    """

    def __init__(self, log: Log, *, max_bytes: int, steady_clock: bool) -> None:
        self._log = log
        self._max_bytes = max_bytes
        self._steady_clock = steady_clock
        self._topics: OrderedDict[tuple[str, str], TopicCache] = OrderedDict()
        self._folds = FoldCache(log)
        self._turn = anyio.Lock(fast_acquire=True)
        self.witness = Witness()

    @property
    def size(self) -> int:
        """Bytes of records that are held now."""
        return self._folds.size + sum(cache.size for cache in self._topics.values())

    async def window(self, stream: str, topic: str, query: WindowQuery) -> Window | None:
        """See ``Log.window``."""
        if query.stops is not None or query.size > CONTEXT_READ_WINDOW:
            # What ends at an old checkpoint lies outside of what is kept.
            return await self._log.window(stream, topic, query)
        newest = query.newest if self._steady_clock else None
        cache = self._cache(stream, topic)
        arrived = anyio.current_time()
        async with cache.lock:
            for _ in range(_MAX_ATTEMPTS):
                if not cache.is_fresh_for(arrived):
                    with observe("cache.refresh", stream, topics=topic):
                        await cache.refresh(query.match)
                if cache.info is None:
                    self._topics.pop((stream, topic), None)
                    return None
                window = await cache.window(query, newest)
                if window is not None:
                    self._trim(cache)
                    return window
                # Something changed between two reads of this one answer: begin again from nothing.
                cache.forget()
                arrived = anyio.current_time()
        return await self._log.window(stream, topic, query)

    async def read(
        self, stream: str, topic: str, partition: int, *, start: int, limit: int, match: Match | None = None
    ) -> Page:
        """See ``Log.read``."""
        if match is None:
            return await self._log.read(stream, topic, partition, start=start, limit=limit)
        page = await self._folds.read(stream, topic, partition, start, limit, match)
        self._trim(None)
        return page

    async def look(
        self, stream: str, topic: str, partition: int, *, start: int, limit: int
    ) -> tuple[TopicInfo | None, Page | None]:
        """See ``Log.look``."""
        return await self._log.look(stream, topic, partition, start=start, limit=limit)

    async def append(
        self, stream: str, topic: str, records: Sequence[NewRecord], *, key: str, find_first: bool = False
    ) -> Appended:
        """See ``Log.append``."""
        return await self._log.append(stream, topic, records, key=key, find_first=find_first)

    async def ensure_topic(self, stream: str, topic: str, config: TopicConfig) -> TopicInfo:
        """See ``Log.ensure_topic``."""
        return await self._log.ensure_topic(stream, topic, config)

    async def topic(self, stream: str, topic: str) -> TopicInfo | None:
        """See ``Log.topic``."""
        return await self._log.topic(stream, topic)

    async def topics(self, stream: str, names: Sequence[str] | None = None) -> tuple[TopicInfo, ...]:
        """See ``Log.topics``."""
        return await self._log.topics(stream, names)

    async def add_partitions(self, stream: str, topic: str, count: int) -> TopicInfo:
        """See ``Log.add_partitions``."""
        return await self._log.add_partitions(stream, topic, count)

    async def purge(self, stream: str, topic: str) -> None:
        """See ``Log.purge``."""
        await self._log.purge(stream, topic)

    async def delete_topic(self, stream: str, topic: str) -> None:
        """See ``Log.delete_topic``."""
        await self._log.delete_topic(stream, topic)

    async def describe(self) -> EngineInfo:
        """See ``Log.describe``."""
        return await self._log.describe()

    async def aclose(self) -> None:
        """See ``Log.aclose``."""
        self._topics.clear()
        self._folds.clear()
        await self._log.aclose()

    def _cache(self, stream: str, topic: str) -> TopicCache:
        key = (stream, topic)
        cache = self._topics.get(key)
        if cache is None:
            cache = self._topics[key] = TopicCache(self._log, stream, topic, self._turn)
        self._topics.move_to_end(key)
        return cache

    def _trim(self, used: TopicCache | None) -> None:
        if self.size <= self._max_bytes:
            return
        self._folds.shrink(self._max_bytes // 2)
        for key, cache in list(self._topics.items()):
            if self.size <= self._max_bytes:
                return
            # A cache in use is not taken from under its reader.
            if cache is not used and not cache.lock.locked():
                del self._topics[key]
        if used is not None:
            used.shrink(max(0, self._max_bytes - self._folds.size))
        self._folds.shrink(max(0, self._max_bytes - (0 if used is None else used.size)))
