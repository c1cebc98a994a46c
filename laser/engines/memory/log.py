"""A ``Log`` in plain lists: the smallest one that keeps the port's promises."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import count

from anyio.lowlevel import checkpoint

from laser.engines._loop import HomeLoop
from laser.errors import ClosedError, InvalidError, LimitError, NotFoundError, UnsupportedError
from laser.limits import CONTEXT_READ_WINDOW, MAX_PARTITIONS
from laser.model.records import Appended, LogRecord, NewRecord
from laser.model.topics import PartitionInfo, TopicConfig, TopicInfo
from laser.model.window import Match, Page, Window, WindowQuery, window_bounds
from laser.ports.clock import Clock, SystemClock
from laser.ports.log import EngineInfo
from laser.wire.routing import route

__all__ = ["MemoryLog"]


class MemoryLog:
    """A ``Log`` in the memory of one process and one event loop.

    Records are gone when it is closed. The only durability is ``memory``. Retention is kept exactly, at every call,
    but the newest record of a partition is never removed for its size.

    Args:
        clock: the broker's clock.

    Must be made inside a running event loop.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._home = HomeLoop("the log in memory")
        self._closed = False
        self._streams: dict[str, _Stream] = {}
        self._ids = count(1)
        self._created_at = 0
        self._last_ts = 0

    async def ensure_topic(self, stream: str, topic: str, config: TopicConfig) -> TopicInfo:
        """See ``Log.ensure_topic``. ``UnsupportedError`` for any durability but ``memory``."""
        if config.durability not in (None, "memory"):
            raise UnsupportedError(f"durability: a log in memory cannot give {config.durability!r}")
        if config.partitions < 1:
            raise InvalidError(f"partitions: {config.partitions} is not 1 or more", argument="partitions")
        _check_partitions(config.partitions, "partitions")
        await self._enter()
        home = self._streams.get(stream)
        if home is None:
            home = self._streams[stream] = _Stream(stream, next(self._ids), self._new_time())
        if topic not in home.topics:
            home.topics[topic] = _Topic(home, topic, next(self._ids), self._new_time(), config)
            home.topics[topic].grow(config.partitions, self._new_time())
        return home.topics[topic].info(self._clock)

    async def topic(self, stream: str, topic: str) -> TopicInfo | None:
        """See ``Log.topic``."""
        await self._enter()
        found = self._find(stream, topic)
        return None if found is None else found.info(self._clock)

    async def topics(self, stream: str, names: Sequence[str] | None = None) -> tuple[TopicInfo, ...]:
        """See ``Log.topics``."""
        await self._enter()
        home = self._streams.get(stream)
        if home is None:
            return ()
        wanted = home.topics.keys() if names is None else home.topics.keys() & set(names)
        return tuple(home.topics[name].info(self._clock) for name in sorted(wanted))

    async def append(
        self, stream: str, topic: str, records: Sequence[NewRecord], *, key: str, find_first: bool = False
    ) -> Appended:
        """See ``Log.append``."""
        await self._enter()
        found = self._get(stream, topic)
        number = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big")
        part = found.partitions[number % len(found.partitions)]
        known: dict[int, int] = {}
        if find_first:
            wanted = set(map(_identity, records))
            # Before partitions were added the key's partition was another one.
            for size in reversed(found.sizes):
                candidate = found.partitions[number % size]
                newest = reversed(candidate.records[-CONTEXT_READ_WINDOW:])
                there = {held.id: held.offset for held in newest if _identity(held) in wanted}
                if len(there) > len(known):
                    part, known = candidate, there
        # Later than any append before it, to whatever topic: readers merge by time, and what was read stays read.
        self._last_ts = max(self._last_ts + 1, self._clock.now_micros())
        offsets = []
        for record in records:
            offset = known.get(record.id)
            if offset is None:
                offset = part.end
                held = LogRecord(part.id, offset, record.id, self._last_ts, record.headers, record.payload)
                part.add(held)
            offsets.append(offset)
        found.retain(self._clock)
        return Appended(found.home.id, found.id, part.id, tuple(offsets))

    async def read(
        self, stream: str, topic: str, partition: int, *, start: int, limit: int, match: Match | None = None
    ) -> Page:
        """See ``Log.read``."""
        await self._enter()
        found = self._get(stream, topic)
        if not 0 <= partition < len(found.partitions):
            raise NotFoundError(
                f"topic {topic!r} of stream {stream!r} has no partition {partition}", stream=stream, topic=topic
            )
        found.retain(self._clock)
        return _page(found.partitions[partition], start, limit, match)

    async def look(
        self, stream: str, topic: str, partition: int, *, start: int, limit: int
    ) -> tuple[TopicInfo | None, Page | None]:
        """See ``Log.look``. Both are as of the same moment."""
        await self._enter()
        found = self._find(stream, topic)
        if found is None:
            return None, None
        info = found.info(self._clock)
        if not 0 <= partition < len(found.partitions):
            return info, None
        return info, _page(found.partitions[partition], start, limit, None)

    async def window(self, stream: str, topic: str, query: WindowQuery) -> Window | None:
        """See ``Log.window``."""
        await self._enter()
        found = self._find(stream, topic)
        if found is None:
            return None
        info = found.info(self._clock)
        records: list[LogRecord] = []
        for part in found.partitions:
            left = query.newest
            chosen = []
            for record in reversed(part.slice(*window_bounds(info.partitions[part.id], query))):
                routed = route(record.headers, record.payload)
                if not routed.meets(query.match):
                    continue
                if routed.conversation_id is not None and left is not None:
                    if left == 0:
                        continue
                    left -= 1
                chosen.append(record)
            records += reversed(chosen)
        return Window(info, records)

    async def add_partitions(self, stream: str, topic: str, count: int) -> TopicInfo:
        """See ``Log.add_partitions``."""
        if count < 1:
            raise InvalidError(f"count: {count} is not 1 or more", argument="count")
        await self._enter()
        found = self._get(stream, topic)
        _check_partitions(len(found.partitions) + count, "count")
        found.grow(count, self._new_time())
        return found.info(self._clock)

    async def purge(self, stream: str, topic: str) -> None:
        """See ``Log.purge``."""
        await self._enter()
        for part in self._get(stream, topic).partitions:
            part.clear()

    async def delete_topic(self, stream: str, topic: str) -> None:
        """See ``Log.delete_topic``."""
        await self._enter()
        del self._get(stream, topic).home.topics[topic]

    async def describe(self) -> EngineInfo:
        """See ``Log.describe``."""
        await self._enter()
        return EngineInfo("memory", "1", "this process", "memory", ("memory",))

    async def aclose(self) -> None:
        """See ``Log.aclose``."""
        self._home.check()
        self._closed = True
        self._streams.clear()
        await checkpoint()

    async def _enter(self) -> None:
        self._home.check()
        # Every call gives others a turn and can be cancelled, as on the engines that wait for something.
        await checkpoint()
        if self._closed:
            raise ClosedError("the log in memory was closed, its records are gone")

    def _find(self, stream: str, topic: str) -> _Topic | None:
        home = self._streams.get(stream)
        return None if home is None else home.topics.get(topic)

    def _get(self, stream: str, topic: str) -> _Topic:
        found = self._find(stream, topic)
        if found is None:
            raise NotFoundError(
                f"topic {topic!r} of stream {stream!r} does not exist; create it with ensure_topic({topic!r}), "
                "or all agent topics with bootstrap()",
                stream=stream,
                topic=topic,
            )
        return found

    def _new_time(self) -> int:
        self._created_at = max(self._created_at + 1, self._clock.now_micros())
        return self._created_at


