"""Records of several topics in one order, handed out from the newest back.

Nothing is built for each record: a hundred thousand keys or pairs that live at once make the garbage collector walk
over all of them in one go, and the event loop waits for it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import accumulate
from operator import attrgetter
from typing import Final

import anyio.lowlevel

from laser.model.records import LogRecord
from laser.model.topics import TopicInfo

__all__ = ["Backward", "merge_back"]

# Records prepared, or let go of, between two chances for other tasks to run: about a millisecond's work.
_PART: Final = 4_096

_partition = attrgetter("partition")
_time = attrgetter("timestamp_micros")


class _Run:
    """One partition's records by offset, and by the same place the highest time up to there."""

    def __init__(self, topic: TopicInfo, records: list[LogRecord]) -> None:
        self.topic = topic
        self.records = records
        # Within a partition a clock that stepped back must not reorder anything.
        self.times = list(accumulate(map(_time, records), max))


class Backward:
    """Walks the records from the newest back, once. A record that was handed out is held by the caller only."""

    def __init__(self, runs: Sequence[_Run]) -> None:
        self._runs = runs
        # Smallest first: the latest time, then the last place.
        self._ends = [(-run.times[-1], -place) for place, run in enumerate(runs)]
        heapify(self._ends)

    def __iter__(self) -> Iterator[tuple[LogRecord, TopicInfo]]:
        ends = self._ends
        while ends:
            _, place = heappop(ends)
            run = self._runs[-place]
            records, times, topic = run.records, run.times, run.topic
            while True:
                times.pop()
                yield records.pop(), topic
                if not times:
                    break
                end = (-times[-1], place)
                if ends and ends[0] < end:
                    heappush(ends, end)
                    break

    async def let_go(self) -> None:
        """Drops what was not handed out, a part at a time: to free many records takes long."""
        for run in self._runs:
            while len(run.records) > _PART:
                del run.records[-_PART:]
                await anyio.lowlevel.checkpoint()


async def merge_back(windows: list[tuple[TopicInfo, list[LogRecord]]]) -> Backward:
    """The records of windows, each by partition, then offset, merged by time, window, partition and offset.

    Empties the list of windows, so that nobody holds a record that was handed out.
    """
    runs: list[_Run] = []
    prepared = 0
    while windows:
        topic, records = windows.pop(0)
        at = 0
        while at < len(records):
            stop = bisect_right(records, records[at].partition, lo=at, key=_partition)
            runs.append(_Run(topic, records[at:stop]))
            prepared += stop - at
            at = stop
            if prepared >= _PART:
                prepared = 0
                await anyio.lowlevel.checkpoint()
    return Backward(runs)
