"""The read window of a remote log, made of the topic as it is now and ranges of its partitions read at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

import anyio

from laser.errors import LaserError
from laser.model.records import LogRecord
from laser.model.topics import TopicInfo
from laser.model.window import Match, Window, WindowQuery, window_bounds

__all__ = ["RangeReader", "in_parallel", "read_window"]

T = TypeVar("T")


class RangeReader(Protocol):
    """One topic of a log, as ``read_window`` needs it. Who makes it sets the deadline that all its calls share."""

    async def topic(self) -> TopicInfo | None:
        """The topic now, ``None`` where it or its stream is absent."""
        ...

    async def read_range(self, info: TopicInfo, partition: int, low: int, high: int, match: Match) -> list[LogRecord]:
        """The matching records of a partition with ``low <= offset < high``, ascending.

        Records that are gone by now, through retention or a purge, are left out.
        """
        ...


async def read_window(reader: RangeReader, query: WindowQuery, *, at_once: int = 8) -> Window | None:
    """The answer to a ``WindowQuery``, ``None`` where the topic or stream is absent.

    Args:
        at_once: partitions that are read at the same time.
    """
    info = await reader.topic()
    if info is None:
        return None
    # query.newest is a hint that does not help here: what cannot be told without reading is which records match.
    reads = [
        _read(reader, info, part.id, low, high, query.match)
        for part in info.partitions
        for low, high in (window_bounds(part, query),)
        if low < high
    ]
    return Window(info, [record for records in await in_parallel(reads, at_once) for record in records])


def _read(
    reader: RangeReader, info: TopicInfo, partition: int, low: int, high: int, match: Match
) -> Callable[[], Awaitable[list[LogRecord]]]:
    return lambda: reader.read_range(info, partition, low, high, match)


async def in_parallel(calls: Sequence[Callable[[], Awaitable[T]]], at_once: int) -> list[T]:
    """The results of calls in their order. The first ``LaserError`` ends them all and is raised as it is."""
    if len(calls) == 1:
        return [await calls[0]()]
    results: dict[int, T] = {}
    errors: list[LaserError] = []
    waiting = iter(enumerate(calls))

    async def work() -> None:
        for number, call in waiting:
            try:
                results[number] = await call()
            except LaserError as error:
                errors.append(error)
                group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for _ in range(min(at_once, len(calls))):
            group.start_soon(work)
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(calls))]
