"""Topics that rooms make for themselves, with their first record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from laser.errors import NotFoundError
from laser.model.records import Appended, NewRecord
from laser.model.topics import TopicConfig
from laser.ports.log import Log

__all__ = ["append_to_own"]

_PARTITIONS: Final = 4


async def append_to_own(log: Log, stream: str, topic: str, records: Sequence[NewRecord], *, key: str) -> Appended:
    """Appends records as ``Log.append`` does; the topic is created where it is absent."""
    try:
        return await log.append(stream, topic, records, key=key)
    except NotFoundError:
        await log.ensure_topic(stream, topic, TopicConfig(_PARTITIONS))
        return await log.append(stream, topic, records, key=key)
