"""Batches of records that are decoded only when they are looked at."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from laser.model.records import LogRecord
from laser.model.window import Match
from laser.wire.routing import route

__all__ = ["PART_RECORDS", "LazyRecords", "place_of", "record_bytes", "select_each", "select_parts", "select_records"]

PART_RECORDS: Final = 512
"""Records looked through in one part: about a millisecond's work."""

# What a LogRecord and its parts cost in memory beside their bytes.
_OBJECT_BYTES = 250


class LazyRecords(Sequence[LogRecord]):
    """Records that are decoded when they are looked at, and that find those of a conversation without it."""

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """Memory that the batch takes."""

    @abstractmethod
    def select_parts(self, match: Match) -> Iterator[list[LogRecord]]:
        """The records that a match wants, ascending by offset: its own, and those that cannot be attributed.

        A part takes about a millisecond to find; it may be empty.
        """

    def select(self, match: Match) -> list[LogRecord]:
        """All parts at once."""
        return list(chain.from_iterable(self.select_parts(match)))

    @abstractmethod
    def place_of(self, offset: int) -> int:
        """The index of the first record at an offset or after it; the length when there is none."""


def select_records(records: Sequence[LogRecord], match: Match) -> list[LogRecord]:
    """The records of a page that a match wants, ascending by offset."""
    if isinstance(records, LazyRecords):
        return records.select(match)
    return [record for record in records if route(record.headers, record.payload).meets(match)]


def select_parts(records: Sequence[LogRecord], match: Match) -> Iterator[list[LogRecord]]:
    """As ``select_records``, in parts between which other tasks can have their turn."""
    return records.select_parts(match) if isinstance(records, LazyRecords) else select_each(records, match)


def select_each(records: Iterable[LogRecord], match: Match) -> Iterator[list[LogRecord]]:
    """As ``select_parts``, looking at every record."""
    part: list[LogRecord] = []
    for count, record in enumerate(records, 1):
        if route(record.headers, record.payload).meets(match):
            part.append(record)
        if count % PART_RECORDS == 0:
            yield part
            part = []
    yield part


def place_of(records: Sequence[LogRecord], offset: int) -> int:
    """The index of the first record at an offset or after it; the length when there is none."""
    if isinstance(records, LazyRecords):
        return records.place_of(offset)
    return bisect_left(records, offset, key=_offset)


def record_bytes(records: Sequence[LogRecord]) -> int:
    """Memory that the records of a page take."""
    if isinstance(records, LazyRecords):
        return records.size_bytes
    return sum(len(record.payload) + len(record.headers) + _OBJECT_BYTES for record in records)


def _offset(record: LogRecord) -> int:
    return record.offset
