"""What all cases share: opening the log under test, and reading a topic whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import ClassVar
from uuid import uuid4

import pytest

from laser.model.records import LogRecord, NewRecord
from laser.model.topics import TopicConfig, TopicRetention
from laser.ports.log import Log

__all__ = ["LogCases", "Place", "contents"]

# A slow server must not fail a case: this only ends those that hang.
_READ_LIMIT = 1_000


class Place:
    """A topic of the log under test, with the port's methods bound to it."""

    def __init__(self, log: Log, stream: str, topic: str) -> None:
        self.log = log
        self.stream = stream
        self.topic = topic

    async def append(self, *records: NewRecord, key: str = "key", find_first: bool = False) -> list[tuple[int, int]]:
        """Appends, and returns (partition, offset) of each record."""
        done = await self.log.append(self.stream, self.topic, records, key=key, find_first=find_first)
        assert len(done.offsets) == len(records)
        return [(done.partition, offset) for offset in done.offsets]

    async def read(self, partition: int = 0) -> list[LogRecord]:
        """Everything that a partition holds."""
        return await contents(self.log, self.stream, self.topic, partition)


class LogCases(ABC):
    """See ``LogConformance``, which documents what a subclass sets."""

    pytestmark: ClassVar = pytest.mark.anyio

    shares_data: ClassVar[bool] = True
    clock_can_step_back: ClassVar[bool] = False
    keeps_any_headers: ClassVar[bool] = True
    rounds: ClassVar[int] = 20

    @abstractmethod
    def open_log(self) -> AbstractAsyncContextManager[Log]:
        """Opens the log under test, and closes it at the end.

        Called again in the same test it opens the same data once more, where ``shares_data`` says so.
        """

    def set_clock(self, micros: int) -> None:
        """Sets the broker's clock, microseconds since 1970 UTC. Left as it is, cases that need it are skipped."""
        pytest.skip("the broker's clock cannot be set")

    @asynccontextmanager
    async def place(self, partitions: int = 1, retention: TopicRetention | None = None) -> AsyncIterator[Place]:
        """A new topic in a new stream."""
        async with self.open_log() as log:
            place = Place(log, f"suite-{uuid4().hex}", "events")
            await log.ensure_topic(place.stream, place.topic, TopicConfig(partitions, retention))
            yield place


async def contents(log: Log, stream: str, topic: str, partition: int) -> list[LogRecord]:
    """Everything that a partition holds, page by page."""
    records: list[LogRecord] = []
    page = await log.read(stream, topic, partition, start=0, limit=_READ_LIMIT)
    records += page.records
    while page.next < page.end:
        page = await log.read(stream, topic, partition, start=page.next, limit=_READ_LIMIT)
        records += page.records
    return records
