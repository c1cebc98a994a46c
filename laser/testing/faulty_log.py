"""A log with faults, decided by a seed: lost answers, copies, delays, broken connections, offsets used twice."""

from __future__ import annotations

import random
from collections.abc import Sequence

import anyio
import msgspec

from laser.errors import AppendIndeterminateError, DisconnectedError
from laser.model.records import Appended, LogRecord, NewRecord
from laser.model.topics import TopicConfig, TopicInfo
from laser.model.window import Match, Page, Window, WindowQuery, window_bounds
from laser.ports.log import EngineInfo, Log
from laser.testing.reminting import LostOffsets

__all__ = ["FaultRates", "FaultyLog"]


class FaultRates(msgspec.Struct, frozen=True):
    """How often each fault strikes, from 0 to 1.

    Attributes:
        refuse: an append fails before it is sent: ``DisconnectedError``.
        lose_answer: an append is written, and raises ``AppendIndeterminateError``.
        lose_request: an append is not written, and raises ``AppendIndeterminateError``.
        late_request: an append raises ``AppendIndeterminateError`` and is written a little later all the same.
        copy: an append is written twice, the way a driver that repeats a call unseen would do it.
        read_fault: a read raises ``DisconnectedError``.
        short_page: a read returns only a part of what it could.
        delay: a call waits; seconds, at random up to this many.
    """

    refuse: float = 0.0
    lose_answer: float = 0.0
    lose_request: float = 0.0
    late_request: float = 0.0
    copy: float = 0.0
    read_fault: float = 0.0
    short_page: float = 0.0
    delay: float = 0.0


