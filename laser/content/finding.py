"""Finding messages that hold content: where each is said to be, and what the log says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from laser.content.places import Place, RecordName, log_of
from laser.limits import COPY_DISTANCE
from laser.model.topics import TopicInfo
from laser.ports.catalog import Hold
from laser.ports.log import Log
from laser.wire.routing import route

__all__ = ["Claim", "Range", "TopicView", "find", "is_in_doubt", "look", "ranges_of"]

_READ_PAGE: Final = 1_000

Range = tuple[int, int, int]
"""A partition, and offsets from the first one up to, not including, the second one."""


class TopicView(msgspec.Struct, frozen=True):
    """A topic as the log says.

    Attributes:
        log: which log it is on, see ``log_of``; ``None`` where that is not known. info: ``None`` where it is absent.
        others: creation times of the stream's other topics; one of them can be this one under another name.
    """

    log: str | None
    info: TopicInfo | None
    others: frozenset[int] = frozenset()


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A hold, the message that it is for, and where that is said to be."""

    hold: Hold
    name: RecordName
    place: Place

    @property
    def topic(self) -> tuple[str, str]:
        """Stream and topic."""
        return self.name.stream, self.name.topic

    @property
    def part(self) -> tuple[str, str, int | None]:
        """Stream, topic and partition."""
        return self.name.stream, self.name.topic, self.place.partition


async def look(log: Log, stream: str, topic: str, *, others: bool = False) -> TopicView:
    """A topic as it is now. That it is absent is believed where its stream is there with other topics.

    Args:
        others: whether the other topics are wanted where this one is there.
    """
    info = await log.topic(stream, topic)
    if info is not None and not others:
        return TopicView(log_of(info), info)
    found = {other.name: other for other in await log.topics(stream)}
    if not found or (topic in found) != (info is not None):
        # Nothing there that could say which log it is, or changed just now.
        return TopicView(None, None)
    times = frozenset(other.created_at_micros for other in found.values() if other.name != topic)
    return TopicView(log_of(next(iter(found.values()))), info, times)


def is_in_doubt(claim: Claim, view: TopicView) -> bool:
    """Whether a message cannot be where it is said to be, or nothing is said."""
    info, spot = view.info, claim.place.spot
    if info is None or spot is None or claim.place.topic != info.created_at_micros:
        return True
    part = next((part for part in info.partitions if part.id == spot[0]), None)
    return part is None or not part.first <= spot[1] < part.end


def ranges_of(info: TopicInfo, claims: Sequence[Claim]) -> list[Range]:
    """Where messages are if they are at all, ascending and without overlaps: near their offsets, where a copy can be.

    The whole topic where the append of one was never confirmed, or its id is the caller's, who may have written it
    again.
    """
    parts = {part.id: part for part in info.partitions}
    near: list[Range] = []
    for claim in claims:
        spot = claim.place.spot
        if spot is None or claim.place.again:
            return [(part.id, part.first, part.end) for part in info.partitions]
        part = parts.get(spot[0])
        if part is not None:
            near.append((part.id, max(part.first, spot[1] - COPY_DISTANCE), min(part.end, spot[1] + COPY_DISTANCE + 1)))
    merged: list[Range] = []
    for partition, start, stop in sorted(range_ for range_ in near if range_[1] < range_[2]):
        if merged and merged[-1][0] == partition and start <= merged[-1][2]:
            merged[-1] = partition, merged[-1][1], max(stop, merged[-1][2])
        else:
            merged.append((partition, start, stop))
    return merged


async def find(
    log: Log, info: TopicInfo, claims: Sequence[Claim], ranges: Sequence[Range], keep: Callable[[], Awaitable[None]]
) -> dict[RecordName, tuple[int, int]]:
    """Partition and offset of those messages that are in one of the ranges, the last of each.

    Args:
        keep: called before each read.
    """
    wanted: dict[int, list[RecordName]] = {}
    for claim in claims:
        wanted.setdefault(claim.name.record_id, []).append(claim.name)
    found: dict[RecordName, tuple[int, int]] = {}
    for partition, start, stop in ranges:
        while start < stop:
            await keep()
            limit = min(_READ_PAGE, stop - start)
            page = await log.read(info.stream, info.name, partition, start=start, limit=limit)
            for record in page.records:
                if record.id in wanted:
                    # One id can be in several conversations; a record that says none may be anybody's.
                    conversation = route(record.headers, record.payload).conversation_id
                    for name in wanted[record.id]:
                        if conversation in (None, name.conversation):
                            found[name] = partition, record.offset
            start = page.next
            if start >= page.end:
                break
    return found
