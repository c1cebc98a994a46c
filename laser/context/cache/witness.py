"""What this client has seen with its own eyes: records that it need not look at again to know that they are there."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from laser.model.topics import TopicInfo

__all__ = ["Witness"]

_MAX_FACTS: Final = 10_000


class Witness:
    """Remembers that a record stood at an offset, for as long as that cannot have changed but by a purge.

    A crash of the log changes ``TopicInfo.epoch``, and a topic made anew its creation time. A purge empties every
    partition of a topic at once, so whoever relies on a witness must still look at one record of the topic.
    """

    def __init__(self) -> None:
        self._facts: OrderedDict[tuple[int, ...], int] = OrderedDict()

    def saw(self, topic: TopicInfo, partition: int, offset: int, record_id: int) -> None:
        """Notes that the record at an offset has an id."""
        key = _key(topic, partition, offset)
        self._facts[key] = record_id
        self._facts.move_to_end(key)
        if len(self._facts) > _MAX_FACTS:
            self._facts.popitem(last=False)

    def vouches(self, topic: TopicInfo, partition: int, offset: int, record_id: int) -> bool:
        """Whether the record at an offset was seen to have that id, and nothing but a purge can have changed it."""
        return self._facts.get(_key(topic, partition, offset)) == record_id


def _key(topic: TopicInfo, partition: int, offset: int) -> tuple[int, ...]:
    created = next((part.created_at_micros for part in topic.partitions if part.id == partition), 0)
    return (
        topic.stream_id,
        topic.stream_created_at_micros,
        topic.topic_id,
        topic.created_at_micros,
        topic.epoch,
        created,
        partition,
        offset,
    )