class FaultyLog:
    """A ``Log`` over another one that strikes with faults. The same seed and calls give the same faults.

    Args:
        log: the log behind; closed with this one. rates: how often. seed: which faults.

    Attributes:
        struck: by fault, how often it came.
    """

    def __init__(self, log: Log, rates: FaultRates, seed: int) -> None:
        self._log = log
        self._rng = random.Random(seed)
        self._late: list[tuple[str, str, Sequence[NewRecord], str]] = []
        self._lost: dict[tuple[str, str], dict[int, LostOffsets]] = {}
        self._deaths = 0
        self.rates = rates
        self.struck: dict[str, int] = {}

    async def append(
        self, stream: str, topic: str, records: Sequence[NewRecord], *, key: str, find_first: bool = False
    ) -> Appended:
        """See ``Log.append``; may be refused, lose its answer, or be written twice."""
        await self._pause()
        if self._strikes("refuse", self.rates.refuse):
            raise DisconnectedError("a planted fault: refused before it was sent")
        ids = tuple(record.id for record in records)
        if self._strikes("lose_request", self.rates.lose_request):
            raise AppendIndeterminateError("a planted fault: the request was lost", record_ids=ids)
        if self._strikes("late_request", self.rates.late_request):
            self._late.append((stream, topic, records, key))
            raise AppendIndeterminateError("a planted fault: the request comes late", record_ids=ids)
        done = await self._append(stream, topic, records, key, find_first)
        if self._strikes("copy", self.rates.copy):
            await self._log.append(stream, topic, records, key=key)
        await self.write_late(most=1)
        if self._strikes("lose_answer", self.rates.lose_answer):
            raise AppendIndeterminateError("a planted fault: the answer was lost", record_ids=ids)
        return done

    async def lose_newest(self, stream: str, topic: str, count: int) -> int:
        """Loses the newest records of each partition: their offsets are handed out again, to what comes next.

        As a server at durability ``memory`` does that was killed and is back. What was on its way is lost too.

        Args:
            count: of each partition.

        Returns:
            How many were lost in all.
        """
        info = await self._log.topic(stream, topic)
        if info is None:
            return 0
        self._late.clear()
        self._deaths += 1
        places = self._lost.setdefault((stream, topic), {})
        return sum(places.setdefault(part.id, LostOffsets()).lose(count, part) for part in info.partitions)

    async def write_late(self, most: int | None = None) -> None:
        """Writes appends that are late, all of them or the first few, now."""
        count = len(self._late) if most is None else min(most, len(self._late))
        for _ in range(count):
            stream, topic, records, key = self._late.pop(0)
            await self._log.append(stream, topic, records, key=key)

    async def read(
        self, stream: str, topic: str, partition: int, *, start: int, limit: int, match: Match | None = None
    ) -> Page:
        """See ``Log.read``; may fail, or return less."""
        await self._read_fault()
        if self._strikes("short_page", self.rates.short_page):
            limit = self._rng.randint(1, limit)
        return await self._read(stream, topic, partition, start, limit, match)

    async def look(
        self, stream: str, topic: str, partition: int, *, start: int, limit: int
    ) -> tuple[TopicInfo | None, Page | None]:
        """See ``Log.look``; may fail, or return less."""
        await self._read_fault()
        if self._strikes("short_page", self.rates.short_page):
            limit = self._rng.randint(1, limit)
        lost = self._lost.get((stream, topic), {}).get(partition)
        start = start if lost is None else lost.behind(start)
        info, page = await self._log.look(stream, topic, partition, start=start, limit=limit)
        return self._shown(info), page if page is None or lost is None else lost.page(page)

    async def window(self, stream: str, topic: str, query: WindowQuery) -> Window | None:
        """See ``Log.window``; may fail."""
        await self._read_fault()
        if (stream, topic) in self._lost:
            return await self._window(stream, topic, query)
        # The log behind may take its shortcut for the newest records, which copies made here would upset.
        window = await self._log.window(stream, topic, msgspec.structs.replace(query, newest=None))
        return None if window is None else msgspec.structs.replace(window, topic=self._known(window.topic))

    async def topic(self, stream: str, topic: str) -> TopicInfo | None:
        """See ``Log.topic``; may fail."""
        await self._read_fault()
        return self._shown(await self._log.topic(stream, topic))

    async def topics(self, stream: str, names: Sequence[str] | None = None) -> tuple[TopicInfo, ...]:
        """See ``Log.topics``; may fail."""
        await self._read_fault()
        return tuple(self._known(info) for info in await self._log.topics(stream, names))

    async def ensure_topic(self, stream: str, topic: str, config: TopicConfig) -> TopicInfo:
        """See ``Log.ensure_topic``."""
        return self._known(await self._log.ensure_topic(stream, topic, config))

    async def add_partitions(self, stream: str, topic: str, count: int) -> TopicInfo:
        """See ``Log.add_partitions``."""
        return self._known(await self._log.add_partitions(stream, topic, count))

    async def purge(self, stream: str, topic: str) -> None:
        """See ``Log.purge``."""
        await self._log.purge(stream, topic)
        self._lost.pop((stream, topic), None)

    async def delete_topic(self, stream: str, topic: str) -> None:
        """See ``Log.delete_topic``."""
        await self._log.delete_topic(stream, topic)
        self._lost.pop((stream, topic), None)

    async def describe(self) -> EngineInfo:
        """See ``Log.describe``."""
        return await self._log.describe()

    async def aclose(self) -> None:
        """See ``Log.aclose``."""
        await self._log.aclose()

    async def _append(
        self, stream: str, topic: str, records: Sequence[NewRecord], key: str, find_first: bool
    ) -> Appended:
        done = await self._log.append(stream, topic, records, key=key, find_first=find_first)
        lost = self._lost.get((stream, topic), {}).get(done.partition)
        if lost is None:
            return done
        if not all(map(lost.holds, done.offsets)):
            # What was found is lost, so it is not there.
            done = await self._log.append(stream, topic, records, key=key)
        return msgspec.structs.replace(done, offsets=tuple(map(lost.shown, done.offsets)))

    async def _read(self, stream: str, topic: str, partition: int, start: int, limit: int, match: Match | None) -> Page:
        lost = self._lost.get((stream, topic), {}).get(partition)
        if lost is None:
            return await self._log.read(stream, topic, partition, start=start, limit=limit, match=match)
        start = lost.behind(start)
        return lost.page(await self._log.read(stream, topic, partition, start=start, limit=limit, match=match))

    async def _window(self, stream: str, topic: str, query: WindowQuery) -> Window | None:
        """The window of a topic that lost records, page by page: its bounds are those that are shown."""
        info = self._shown(await self._log.topic(stream, topic))
        if info is None:
            return None
        records: list[LogRecord] = []
        for part in info.partitions:
            at, stop = window_bounds(part, query)
            while at < stop:
                page = await self._read(stream, topic, part.id, at, stop - at, query.match)
                records += (record for record in page.records if record.offset < stop)
                at = page.next
        return Window(info, records)

    def _shown(self, info: TopicInfo | None) -> TopicInfo | None:
        return None if info is None else self._known(info)

    def _known(self, info: TopicInfo) -> TopicInfo:
        """A topic as it is shown. Whoever kept what it read hears of each death by the epoch."""
        if not self._deaths:
            return info
        places = self._lost.get((info.stream, info.name), {})
        parts = tuple(places[part.id].part(part) if part.id in places else part for part in info.partitions)
        return msgspec.structs.replace(info, partitions=parts, epoch=info.epoch + self._deaths)

    async def _read_fault(self) -> None:
        await self._pause()
        if self._strikes("read_fault", self.rates.read_fault):
            raise DisconnectedError("a planted fault: the connection broke")

    async def _pause(self) -> None:
        if self.rates.delay:
            await anyio.sleep(self._rng.random() * self.rates.delay)

    def _strikes(self, fault: str, rate: float) -> bool:
        struck = rate > 0 and self._rng.random() < rate
        if struck:
            self.struck[fault] = self.struck.get(fault, 0) + 1
        return struck
