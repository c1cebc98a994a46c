"""Offsets that are handed out a second time, as by a server that lost its newest records and goes on."""

from __future__ import annotations

from laser.model.records import LogRecord
from laser.model.topics import PartitionInfo
from laser.model.window import Page

__all__ = ["LostOffsets"]


class LostOffsets:
    """One partition of which records were lost: between the offsets of the log behind and those that are shown.

    The log behind still has the lost ones. What comes after them is shown at their offsets.
    """

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

    def lose(self, newest: int, part: PartitionInfo) -> int:
        """Loses the newest records of a partition, as the log behind tells of it; returns how many."""
        start = self.behind(max(self.shown(part.first), self.shown(part.end) - newest))
        lost = self.shown(part.end) - self.shown(start)
        if lost:
            self._ranges = [each for each in self._ranges if each[0] < start] + [(start, part.end)]
        return lost

    def holds(self, offset: int) -> bool:
        """Whether a record of the log behind is still shown."""
        return not any(start <= offset < end for start, end in self._ranges)

    def shown(self, offset: int) -> int:
        """Where a record of the log behind is shown."""
        return offset - sum(min(offset, end) - start for start, end in self._ranges if start < offset)

    def behind(self, offset: int) -> int:
        """Where a record that is shown is in the log behind."""
        for start, end in self._ranges:
            if offset >= start:
                offset += end - start
        return offset

    def part(self, part: PartitionInfo) -> PartitionInfo:
        """A partition as it is shown."""
        return PartitionInfo(part.id, part.created_at_micros, self.shown(part.first), self.shown(part.end))

    def page(self, page: Page) -> Page:
        """A page of the log behind as it is shown."""
        records = [_moved(each, self.shown(each.offset)) for each in page.records if self.holds(each.offset)]
        return Page(records, self.shown(page.next), self.shown(page.first), self.shown(page.end))


def _moved(record: LogRecord, offset: int) -> LogRecord:
    return LogRecord(record.partition, offset, record.id, record.timestamp_micros, record.headers, record.payload)
