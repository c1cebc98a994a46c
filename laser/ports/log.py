"""The log: topics of partitions, each an ordered run of records that only grows at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from laser.model.records import Appended, NewRecord
from laser.model.topics import Durability, TopicConfig, TopicInfo
from laser.model.window import Match, Page, Window, WindowQuery

__all__ = ["EngineInfo", "Log"]


class EngineInfo(msgspec.Struct, frozen=True):
    """What a log is.

    Attributes:
        engine: ``memory``, ``embedded`` or ``iggy``. version: of the server or library behind it.
        location: where, without credentials.
        default_durability: what a topic gets when none is asked for.
        durabilities: those that ``TopicConfig.durability`` may name.
        remote: whether a read crosses a network, so that keeping what was read pays.
        steady_clock: whether timestamps never go back within a partition.
    """

    engine: str
    version: str
    location: str
    default_durability: Durability
    durabilities: tuple[Durability, ...]
    remote: bool = False
    steady_clock: bool = True


class Log(Protocol):
    """A durable, partitioned, replayable log.

    **Order.** Offsets of a partition start at 0 and grow. The records of one ``append`` take one partition, in
    their order and without another record between them. Two appends of which the first had returned before the
    second began have offsets in that order when they share a partition.

    **Partition.** Records appended with one key go to one partition, until partitions are added.

    **Time.** Each record gets the broker's clock. Engines of one machine give each append a later time than every
    append before it, to whatever topic; the records of one append share theirs. On a server times can be equal, and
    on a cluster they can step back (``WindowQuery.newest`` says what follows).

    **Durability.** When ``append`` returns, its records survive what the topic's durability says, and every later
    read sees them. When it raises ``AppendIndeterminateError`` or is cancelled they may or may not be there, all or
    none; any other error means none are.

    **Errors of every method.** ``ClosedError`` after ``aclose``, in another event loop than the one that opened the
    log, or in a forked child; ``DisconnectedError``, ``AuthenticationError`` and ``DeadlineError`` from a remote
    log; ``StorageError`` from a local one. Names have been checked by the caller.

    **Concurrency.** Every method may be called by many tasks at once, and other processes may use the same log.
    No method blocks the event loop. Cancelling a call leaves the log usable.
    """

    async def ensure_topic(self, stream: str, topic: str, config: TopicConfig) -> TopicInfo:
        """Creates the stream and topic where they are absent, and returns the topic as it is.

        An existing topic is left as it is: partitions, retention and durability are not changed.

        Raises:
            UnsupportedError: this log cannot give the durability or retention.
        """
        ...

    async def topic(self, stream: str, topic: str) -> TopicInfo | None:
        """The topic now, ``None`` where it or its stream is absent."""
        ...

    async def topics(self, stream: str, names: Sequence[str] | None = None) -> tuple[TopicInfo, ...]:
        """The topics of a stream by name; none when the stream is absent.

        Args:
            names: only those of them that exist; ``None`` for all.

        On a local log all are as of the same moment: a record is in the answer only if every one appended before it
        is. On a remote one each is as of its own.
        """
        ...

    async def append(
        self, stream: str, topic: str, records: Sequence[NewRecord], *, key: str, find_first: bool = False
    ) -> Appended:
        """Appends records, all or none, to the partition of a key.

        Args:
            records: at least one; ids differ.
            key: 1 to 255 UTF-8 bytes. The same key goes to the same partition in every process.
            find_first: the records may be on the log already, from an earlier attempt with the same key: those whose
                id and conversation are found among the newest ``CONTEXT_READ_WINDOW`` of the partition are not written
                again, and their offsets are returned. The partitions that the key had before partitions were added
                are looked into as well.

        Raises:
            NotFoundError: the topic or stream is absent; nothing was written.
            AppendIndeterminateError: no answer came in time; the records may be there.
        """
        ...

    async def read(
        self, stream: str, topic: str, partition: int, *, start: int, limit: int, match: Match | None = None
    ) -> Page:
        """A stretch of a partition from an offset on.

        Args:
            start: the first offset wanted. Below the first one held the page begins there; at or past the end the
                page is empty.
            limit: the most records to return, from 1. Fewer, even none, say nothing about the end: see ``Page``.
            match: only records of this conversation, and those that cannot be attributed.

        Raises:
            NotFoundError: the topic, stream or partition is absent.
        """
        ...

    async def look(
        self, stream: str, topic: str, partition: int, *, start: int, limit: int
    ) -> tuple[TopicInfo | None, Page | None]:
        """The topic now and a stretch of one of its partitions: ``topic`` and ``read`` in the time of one of them.

        Which of the two is looked at first is not said. Either is ``None`` where the topic is absent, the page where
        the partition is.

        Args:
            start, limit: see ``read``.
        """
        ...

    async def window(self, stream: str, topic: str, query: WindowQuery) -> Window | None:
        """The records that a context read examines and that match (see ``WindowQuery``).

        Returns:
            ``None`` where the topic or stream is absent. All partitions are as of the same moment on a local log,
            and each as of its own on a remote one.
        """
        ...

    async def add_partitions(self, stream: str, topic: str, count: int) -> TopicInfo:
        """Adds partitions at the end. From then on keys map to all of them.

        Raises:
            NotFoundError: the topic is absent. LimitError: more than ``MAX_PARTITIONS`` in all.
        """
        ...

    async def purge(self, stream: str, topic: str) -> None:
        """Removes every record of a topic; offsets start at 0 again.

        Raises:
            NotFoundError: the topic is absent.
        """
        ...

    async def delete_topic(self, stream: str, topic: str) -> None:
        """Removes a topic with its records.

        Raises:
            NotFoundError: the topic is absent.
        """
        ...

    async def describe(self) -> EngineInfo:
        """What this log is. On a remote log this is also the check that it answers."""
        ...

    async def aclose(self) -> None:
        """Closes the log. Appends under way finish first. Calling it again does nothing."""
        ...
