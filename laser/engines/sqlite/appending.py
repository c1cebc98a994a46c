"""Appending a batch to a partition."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from laser.engines.sqlite.rows import OFFSET_MASK, checksum, position
from laser.engines.sqlite.states import PartitionState, TopicRow
from laser.engines.sqlite.transaction import Transaction
from laser.errors import StorageError
from laser.limits import CONTEXT_READ_WINDOW
from laser.model.ids import ulid_bytes
from laser.model.records import Appended, NewRecord
from laser.wire.envelope import ENVELOPE_KEY
from laser.wire.routing import Route, route

__all__ = ["append", "partition_of"]

_INSERT: Final = (
    "INSERT INTO records (pos, ts, total, id, crc, conv, parent, root, headers, payload) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
# Callers choose ids, and two conversations can choose the same one.
_FIND: Final = "SELECT pos FROM records WHERE id = ? AND conv = ? AND pos >= ? AND pos < ? ORDER BY pos LIMIT 1"

_IndexKeys = tuple[bytes, bytes | None, bytes | None]


def partition_of(key: str, partitions: int) -> int:
    """The partition of a key: the same in every process and release."""
    return _hash(key) % partitions


@lru_cache(maxsize=4096)
def _hash(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big")


def append(
    tx: Transaction, stream: str, topic: str, records: Sequence[NewRecord], key: str, find_first: bool
) -> tuple[TopicRow, Appended, int]:
    """Appends records to the partition of a key.

    Returns:
        The topic, where the records are, and how many bytes were written.
    """
    row = tx.topic(stream, topic)
    part = tx.partition(row, partition_of(key, row.partitions))
    if row.durability == "power":
        tx.require_power()
    known: dict[int, int] = {}
    if find_first:
        part, known = _find(tx, row, part, records, key)
    fresh = [record for record in records if record.id not in known] if known else records
    if part.end + len(fresh) > OFFSET_MASK:
        raise StorageError(f"{tx.path}: topic {topic!r}, partition {part.id} is full", path=tx.path)

    # One batch has one time, which no other append of any partition has.
    ts = tx.stamp(part.last_ts) if fresh else part.last_ts
    start, total = position(part.key, part.end), part.total
    rows = []
    for pos, record in enumerate(fresh, start):
        headers, payload = record.headers, record.payload
        total += len(headers) + len(payload)
        record_id = record.id.to_bytes(16, "big")
        crc = checksum(pos, ts, record_id, headers, payload)
        rows.append((pos, ts, total, record_id, crc, *_index_keys(headers, payload), headers, payload))
    if len(rows) == 1:
        tx.connection.execute(_INSERT, rows[0])
    elif rows:
        tx.connection.executemany(_INSERT, rows)
    elif row.durability == "power":
        # The records were found, but the attempt that wrote them may have died before they reached the disk.
        tx.touch()

    written = total - part.total
    first = part.end
    if rows:
        part.end, part.total, part.last_ts = first + len(rows), total, ts
        tx.written += written
    if known:
        offsets = iter(range(first, part.end))
        placed = tuple([known[record.id] if record.id in known else next(offsets) for record in records])
    else:
        placed = tuple(range(first, part.end))
    return row, Appended(row.stream_id, row.id, part.id, placed), written


def _find(
    tx: Transaction, topic: TopicRow, part: PartitionState, records: Sequence[NewRecord], key: str
) -> tuple[PartitionState, dict[int, int]]:
    """Where the records are already: the partition of the key that holds the most of them, and their offsets by id.

    The key's partition was another one before partitions were added.
    """
    found: dict[int, int] = {}
    for number in dict.fromkeys(partition_of(key, count) for count in reversed(tx.growth(topic))):
        candidate = tx.partition(topic, number)
        offsets = _offsets(tx, candidate, records)
        if len(offsets) > len(found):
            part, found = candidate, offsets
    return part, found


def _offsets(tx: Transaction, part: PartitionState, records: Sequence[NewRecord]) -> dict[int, int]:
    low = position(part.key, max(part.first, part.end - CONTEXT_READ_WINDOW))
    high = position(part.key, part.end)
    found = {}
    for record in records:
        owner = _index_keys(record.headers, record.payload)[0]
        row = tx.connection.execute(_FIND, (record.id.to_bytes(16, "big"), owner, low, high)).fetchone()
        if row is not None:
            found[record.id] = row[0] & OFFSET_MASK
    return found


def _index_keys(headers: bytes, payload: bytes) -> _IndexKeys:
    # Records of one conversation tend to have equal headers, and only an envelope's conversation is in its payload.
    return _keys_of(route(headers, payload)) if ENVELOPE_KEY in headers else _keys_of_headers(headers)


@lru_cache(maxsize=8192)
def _keys_of_headers(headers: bytes) -> _IndexKeys:
    return _keys_of(route(headers, b""))


def _keys_of(found: Route) -> _IndexKeys:
    own, parent, root = found.conversation_id, found.parent_conversation_id, found.root_conversation_id
    return (
        b"" if own is None else ulid_bytes(own),
        None if parent is None else ulid_bytes(parent),
        None if root is None else ulid_bytes(root),
    )
