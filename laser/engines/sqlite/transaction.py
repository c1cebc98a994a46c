"""One write transaction, shared by the calls that are committed as a group."""

from __future__ import annotations

import sqlite3
from itertools import accumulate

from laser.engines.sqlite.stamps import Stamps
from laser.engines.sqlite.states import PartitionState, TopicRow, load_partition, load_topic
from laser.errors import NotFoundError, StorageError
from laser.ports.clock import Clock

__all__ = ["Known", "PowerNeeded", "Transaction", "absent"]


class PowerNeeded(Exception):
    """The commit must reach the disk, and the transaction was not begun that way."""


class Known:
    """What writes have looked up, kept from one transaction to the next while nobody else commits."""

    def __init__(self) -> None:
        self.topics: dict[tuple[str, str], TopicRow] = {}
        self.partitions: dict[tuple[int, int], PartitionState] = {}
        self.growth: dict[int, list[int]] = {}
        self._version: int | None = None

    def refresh(self, connection: sqlite3.Connection) -> None:
        """Forgets everything if another connection, of any process, has committed. To be called with the write lock."""
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self.forget()
            self._version = version

    def forget(self) -> None:
        """Drops what was looked up."""
        self.topics.clear()
        self.partitions.clear()
        self.growth.clear()


class Transaction:
    """What a write works with. The write lock is held from before the first call to after the commit.

    So what was looked up once stays true until then, unless a write of this very transaction changes it and calls
    ``forget``.

    Args:
        power: whether the commit waits for the disk. known: to be forgotten when the transaction is rolled back.
        stamps: where records get their times.

    Attributes:
        connection: for statements. path: the database file. written: bytes written so far, for the group's bound.
    """

    def __init__(
        self, connection: sqlite3.Connection, path: str, clock: Clock, power: bool, known: Known, stamps: Stamps
    ) -> None:
        self.connection = connection
        self.path = path
        self.written = 0
        self.used_power = False
        self._power = power
        self._clock = clock
        self._now: int | None = None
        self._known = known
        self._stamps = stamps

    @property
    def now(self) -> int:
        """The clock at the transaction's first question, microseconds since 1970 UTC."""
        if self._now is None:
            self._now = self._clock.now_micros()
        return self._now

    def stamp(self, newest: int) -> int:
        """The time of one append: the clock's, but later than any given out before.

        Args:
            newest: the time of the partition's last record.
        """
        return self._stamps.next(self.now, newest)

    def require_power(self) -> None:
        """Makes sure that the commit waits for the disk.

        Raises:
            PowerNeeded: it would not; the group is begun anew in a way that does.
        """
        if not self._power:
            raise PowerNeeded
        self.used_power = True

    def topic(self, stream: str, topic: str) -> TopicRow:
        """The topic.

        Raises:
            NotFoundError: it or its stream is absent.
        """
        row = self._known.topics.get((stream, topic))
        if row is None:
            row = load_topic(self.connection, stream, topic)
            if row is None:
                raise absent(stream, topic)
            self._known.topics[stream, topic] = row
        return row

    def partition(self, topic: TopicRow, number: int) -> PartitionState:
        """A partition's state, to be kept current by whoever appends to it."""
        state = self._known.partitions.get((topic.id, number))
        if state is None:
            state = load_partition(self.connection, topic.id, number)
            if state is None:
                raise StorageError(
                    f"{self.path}: topic {topic.name!r} lacks partition {number}; the file is damaged, "
                    "restore it from a backup",
                    path=self.path,
                )
            self._known.partitions[topic.id, number] = state
        return state

    def growth(self, topic: TopicRow) -> list[int]:
        """How many partitions the topic has had, one number after the other up to now."""
        counts = self._known.growth.get(topic.id)
        if counts is None:
            added = self.connection.execute(
                "SELECT count(*) FROM partitions WHERE topic_id = ? GROUP BY created_at ORDER BY created_at",
                (topic.id,),
            )
            counts = list(accumulate(number for (number,) in added.fetchall()))
            self._known.growth[topic.id] = counts
        return counts

    def creation_time(self) -> int:
        """A time for something new: now, but later than any given out before, whatever the clock does."""
        (newest,) = self.connection.execute("SELECT created_at FROM catalog").fetchone()
        created_at: int = max(self.now, newest + 1)
        self.connection.execute("UPDATE catalog SET created_at = ?", (created_at,))
        return created_at

    def touch(self) -> None:
        """Writes something, so that the commit waits for the disk even where nothing else is written."""
        # A change that changes nothing would not be written.
        self.connection.execute("UPDATE catalog SET created_at = created_at + 1")

    def forget(self) -> None:
        """Drops what was looked up: topics or partitions were changed."""
        self._known.forget()


def absent(stream: str, topic: str, partition: int | None = None) -> NotFoundError:
    """The topic, its stream or its partition does not exist."""
    if partition is not None:
        return NotFoundError(
            f"topic {topic!r} of stream {stream!r} has no partition {partition}", stream=stream, topic=topic
        )
    return NotFoundError(
        f"topic {topic!r} of stream {stream!r} does not exist; create it with ensure_topic({topic!r}), "
        "or all agent topics with bootstrap()",
        stream=stream,
        topic=topic,
    )
