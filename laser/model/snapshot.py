"""Snapshots: folded state, and how far the log was folded into it."""

from __future__ import annotations

import msgspec

from laser.limits import MAX_OFFSET

__all__ = ["Folded", "Snapshot", "resume_offsets"]


class Folded(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """How far one partition was folded.

    Attributes:
        topic_id, topic_created_at_micros, partition: which.
        offset: the last offset folded, inclusive.
        last_id: the id of the record there, ``None`` when unknown (snapshots of laser-sdk).
    """

    topic_id: int
    topic_created_at_micros: int
    partition: int
    offset: int
    last_id: int | None = None


class Snapshot(msgspec.Struct, frozen=True):
    """Folded state of one conversation.

    Attributes:
        stream, stream_id, stream_created_at_micros: the stream it was folded from.
        conversation: the conversation id. fold: the name of the fold.
        as_of: what was folded, whole partitions; one that is missing had nothing.
        state: the folded value as JSON bytes.
        version: of the fold; a snapshot of laser-sdk has none and counts as 1.
        saved_at_micros: by the saver's clock, for people to read; nothing is decided by it.
    """

    stream: str
    stream_id: int
    stream_created_at_micros: int
    conversation: str
    fold: str
    as_of: tuple[Folded, ...]
    state: bytes
    version: int = 1
    saved_at_micros: int | None = None

    def covers(self, other: Snapshot) -> bool:
        """Whether everything that the other one folded is folded here too, in the same topics."""
        mine = {(part.topic_id, part.topic_created_at_micros, part.partition): part.offset for part in self.as_of}
        return all(
            mine.get((part.topic_id, part.topic_created_at_micros, part.partition), -1) >= part.offset
            for part in other.as_of
        )


def resume_offsets(snapshot: Snapshot) -> list[tuple[int, int, int, int]]:
    """Where to read on: (topic id, topic creation time, partition, next offset), in the snapshot's order.

    The next offset is the last folded one plus 1, and stops at 2**64 - 1.
    """
    return [
        (part.topic_id, part.topic_created_at_micros, part.partition, min(part.offset + 1, MAX_OFFSET))
        for part in snapshot.as_of
    ]
