"""Topics that rooms make for themselves, with their first record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from laser.errors import NotFoundError
from laser.model.records import Appended, NewRecord
from laser.model.topics import TopicConfig
from laser.ports.log import Log

__all__ = ["append_to_own", "in_own_topic"]

T = TypeVar("T")

_PARTITIONS: Final = 4


async def append_to_own(
    log: Log, stream: str, topic: str, records: Sequence[NewRecord], *, key: str, find_first: bool = False
) -> Appended:
    """Appends records as ``Log.append`` does; the topic is created where it is absent."""
    return await in_own_topic(
        log, stream, topic, lambda: log.append(stream, topic, records, key=key, find_first=find_first)
    )


async def in_own_topic(log: Log, stream: str, topic: str, append: Callable[[], Awaitable[T]]) -> T:
    """What ``append`` gives, that writes to a topic; where the topic is absent it is created, and asked once more."""
    try:
        return await append()
    except NotFoundError:
        await log.ensure_topic(stream, topic, TopicConfig(_PARTITIONS))
        return await append()
