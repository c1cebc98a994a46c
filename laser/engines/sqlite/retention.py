"""Retention: which records a topic no longer shows, and how they go.

A record is *hidden* by moving its partition's ``first`` past it, which costs the same for one record as for a million.
It is *swept* later: deleted, a few at a time, so that no append waits long for the write lock.

- **Age.** Reads never show a record older than the topic's ``expire_after``; they look for the first younger one
  themselves. Writers hide such records for good about once a second while they append to the topic, and when a read or
  ``ensure_topic`` came across one.
- **Size.** A writer checks the topic after each 64th of ``max_size`` (at most 1 MiB) that it appended, and hides the
  oldest records until the payload and header bytes fit. So a topic may exceed the bound by that much a process. The
  newest record of each partition always stays.
"""

from __future__ import annotations

import heapq
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import Final

from laser.engines.sqlite.rows import OFFSET_MASK, position
from laser.engines.sqlite.states import PartitionState, TopicRow, hide_expired, load_partitions, load_topic_by_id

__all__ = ["Upkeep", "retire_partition", "sweep", "trim"]

_AGE_CHECK_SECONDS: Final = 1.0
_SIZE_CHECK_BYTES: Final = 1 << 20
_SWEEP_RECORDS: Final = 500
_SWEEP_BYTES: Final = 4 << 20
_BUSY_SWEEP_SECONDS: Final = 0.05

_MARK_SWEEP: Final = "INSERT OR REPLACE INTO sweeps (key, below) VALUES (?, ?)"


class Upkeep:
    """Remembers which topics are to be looked at and whether hidden records wait to be swept.

    Used by the writer's thread; ``poke`` and ``sweep`` also by others.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self.sweeping = True  # an earlier process may have left some
        self._wake = wake
        self._poked: set[int] = set()
        self._due: set[int] = set()
        self._appended: dict[int, int] = {}
        self._next_age_check: dict[int, float] = {}
        self._next_sweep = 0.0

    def poke(self, topic_id: int) -> None:
        """Somebody saw an expired record in this topic."""
        if topic_id not in self._poked:
            self._poked.add(topic_id)
            self._wake()

    def sweep(self) -> None:
        """Records were given to the sweeper."""
        self.sweeping = True
        self._wake()

    def appended(self, topic: TopicRow, size: int) -> None:
        """Notes an append of that many bytes."""
        if topic.expire_micros is not None:
            now = time.monotonic()
            if now >= self._next_age_check.get(topic.id, 0.0):
                self._next_age_check[topic.id] = now + min(_AGE_CHECK_SECONDS, topic.expire_micros / 4e6)
                self._due.add(topic.id)
        if topic.max_size is not None:
            step = min(topic.max_size // 64, _SIZE_CHECK_BYTES)
            # The first append of this process checks at once: another one may have stopped short of it.
            since = self._appended.get(topic.id, step) + size
            if since > step:
                self._due.add(topic.id)
                since = 0
            self._appended[topic.id] = since

    @property
    def waiting(self) -> bool:
        """Whether topics wait to be looked at."""
        return bool(self._due or self._poked)

    def wanted(self, *, idle: bool) -> bool:
        """Whether there is something to do now. Between appends sweeps are spread out."""
        if self.waiting:
            return True
        return self.sweeping and (idle or time.monotonic() >= self._next_sweep)

    def run(self, connection: sqlite3.Connection, path: str, now: int) -> None:
        """One bounded piece of the work, inside a transaction."""
        while self._poked:
            self._due.add(self._poked.pop())
        if self._due:
            topic = load_topic_by_id(connection, self._due.pop())
            if topic is not None and trim(connection, path, topic, now):
                self.sweeping = True
        elif self.sweeping:
            self.sweeping = sweep(connection)
            self._next_sweep = time.monotonic() + _BUSY_SWEEP_SECONDS


def trim(connection: sqlite3.Connection, path: str, topic: TopicRow, now: int) -> bool:
    """Hides the records of a topic that are over its bounds. Returns whether there were any."""
    parts = load_partitions(connection, topic.id)
    moved = {part.id: part for part in hide_expired(connection, path, topic, parts, now)}
    if topic.max_size is not None:
        excess = sum(part.size for part in parts) - topic.max_size
        if excess > 0:
            moved.update((part.id, part) for part in _hide_oldest(connection, parts, excess))
    for part in moved.values():
        connection.execute(
            "UPDATE partitions SET first = ?, first_total = ?, last_ts = ? WHERE topic_id = ? AND id = ?",
            (part.first, part.first_total, part.last_ts, topic.id, part.id),
        )
        connection.execute(_MARK_SWEEP, (part.key, part.first))
    return bool(moved)


def retire_partition(connection: sqlite3.Connection, part: PartitionState) -> None:
    """Gives all records of a partition to the sweeper. Its key stays taken until they are gone."""
    if part.end:
        connection.execute(_MARK_SWEEP, (part.key, part.end))


def sweep(connection: sqlite3.Connection) -> bool:
    """Deletes some hidden records. Returns whether there may be more."""
    row = connection.execute("SELECT key, below FROM sweeps ORDER BY key LIMIT 1").fetchone()
    if row is None:
        return False
    key, below = row
    hidden = connection.execute(
        "SELECT pos, total FROM records WHERE pos >= ? AND pos < ? ORDER BY pos LIMIT ?",
        (position(key, 0), position(key, below), _SWEEP_RECORDS),
    ).fetchall()
    if not hidden:
        connection.execute("DELETE FROM sweeps WHERE key = ?", (key,))
        return True
    start, base = hidden[0]
    last = next((pos for pos, total in hidden if total - base > _SWEEP_BYTES), hidden[-1][0])
    connection.execute("DELETE FROM records WHERE pos >= ? AND pos <= ?", (start, last))
    # What the records held, they hold no longer; contents that nothing else holds go with the next collection.
    connection.execute("DELETE FROM content_holds WHERE pos >= ? AND pos <= ?", (start, last))
    return True


def _hide_oldest(connection: sqlite3.Connection, parts: list[PartitionState], excess: int) -> list[PartitionState]:
    by_age = heapq.merge(*[_removable(connection, part) for part in parts], key=lambda item: item[:3])
    moved = {}
    for _, number, offset, total, part in by_age:
        excess -= total - part.first_total
        part.first, part.first_total = offset + 1, total
        moved[number] = part
        if excess <= 0:
            break
    return list(moved.values())


def _removable(
    connection: sqlite3.Connection, part: PartitionState
) -> Iterator[tuple[int, int, int, int, PartitionState]]:
    # Never the newest one: right after an append a read must see what was appended.
    rows = connection.execute(
        "SELECT pos, ts, total FROM records WHERE pos >= ? AND pos < ? ORDER BY pos",
        (position(part.key, part.first), position(part.key, part.end - 1)),
    )
    for pos, ts, total in rows:
        yield ts, part.id, pos & OFFSET_MASK, total, part
