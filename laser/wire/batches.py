"""Batches of records that are decoded only when they are looked at."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from laser.model.records import LogRecord
from laser.model.window import Match
from laser.wire.routing import route

__all__ = ["SelectableRecords", "place_of", "record_bytes", "select_records"]

# What a LogRecord and its parts cost in memory beside their bytes.
_OBJECT_BYTES = 250


@runtime_checkable
class SelectableRecords(Protocol):
    """Records that can find those of a conversation without decoding the others."""

    @property
    def size_bytes(self) -> int:
        """Memory that the batch takes."""
        ...

    def select(self, match: Match) -> list[LogRecord]:
        """The records that a match wants, ascending by offset: its own, and those that cannot be attributed."""
        ...

    def place_of(self, offset: int) -> int:
        """The index of the first record at an offset or after it; the length when there is none."""
        ...


def select_records(records: Sequence[LogRecord], match: Match) -> list[LogRecord]:
    """The records of a page that a match wants, ascending by offset."""
    if isinstance(records, SelectableRecords):
        return records.select(match)
    return [record for record in records if route(record.headers, record.payload).meets(match)]


def place_of(records: Sequence[LogRecord], offset: int) -> int:
    """The index of the first record at an offset or after it; the length when there is none."""
    if isinstance(records, SelectableRecords):
        return records.place_of(offset)
    return bisect_left(records, offset, key=_offset)


def record_bytes(records: Sequence[LogRecord]) -> int:
    """Memory that the records of a page take."""
    if isinstance(records, SelectableRecords):
        return records.size_bytes
    return sum(len(record.payload) + len(record.headers) + _OBJECT_BYTES for record in records)


def _offset(record: LogRecord) -> int:
    return record.offset
