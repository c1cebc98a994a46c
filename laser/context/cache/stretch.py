"""A stretch: the raw records at the end of one partition that are held, and what each conversation has in them."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Final, NamedTuple

import anyio.lowlevel

from laser.model.records import LogRecord
from laser.model.window import Match
from laser.wire.batches import record_bytes, select_parts
from laser.wire.routing import route

__all__ = ["Run", "Stretch"]

# Conversations of a partition whose records are found already; more are found again when they are asked for.
_MAX_RUNS: Final = 4_096


class Run:
    """One conversation's records in a range of offsets.

    Attributes:
        low, high: the range ``[low, high)``. own: its records. strays: records that cannot be attributed to any
            conversation. Both ascend by offset. size: bytes, about.
    """

    def __init__(self, low: int, high: int) -> None:
        self.low = low
        self.high = high
        self.own: list[LogRecord] = []
        self.strays: list[LogRecord] = []
        self.size = 0

    def extend(self, records: Sequence[LogRecord], high: int) -> None:
        """Adds the matching records of ``[self.high, high)`` among those given."""
        self._add(_sort(records, self.high, high), high)

    async def extend_from(self, page: Sequence[LogRecord], match: Match, high: int) -> None:
        """Adds the records of ``[self.high, high)`` that a page holds. Other tasks get their turn."""
        self._add(await _sort_page(page, match, self.high, high), high)

    async def extend_back_from(self, page: Sequence[LogRecord], match: Match, low: int) -> None:
        """Adds the records of ``[low, self.low)`` that a page holds. Other tasks get their turn."""
        found = await _sort_page(page, match, low, self.low)
        self.own[:0] = found.own
        self.strays[:0] = found.strays
        self.size += found.size
        self.low = low

    def _add(self, found: _Found, high: int) -> None:
        self.own += found.own
        self.strays += found.strays
        self.size += found.size
        self.high = high

    def since(self, offset: int) -> list[LogRecord]:
        """The records from an offset on, own and strays, ascending by offset."""
        own = self.own[bisect_left(self.own, offset, key=_offset) :]
        strays = self.strays[bisect_left(self.strays, offset, key=_offset) :]
        return sorted(own + strays, key=_offset) if strays else own

    def drop_below(self, offset: int) -> None:
        """Forgets what lies below an offset."""
        if offset <= self.low:
            return
        for records in (self.own, self.strays):
            cut = bisect_left(records, offset, key=_offset)
            self.size -= record_bytes(records[:cut])
            del records[:cut]
        self.low = min(offset, self.high)


class _Found(NamedTuple):
    """Records of a conversation, those of none, and the bytes of all."""

    own: list[LogRecord]
    strays: list[LogRecord]
    size: int


def _sort(records: Sequence[LogRecord], low: int, high: int) -> _Found:
    own: list[LogRecord] = []
    strays: list[LogRecord] = []
    for record in records:
        if low <= record.offset < high:
            stray = route(record.headers, record.payload).conversation_id is None
            (strays if stray else own).append(record)
    return _Found(own, strays, record_bytes(own) + record_bytes(strays))


async def _sort_page(page: Sequence[LogRecord], match: Match, low: int, high: int) -> _Found:
    own: list[LogRecord] = []
    strays: list[LogRecord] = []
    size = 0
    for part in select_parts(page, match):
        found = _sort(part, low, high)
        own += found.own
        strays += found.strays
        size += found.size
        await anyio.lowlevel.checkpoint()
    return _Found(own, strays, size)


class Stretch:
    """The raw records ``[low, high)`` at the end of a partition, in pages as they were read.

    Attributes:
        created_at_micros: of the partition.
        tail: offset and id of the last record held: what proves that the log is still the one that was read.
            ``None`` while nothing is held.
        oldest_micros: a time that no record below ``low`` exceeds, where times never go back; ``None`` when nothing
            is held.
    """

    def __init__(self, created_at_micros: int, end: int) -> None:
        self.created_at_micros = created_at_micros
        self.low = self.high = end
        self.tail: tuple[int, int] | None = None
        self.oldest_micros: int | None = None
        self._pages: deque[tuple[int, int, Sequence[LogRecord], int]] = deque()
        self._page_bytes = 0
        self._runs: OrderedDict[Match, Run] = OrderedDict()

    @property
    def size(self) -> int:
        """Bytes that are held, about."""
        return self._page_bytes + sum(run.size for run in self._runs.values())

    def extend(self, records: Sequence[LogRecord], high: int) -> None:
        """Adds the page ``[self.high, high)``."""
        if records:
            self._pages.append(self._page(self.high, high, records))
            last = records[-1]
            self.tail = (last.offset, last.id)
            if self.oldest_micros is None:
                self.oldest_micros = records[0].timestamp_micros
        self.high = high

    def extend_back(self, records: Sequence[LogRecord], low: int) -> None:
        """Adds the page ``[low, self.low)``."""
        if records:
            self._pages.appendleft(self._page(low, self.low, records))
            self.oldest_micros = records[0].timestamp_micros
            if self.tail is None:
                self.tail = (records[-1].offset, records[-1].id)
        self.low = low

    def first_held(self) -> LogRecord | None:
        """The oldest record held."""
        for _, _, records, _ in self._pages:
            for record in records:
                if record.offset >= self.low:
                    return record
        return None

    def drop_below(self, offset: int) -> None:
        """Forgets what lies below an offset."""
        if offset <= self.low:
            return
        while self._pages and self._pages[0][1] <= offset:
            self._page_bytes -= self._pages.popleft()[3]
        self.low = min(offset, self.high)
        for run in self._runs.values():
            run.drop_below(self.low)
        if not self._pages:
            self.tail = self.oldest_micros = None

    def drop_whole_pages_below(self, offset: int) -> None:
        """Forgets the pages that lie wholly below an offset, so that no page is held for a part of it only."""
        stops = [stop for _, stop, _, _ in self._pages if stop <= offset]
        if stops:
            self.drop_below(stops[-1])

    def forget(self) -> None:
        """Forgets everything."""
        self._pages.clear()
        self._page_bytes = 0
        self._runs.clear()
        self.low = self.high
        self.tail = self.oldest_micros = None

    async def run(self, match: Match) -> Run:
        """The conversation's records in ``[low, high)``. Other tasks get their turn meanwhile."""
        run = self._runs.get(match)
        if run is None:
            run = self._runs[match] = Run(self.high, self.high)
            if len(self._runs) > _MAX_RUNS:
                self._runs.popitem(last=False)
        else:
            self._runs.move_to_end(match)
        if run.low > self.low:
            for start, _, records, _ in reversed(self._pages):
                if start < run.low:
                    await run.extend_back_from(records, match, max(start, self.low))
            run.low = self.low
        if run.high < self.high:
            for _, stop, records, _ in self._pages:
                if stop > run.high:
                    await run.extend_from(records, match, stop)
            run.high = self.high
        return run

    def last_time(self, match: Match) -> int:
        """The time of the conversation's last record known; -1 for none."""
        run = self._runs.get(match)
        return run.own[-1].timestamp_micros if run is not None and run.own else -1

    def _page(self, start: int, stop: int, records: Sequence[LogRecord]) -> tuple[int, int, Sequence[LogRecord], int]:
        size = record_bytes(records)
        self._page_bytes += size
        return start, stop, records, size


def _offset(record: LogRecord) -> int:
    return record.offset