class _Stream:
    def __init__(self, name: str, number: int, created_at: int) -> None:
        self.name = name
        self.id = number
        self.created_at = created_at
        self.topics: dict[str, _Topic] = {}


class _Topic:
    def __init__(self, home: _Stream, name: str, number: int, created_at: int, config: TopicConfig) -> None:
        self.home = home
        self.name = name
        self.id = number
        self.created_at = created_at
        self.retention = config.retention
        self.partitions: list[_Partition] = []
        self.sizes: list[int] = []  # how many partitions it has had

    def grow(self, number: int, created_at: int) -> None:
        have = len(self.partitions)
        self.partitions += [_Partition(index, created_at) for index in range(have, have + number)]
        self.sizes.append(have + number)

    def retain(self, clock: Clock) -> None:
        bounds = self.retention
        if bounds is None:
            return
        if bounds.expire_micros is not None:
            horizon = clock.now_micros() - bounds.expire_micros
            for part in self.partitions:
                while part.records and part.records[0].timestamp_micros < horizon:
                    part.drop_first()
        if bounds.max_size is not None:
            while self.size > bounds.max_size:
                spare = [part for part in self.partitions if len(part.records) > 1]
                if not spare:
                    return
                min(spare, key=lambda part: part.records[0].timestamp_micros).drop_first()

    @property
    def size(self) -> int:
        return sum(part.size for part in self.partitions)

    def info(self, clock: Clock) -> TopicInfo:
        self.retain(clock)
        return TopicInfo(
            stream=self.home.name,
            stream_id=self.home.id,
            stream_created_at_micros=self.home.created_at,
            name=self.name,
            topic_id=self.id,
            created_at_micros=self.created_at,
            retention=self.retention,
            durability="memory",
            size_bytes=self.size,
            partitions=tuple(PartitionInfo(part.id, part.created_at, part.first, part.end) for part in self.partitions),
        )


class _Partition:
    def __init__(self, number: int, created_at: int) -> None:
        self.id = number
        self.created_at = created_at
        self.first = 0
        self.size = 0
        self.records: list[LogRecord] = []

    @property
    def end(self) -> int:
        return self.first + len(self.records)

    def slice(self, low: int, high: int) -> list[LogRecord]:
        return self.records[low - self.first : max(low, high) - self.first]

    def add(self, record: LogRecord) -> None:
        self.records.append(record)
        self.size += len(record.headers) + len(record.payload)

    def drop_first(self) -> None:
        gone = self.records.pop(0)
        self.size -= len(gone.headers) + len(gone.payload)
        self.first += 1

    def clear(self) -> None:
        self.records, self.first, self.size = [], 0, 0


def _identity(record: NewRecord | LogRecord) -> tuple[int, str | None]:
    # Callers choose ids, and two conversations can choose the same one.
    return record.id, route(record.headers, record.payload).conversation_id


def _page(part: _Partition, start: int, limit: int, match: Match | None) -> Page:
    low = max(start, part.first)
    page: list[LogRecord] = []
    for record in part.slice(low, part.end):
        if match is None or route(record.headers, record.payload).meets(match):
            page.append(record)
            if len(page) == limit:
                return Page(page, record.offset + 1, part.first, part.end)
    return Page(page, max(low, part.end), part.first, part.end)


def _check_partitions(number: int, argument: str) -> None:
    if number > MAX_PARTITIONS:
        raise LimitError(
            f"{argument}: {number} partitions, a topic has at most {MAX_PARTITIONS}",
            argument=argument,
            size=number,
            limit=MAX_PARTITIONS,
        )
