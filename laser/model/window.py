"""The read window: which offsets of a partition a context read examines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from laser.limits import CONTEXT_READ_WINDOW
from laser.model.messages import Messages
from laser.model.records import LogRecord
from laser.model.topics import PartitionInfo, TopicInfo

__all__ = ["Match", "Page", "Window", "WindowQuery", "window_bounds"]


class Match(msgspec.Struct, frozen=True):
    """Which records a read wants: those of a conversation.

    Attributes:
        conversation_id: canonical.
        children: also records whose parent or root conversation it is.

    A record that cannot be attributed to any conversation (no headers, damaged headers, no conversation header)
    matches too, so that the reader can report it.
    """

    conversation_id: str
    children: bool = False


class WindowQuery(msgspec.Struct, frozen=True):
    """A context read of one topic.

    Attributes:
        match: the conversation. starts: first offset wanted by partition; a missing one is 0. ``None``: no start.
        stops: end (exclusive) by partition; a missing one reads as empty. ``None``: no stop.
        newest: the caller needs only the newest matching records of the topic, this many, by time, partition and
            offset; unattributable records do not count. A hint: an engine may return more. One whose timestamps can
            step back must, and one that can hold copies returns also those up to ``COPY_DISTANCE`` before.
        size: raw records examined in each partition.
    """

    match: Match
    starts: Mapping[int, int] | None = None
    stops: Mapping[int, int] | None = None
    newest: int | None = None
    size: int = CONTEXT_READ_WINDOW


class Window(msgspec.Struct, frozen=True):
    """The answer to a ``WindowQuery``.

    Attributes:
        topic: as it is now. records: its matching records, by partition, then offset; not to be changed.
        made: what a reader made of these very records, by how many of the newest it wanted. A log that knows that an
            answer is still what it was gives the same mapping again; ``None``: it does not know.
    """

    topic: TopicInfo
    records: list[LogRecord]
    made: dict[int, Messages] | None = None


class Page(msgspec.Struct, frozen=True):
    """A stretch of one partition.

    Attributes:
        records: ascending by offset; only matching ones when the read had a ``Match``.
        next: the offset to read on from. first: the first offset that the partition holds, or the start of the read
            when that one is held.
        end: the offset that the partition's next record gets. The stretch is exhausted when ``next >= end``,
            never because a page was short or empty.
    """

    records: Sequence[LogRecord]
    next: int
    first: int
    end: int


def window_bounds(part: PartitionInfo, query: WindowQuery) -> tuple[int, int]:
    """The offsets ``[low, high)`` that a context read examines in a partition.

    An open read takes the newest ``size`` records; one that stops, the ``size`` that end there; one that starts,
    from the later of its start and the start of the newest ``size``.
    """
    high = part.end
    if query.stops is not None:
        high = min(high, query.stops.get(part.id, 0))
    low = max(part.first, high - query.size)
    if query.starts is not None:
        low = max(low, query.starts.get(part.id, 0))
    return low, max(low, high)
