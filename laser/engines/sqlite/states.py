"""What the tables say of a topic and its partitions at one moment."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from functools import lru_cache
from typing import Final

import msgspec

from laser.engines.sqlite.errors import damaged
from laser.engines.sqlite.rows import OFFSET_MASK, position
from laser.model.topics import Durability, PartitionInfo, TopicInfo, TopicRetention

__all__ = [
    "PartitionState",
    "TopicRow",
    "hide_expired",
    "load_partition",
    "load_partitions",
    "load_topic",
    "load_topic_by_id",
    "load_topics",
    "topic_info",
]

_TOPIC: Final = (
    "SELECT t.id, t.name, t.created_at, t.expire_micros, t.max_size, t.durability, t.partitions, "
    "s.id, s.name, s.created_at "
    "FROM streams s JOIN topics t ON t.stream_id = s.id WHERE s.name = ? AND t.name = ?"
)
_TOPIC_BY_ID: Final = (
    "SELECT t.id, t.name, t.created_at, t.expire_micros, t.max_size, t.durability, t.partitions, "
    "s.id, s.name, s.created_at "
    "FROM topics t JOIN streams s ON t.stream_id = s.id WHERE t.id = ?"
)
_TOPICS: Final = (
    "SELECT t.id, t.name, t.created_at, t.expire_micros, t.max_size, t.durability, t.partitions, "
    "s.id, s.name, s.created_at "
    "FROM streams s JOIN topics t ON t.stream_id = s.id WHERE s.name = ? ORDER BY t.name"
)
_PARTITION: Final = (
    "SELECT id, key, created_at, first, first_total, last_ts FROM partitions WHERE topic_id = ? AND id = ?"
)
_PARTITIONS: Final = (
    "SELECT id, key, created_at, first, first_total, last_ts FROM partitions WHERE topic_id = ? ORDER BY id"
)
_TAIL: Final = "SELECT pos, ts, total FROM records WHERE pos >= ? AND pos < ? ORDER BY pos DESC LIMIT 1"
_AT: Final = "SELECT ts, total FROM records WHERE pos = ?"


class TopicRow(msgspec.Struct, frozen=True):
    """A row of ``topics`` with its stream."""

    id: int
    name: str
    created_at: int
    expire_micros: int | None
    max_size: int | None
    durability: Durability
    partitions: int
    stream_id: int
    stream: str
    stream_created_at: int


class PartitionState(msgspec.Struct):
    """A partition: its row, and what its last record tells.

    Attributes:
        key: the high bits of its records' row ids. first: the first offset held. end: the next record's offset.
        first_total: bytes appended before ``first``. total: bytes appended before ``end``.
        last_ts: no new record may be older than this.
    """

    id: int
    key: int
    created_at: int
    first: int
    first_total: int
    end: int
    total: int
    last_ts: int

    @property
    def size(self) -> int:
        """Payload and header bytes held."""
        return self.total - self.first_total


def load_topic(connection: sqlite3.Connection, stream: str, topic: str) -> TopicRow | None:
    """The topic, ``None`` where absent."""
    row = connection.execute(_TOPIC, (stream, topic)).fetchone()
    return None if row is None else TopicRow(*row)


def load_topic_by_id(connection: sqlite3.Connection, topic_id: int) -> TopicRow | None:
    """The topic, ``None`` where it was deleted."""
    row = connection.execute(_TOPIC_BY_ID, (topic_id,)).fetchone()
    return None if row is None else TopicRow(*row)


def load_topics(connection: sqlite3.Connection, stream: str) -> list[TopicRow]:
    """The topics of a stream by name."""
    return [TopicRow(*row) for row in connection.execute(_TOPICS, (stream,)).fetchall()]


def load_partition(connection: sqlite3.Connection, topic_id: int, partition: int) -> PartitionState | None:
    """A partition, ``None`` where absent."""
    row = connection.execute(_PARTITION, (topic_id, partition)).fetchone()
    return None if row is None else _state(connection, row)


def load_partitions(connection: sqlite3.Connection, topic_id: int) -> list[PartitionState]:
    """The partitions of a topic by number."""
    return [_state(connection, row) for row in connection.execute(_PARTITIONS, (topic_id,)).fetchall()]


def _state(connection: sqlite3.Connection, row: tuple[int, ...]) -> PartitionState:
    number, key, created_at, first, first_total, last_ts = row
    tail = connection.execute(_TAIL, (position(key, first), position(key + 1, 0))).fetchone()
    if tail is None:
        return PartitionState(number, key, created_at, first, first_total, first, first_total, last_ts)
    pos, ts, total = tail
    end = (pos & OFFSET_MASK) + 1
    return PartitionState(number, key, created_at, first, first_total, end, total, max(ts, last_ts))


def hide_expired(
    connection: sqlite3.Connection, path: str, topic: TopicRow, parts: list[PartitionState], now: int
) -> list[PartitionState]:
    """Moves ``first`` past the records that are too old. Returns the partitions where it moved.

    Times never go back within a partition, so a search by halves finds the place.
    """
    if topic.expire_micros is None:
        return []
    horizon = now - topic.expire_micros
    moved = []
    for part in parts:
        low, high, total = part.first, part.end, part.first_total
        probe = low  # most reads find nothing expired, and are done after one look at the first record
        while low < high:
            row = connection.execute(_AT, (position(part.key, probe),)).fetchone()
            if row is None:
                raise damaged(path, topic.name, part.id, probe, "the record is missing")
            if row[0] < horizon:
                low, total = probe + 1, row[1]
            else:
                high = probe
            probe = (low + high) // 2
        if low > part.first:
            part.first, part.first_total = low, total
            moved.append(part)
    return moved


def topic_info(topic: TopicRow, parts: list[PartitionState]) -> TopicInfo:
    """The topic as the port shows it."""
    return TopicInfo(
        stream=topic.stream,
        stream_id=topic.stream_id,
        stream_created_at_micros=topic.stream_created_at,
        name=topic.name,
        topic_id=topic.id,
        created_at_micros=topic.created_at,
        retention=_retention(topic.expire_micros, topic.max_size),
        durability=topic.durability,
        size_bytes=sum([part.size for part in parts]),
        partitions=tuple([PartitionInfo(part.id, part.created_at, part.first, part.end) for part in parts]),
    )


@lru_cache(maxsize=64)
def _retention(expire_micros: int | None, max_size: int | None) -> TopicRetention | None:
    if expire_micros is None and max_size is None:
        return None
    age = None if expire_micros is None else timedelta(microseconds=expire_micros)
    return TopicRetention(expire_after=age, max_size=max_size)
