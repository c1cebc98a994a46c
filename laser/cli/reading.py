"""Reads that go beyond one read window: a whole conversation, and what comes after a checkpoint."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence

import anyio

import laser as ls

__all__ = ["follow", "read_conversation"]


def keep_all(messages: list[ls.ContextMessage]) -> list[ls.ContextMessage]:
    """The policy that keeps everything."""
    return messages


async def read_conversation(laser: ls.Laser, conversation_id: str, topic: str) -> list[ls.ContextMessage]:
    """All messages of a conversation on a topic, in the order in which the library puts them.

    A context read examines ``CONTEXT_READ_WINDOW`` records of each partition. This one reads window before window,
    from the end of the topic back to the first record that it still holds. Two windows know nothing of each other:
    copies of one append in two of them both stay.
    """
    info = await laser.topic(topic)
    stops = {part.id: part.end for part in info.partitions}
    firsts = {part.id: part.first for part in info.partitions}
    found: dict[tuple[int, int], ls.ContextMessage] = {}
    while any(stops[part] > firsts[part] for part in stops):
        window = await laser.assemble_context(
            conversation_id, topics=[topic], policy=keep_all, to_checkpoint=ls.Checkpoint({topic: stops})
        )
        found.update(((message.partition, message.offset), message) for message in window)
        stops = {part: max(firsts[part], stop - ls.CONTEXT_READ_WINDOW) for part, stop in stops.items()}
    ordered: list[tuple[int, int, int, ls.ContextMessage]] = []
    partition, highest = -1, 0
    for place in sorted(found):
        message = found[place]
        if message.partition != partition:
            partition, highest = message.partition, 0
        highest = max(highest, message.timestamp_micros)
        ordered.append((highest, partition, message.offset, message))
    ordered.sort(key=lambda entry: entry[:3])
    return [entry[3] for entry in ordered]


async def follow(
    laser: ls.Laser, conversation_id: str, topics: Sequence[str], start: ls.Checkpoint, *, interval: float
) -> AsyncGenerator[ls.Messages, None]:
    """The messages after a checkpoint, as they come in: every one of them, none twice.

    Args:
        start: where to begin. interval: seconds between two looks at the log when nothing new is there.

    Raises:
        NotFoundError: a topic is gone. StaleCheckpointError: it was purged or made anew.
        RetentionGapError: records were removed before they could be read.
    """
    at = start.topics()
    while True:
        stop = {name: _next_stop(await laser.topic(name), at.get(name, {})) for name in topics}
        if stop == at:
            await anyio.sleep(interval)
            continue
        yield await laser.assemble_context(
            conversation_id,
            topics=topics,
            policy=keep_all,
            from_checkpoint=ls.Checkpoint(at),
            to_checkpoint=ls.Checkpoint(stop),
        )
        at = stop


def _next_stop(info: ls.TopicInfo, at: Mapping[int, int]) -> dict[int, int]:
    """How far one read may go without leaving records out: a read window from where the last one stopped."""
    stops: dict[int, int] = {}
    for part in info.partitions:
        wanted = at.get(part.id, 0)
        if part.end < wanted:
            raise ls.StaleCheckpointError(
                f"topic {info.name!r}, partition {part.id}: read up to {wanted}, but now it ends at {part.end}; "
                "it was purged or made anew",
                topic=info.name,
                partition=part.id,
                expected=wanted,
                actual=part.end,
            )
        # Partitions that grew out of a start of 0 may have begun later; only a place that was reached can be lost.
        if part.first > wanted > 0:
            raise ls.RetentionGapError(
                f"topic {info.name!r}, partition {part.id}: retention removed records {wanted} to "
                f"{part.first - 1} before they were read",
                topic=info.name,
                partition=part.id,
                wanted=wanted,
                first=part.first,
            )
        stops[part.id] = min(part.end, max(wanted, part.first) + ls.CONTEXT_READ_WINDOW)
    return stops
