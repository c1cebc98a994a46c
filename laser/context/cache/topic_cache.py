"""What is remembered of one topic for context reads, and how it is brought up to date."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import anyio

from laser.context.cache.answers import Answers, Extent
from laser.context.cache.newest import Held, plan_newest
from laser.context.cache.stretch import Stretch
from laser.context.gathering import gather
from laser.limits import CONTEXT_READ_WINDOW
from laser.model.records import LogRecord
from laser.model.topics import PartitionInfo, TopicInfo
from laser.model.window import Match, Page, Window, WindowQuery, window_bounds
from laser.ports.log import Log
from laser.wire.batches import place_of

__all__ = ["TopicCache", "holds_record"]

_FIRST_STEP: Final = 512
_STEP_GROWTH: Final = 4
# New records that the poll brings along which looks at the last known one.
_AHEAD: Final = 256


class TopicCache:
    """The stretches of one topic's partitions.

    Args:
        turn: shared by all topics of a client: one at a time looks through its pages, so that the event loop gets its
            turn after each page and not after one page of every topic.

    Attributes:
        lock: held while the stretches are read or changed. info: the topic as of the last refresh.
    """

    def __init__(self, log: Log, stream: str, topic: str, turn: anyio.Lock) -> None:
        self._log = log
        self._turn = turn
        self._place = (stream, topic)
        self._stretches: dict[int, Stretch] = {}
        self._identity: tuple[int, ...] = ()
        self._epoch = 0
        self._answers = Answers()
        self._refreshed_at = float("-inf")
        self.lock = anyio.Lock(fast_acquire=True)
        self.info: TopicInfo | None = None

    @property
    def size(self) -> int:
        """Bytes that are held, about."""
        return self._answers.size + sum(stretch.size for stretch in self._stretches.values())

    def is_fresh_for(self, arrived: float) -> bool:
        """Whether a refresh began after a reader arrived, so that it saw all that the reader must see."""
        return self._refreshed_at >= arrived

    def forget(self) -> None:
        """Forgets everything."""
        self._stretches.clear()
        self._answers.clear()
        self._identity = ()
        self._refreshed_at = float("-inf")

    def shrink(self, max_bytes: int) -> None:
        """Forgets whole partitions, the largest first, until the rest fits."""
        for stretch in sorted(self._stretches.values(), key=_size, reverse=True):
            if self.size <= max_bytes:
                return
            self._answers.clear()
            stretch.forget()

    async def refresh(self, match: Match) -> None:
        """Brings the stretches up to date with the log, and forgets what does not hold any more."""
        began = anyio.current_time()
        likely = self._likely(match)
        page: Page | None = None
        if likely is None:
            info = await self._log.topic(*self._place)
        else:
            # The likeliest place of something new is read in the same round trip that asks where the topic ends.
            start, limit = self._tail(likely, _AHEAD)
            info, page = await self._log.look(*self._place, likely, start=start, limit=limit)
        self.info = info
        if info is None:
            self.forget()
            return
        identity = (info.stream_id, info.stream_created_at_micros, info.topic_id, info.created_at_micros)
        holds = identity == self._identity and self._ends_hold(info)
        if holds and likely is not None:
            holds = page is not None and _take_tail(self._stretches[likely], page)
        if not holds:
            self._stretches.clear()
            self._answers.clear()
        self._identity = identity
        if not await self._catch_up(info, check_all=holds and info.epoch != self._epoch):
            self._stretches = {part.id: Stretch(part.created_at_micros, part.end) for part in info.partitions}
            self._answers.clear()
        self._epoch = info.epoch
        self._refreshed_at = began

    async def window(self, query: WindowQuery, newest: int | None) -> Window | None:
        """The answer to a query, from what is held and what must be read further back.

        Args:
            newest: how many of the newest records are wanted; ``None`` for the whole window.

        Returns:
            ``None`` when the log changed meanwhile, so that what is held does not fit together.
        """
        info = self.info
        assert info is not None
        known = self._answers.find(query, self._extent(info))
        if known is not None:
            return Window(info, known.records, known.made)
        bounds = {part.id: self._bound(part, query) for part in info.partitions}
        step = query.size if newest is None else _FIRST_STEP
        while True:
            held: dict[int, Held] = {}
            for partition, bound in bounds.items():
                stretch = self._stretches[partition]
                async with self._turn:
                    run = await stretch.run(query.match)
                held[partition] = Held(bound, run, stretch.oldest_micros)
            if newest is None:
                cuts: Mapping[int, int] = bounds
                short = [partition for partition, part in held.items() if part.run.low > part.bound]
            else:
                plan = plan_newest(held, newest)
                cuts, short = plan.cuts, plan.short
            if not short:
                break
            reads = [
                partial(self._read_before, partition, max(bounds[partition], self._stretches[partition].low - step))
                for partition in short
            ]
            if not all(await gather(reads)):
                return None
            step *= _STEP_GROWTH
        records: list[LogRecord] = []
        for partition, part in held.items():
            records += part.run.since(cuts[partition])
        for stretch in self._stretches.values():
            stretch.drop_whole_pages_below(stretch.high - CONTEXT_READ_WINDOW)
        return self._answers.keep(query, self._extent(info), Window(info, records))

    def _extent(self, info: TopicInfo) -> Extent:
        """What an answer depends on: between two calls of ``forget`` the same offsets hold the same records."""
        return [(part.id, part.first, self._stretches[part.id].high) for part in info.partitions]

    def _likely(self, match: Match) -> int | None:
        """The partition where this conversation was last seen, else one that has a record to look at."""
        known = [
            (stretch.last_time(match), partition) for partition, stretch in self._stretches.items() if stretch.tail
        ]
        return max(known)[1] if known else None

    def _ends_hold(self, info: TopicInfo) -> bool:
        """Whether every partition held is the same one and ends no earlier than what is held of it."""
        parts = {part.id: part for part in info.partitions}
        return all(
            partition in parts
            and parts[partition].created_at_micros == stretch.created_at_micros
            and parts[partition].end >= stretch.high
            for partition, stretch in self._stretches.items()
        )

    async def _catch_up(self, info: TopicInfo, check_all: bool) -> bool:
        """Reads what is new. ``False`` when a record that is held is not there any more."""
        behind: list[tuple[int, int]] = []
        for part in info.partitions:
            stretch = self._stretches.get(part.id)
            if stretch is None or part.end - stretch.high > CONTEXT_READ_WINDOW:
                # Reading all that came meanwhile would cost more than beginning anew at the end.
                self._stretches[part.id] = Stretch(part.created_at_micros, part.end)
                continue
            stretch.drop_below(part.first)
            if part.end > stretch.high or (check_all and stretch.tail is not None):
                behind.append((part.id, part.end))
        return all(await gather([partial(self._advance, partition, end) for partition, end in behind]))

    async def _advance(self, partition: int, end: int) -> bool:
        stretch = self._stretches[partition]
        while True:
            before = stretch.high
            if not _take_tail(stretch, await self._read_tail(partition, end - before)):
                return False
            if stretch.high >= end or stretch.high == before:
                return stretch.high >= end

    async def _read_tail(self, partition: int, ahead: int) -> Page:
        start, limit = self._tail(partition, ahead)
        return await self._log.read(*self._place, partition, start=start, limit=limit)

    def _tail(self, partition: int, ahead: int) -> tuple[int, int]:
        """Where to read from, and how much, to see the last record that is held and what came after it."""
        stretch = self._stretches[partition]
        start = stretch.high if stretch.tail is None else stretch.tail[0]
        return start, stretch.high - start + max(1, ahead)

    def _bound(self, part: PartitionInfo, query: WindowQuery) -> int:
        end = max(part.end, self._stretches[part.id].high)
        return window_bounds(PartitionInfo(part.id, part.created_at_micros, part.first, end), query)[0]

    async def _read_before(self, partition: int, start: int) -> bool:
        """Reads a partition further back. ``False`` when the log changed meanwhile."""
        stretch = self._stretches[partition]
        known = stretch.first_held()
        pages: list[tuple[int, Sequence[LogRecord]]] = []
        at, stop = start, stretch.low
        # One record more than wanted, where one is held: it must still be where it was.
        extra = 0 if known is None else known.offset - stop + 1
        while at < stop:
            page = await self._log.read(*self._place, partition, start=at, limit=stop - at + extra)
            if page.first > at or page.next <= at or page.end < stop:
                return False
            records = page.records
            if page.next > stop:
                if known is not None and page.next > known.offset and not holds_record(records, known.offset, known.id):
                    return False
                records = records[: place_of(records, stop)]
            pages.append((at, records))
            at = page.next
        for low, records in reversed(pages):
            stretch.extend_back(records, low)
        return True


def holds_record(records: Sequence[LogRecord], offset: int, record_id: int) -> bool:
    """Whether the record at an offset has that id. Records ascend by offset, mostly without gaps."""
    at = place_of(records, offset)
    return at < len(records) and records[at].offset == offset and records[at].id == record_id


def _take_tail(stretch: Stretch, page: Page) -> bool:
    """Adds what a page brings after the last record held. ``False`` when that record is not there any more."""
    if page.first > stretch.high or page.end < stretch.high:
        return False
    records = page.records
    if stretch.tail is not None:
        offset, record_id = stretch.tail
        if not holds_record(records[:1], offset, record_id):
            return False
        records = records[1:]
    stretch.extend(records, max(stretch.high, page.next))
    return True


def _size(stretch: Stretch) -> int:
    return stretch.size
