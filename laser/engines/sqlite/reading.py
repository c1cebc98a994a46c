"""Reading stretches and windows of partitions."""

from __future__ import annotations

import sqlite3
import sys
from typing import Any, Final

from laser.engines.sqlite.errors import damaged
from laser.engines.sqlite.rows import OFFSET_MASK, checksum, position
from laser.engines.sqlite.states import PartitionState, TopicRow
from laser.limits import MAX_BATCH_BYTES
from laser.model.ids import ulid_bytes
from laser.model.records import LogRecord
from laser.model.topics import PartitionInfo
from laser.model.window import Match, Page, WindowQuery, window_bounds

__all__ = ["read_page", "read_window"]

# Every branch runs in the order of its index, which is that of the row ids, so nothing is sorted and LIMIT stops early.
# INDEXED BY, because the planner, without statistics, may take a range of row ids for the smaller set.
_NEWEST_OWN: Final = """
SELECT pos, ts, id, crc, headers, payload FROM records INDEXED BY records_conv
WHERE conv = :conv AND pos >= :low AND pos < :high ORDER BY pos DESC LIMIT :limit
"""
_NEWEST_FAMILY: Final = """
SELECT pos, ts, id, crc, headers, payload FROM records WHERE pos IN (
    SELECT pos FROM (SELECT pos FROM records INDEXED BY records_conv
        WHERE conv = :conv AND pos >= :low AND pos < :high ORDER BY pos DESC LIMIT :limit)
    UNION SELECT pos FROM (SELECT pos FROM records INDEXED BY records_parent
        WHERE parent = :conv AND pos >= :low AND pos < :high ORDER BY pos DESC LIMIT :limit)
    UNION SELECT pos FROM (SELECT pos FROM records INDEXED BY records_root
        WHERE root = :conv AND pos >= :low AND pos < :high ORDER BY pos DESC LIMIT :limit)
) ORDER BY pos DESC LIMIT :limit
"""
_STRAYS: Final = """
SELECT pos, ts, id, crc, headers, payload FROM records INDEXED BY records_conv
WHERE conv = X'' AND pos >= :low AND pos < :high ORDER BY pos
"""
_OLDEST_ANY: Final = """
SELECT pos, ts, id, crc, headers, payload FROM records
WHERE pos >= :low AND pos < :high ORDER BY pos LIMIT :limit
"""
_OLDEST_OWN: Final = """
SELECT pos, ts, id, crc, headers, payload FROM records WHERE pos IN (
    SELECT pos FROM (SELECT pos FROM records INDEXED BY records_conv
        WHERE conv = :conv AND pos >= :low AND pos < :high ORDER BY pos LIMIT :limit)
    UNION SELECT pos FROM (SELECT pos FROM records INDEXED BY records_conv
        WHERE conv = X'' AND pos >= :low AND pos < :high ORDER BY pos LIMIT :limit)
) ORDER BY pos LIMIT :limit
"""
_OLDEST_FAMILY: Final = """
SELECT pos, ts, id, crc, headers, payload FROM records WHERE pos IN (
    SELECT pos FROM (SELECT pos FROM records INDEXED BY records_conv
        WHERE conv = :conv AND pos >= :low AND pos < :high ORDER BY pos LIMIT :limit)
    UNION SELECT pos FROM (SELECT pos FROM records INDEXED BY records_parent
        WHERE parent = :conv AND pos >= :low AND pos < :high ORDER BY pos LIMIT :limit)
    UNION SELECT pos FROM (SELECT pos FROM records INDEXED BY records_root
        WHERE root = :conv AND pos >= :low AND pos < :high ORDER BY pos LIMIT :limit)
    UNION SELECT pos FROM (SELECT pos FROM records INDEXED BY records_conv
        WHERE conv = X'' AND pos >= :low AND pos < :high ORDER BY pos LIMIT :limit)
) ORDER BY pos LIMIT :limit
"""

_Row = tuple[int, int, bytes, int, bytes, bytes]


def read_window(
    connection: sqlite3.Connection, path: str, topic: TopicRow, parts: list[PartitionState], query: WindowQuery
) -> list[LogRecord]:
    """The matching records of the read window, by partition, then offset."""
    newest = _NEWEST_FAMILY if query.match.children else _NEWEST_OWN
    conv = ulid_bytes(query.match.conversation_id)
    limit = -1 if query.newest is None else min(query.newest, sys.maxsize)
    records: list[LogRecord] = []
    for part in parts:
        bounds = window_bounds(PartitionInfo(part.id, part.created_at, part.first, part.end), query)
        low, high = position(part.key, bounds[0]), position(part.key, bounds[1])
        if low >= high:
            continue
        values = {"conv": conv, "low": low, "high": high, "limit": limit}
        rows: list[_Row] = connection.execute(newest, values).fetchall()
        rows.reverse()
        strays: list[_Row] = connection.execute(_STRAYS, values).fetchall()
        if strays:
            rows = sorted(rows + strays)
        _check_and_add(records, path, topic, part.id, rows)
    return records


def read_page(
    connection: sqlite3.Connection,
    path: str,
    topic: TopicRow,
    part: PartitionState,
    *,
    start: int,
    limit: int,
    match: Match | None,
) -> Page:
    """The records from an offset on. A page ends early where its records reach ``MAX_BATCH_BYTES``."""
    low = max(start, part.first)
    if low >= part.end:
        return Page([], low, part.first, part.end)
    values: dict[str, Any] = {"low": position(part.key, low), "high": position(part.key, part.end), "limit": limit}
    if match is None:
        statement = _OLDEST_ANY
    else:
        statement = _OLDEST_FAMILY if match.children else _OLDEST_OWN
        values["conv"] = ulid_bytes(match.conversation_id)
    rows: list[_Row] = []
    size = 0
    for row in connection.execute(statement, values):
        rows.append(row)
        size += len(row[4]) + len(row[5])
        if size >= MAX_BATCH_BYTES:
            break
    complete = size < MAX_BATCH_BYTES and len(rows) < limit
    after = (rows[-1][0] & OFFSET_MASK) + 1 if rows else low
    if match is None:
        expected = part.end - low if complete else after - low
        if len(rows) != expected:
            offsets = {row[0] & OFFSET_MASK for row in rows}
            hole = next(offset for offset in range(low, low + expected) if offset not in offsets)
            raise damaged(path, topic.name, part.id, hole, "the record is missing")
    records: list[LogRecord] = []
    _check_and_add(records, path, topic, part.id, rows)
    return Page(records, part.end if complete else after, part.first, part.end)


def _check_and_add(records: list[LogRecord], path: str, topic: TopicRow, partition: int, rows: list[_Row]) -> None:
    time = 0
    for pos, ts, record_id, crc, headers, payload in rows:
        # The records of a batch have one time: one object for all of them is less to keep and to free.
        if ts != time:
            time = ts
        try:
            sound = crc == checksum(pos, ts, record_id, headers, payload)
        except TypeError:  # a damaged row can hold a value of another type
            sound = False
        if not sound:
            raise damaged(path, topic.name, partition, pos & OFFSET_MASK, "its checksum does not match")
        records.append(
            LogRecord(partition, pos & OFFSET_MASK, int.from_bytes(record_id, "big"), time, headers, payload)
        )
