"""Spans: which stretch of which partition a replay reads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import msgspec

from laser.context.gathering import gather
from laser.context.resume import (
    check_partition,
    check_partitions_there,
    check_record_before,
    check_topic,
    check_topics_there,
)
from laser.model.checkpoint import Checkpoint
from laser.model.topics import TopicInfo
from laser.ports.log import Log

__all__ = [
    "Span",
    "look_up",
    "spans_at",
    "spans_from_checkpoint",
    "spans_from_offsets",
    "spans_full",
]


class Span(msgspec.Struct, frozen=True, gc=False):
    """A stretch ``[start, stop)`` of one partition.

    Attributes:
        rank: the place of the topic in the reader's list; breaks ties of time.
        resumes: the start is a position that someone reached before: what lies just before it is looked at, to
            check the log and to know the last ids.
        last_id: the id of the record before the start, where known.
        floats: nobody asked for this start, it is where the partition began: retention may move it until it is read.
    """

    rank: int
    topic: TopicInfo
    partition: int
    start: int
    stop: int
    resumes: bool = False
    last_id: int | None = None
    floats: bool = False


async def look_up(log: Log, stream: str, topics: Sequence[str]) -> dict[str, TopicInfo]:
    """The topics that exist, by name: on a local log as of one moment, so that no record is seen before an earlier one
    of another topic."""
    if len(topics) == 1:
        info = await log.topic(stream, topics[0])
        return {} if info is None else {info.name: info}
    return {info.name: info for info in await log.topics(stream, topics)}


def spans_full(topics: Sequence[str], infos: Mapping[str, TopicInfo]) -> list[Span]:
    """Everything that the topics hold, as ``look_up`` found them; absent ones hold nothing."""
    return [
        Span(rank, infos[topic], part.id, part.first, part.end, floats=True)
        for rank, topic in enumerate(topics)
        if topic in infos
        for part in infos[topic].partitions
    ]


async def spans_from_offsets(
    log: Log, stream: str, topics: Sequence[str], offsets: Mapping[str, Mapping[int, int]]
) -> list[Span]:
    """From given offsets to the end; a partition that is not given is read from its beginning.

    Raises:
        StaleCheckpointError: an offset past the end, or of a partition that does not exist. RetentionGapError: an
            offset that is gone.
    """
    spans: list[Span] = []
    for rank, info in await _infos(log, stream, topics):
        given = offsets.get(info.name, {})
        check_partitions_there(info, given)
        for part in info.partitions:
            start = given.get(part.id)
            if start is None:
                spans.append(Span(rank, info, part.id, part.first, part.end, floats=True))
            else:
                check_partition(info, part, start, None)
                spans.append(Span(rank, info, part.id, start, part.end))
    return spans


def spans_from_checkpoint(topics: Sequence[str], infos: Mapping[str, TopicInfo], checkpoint: Checkpoint) -> list[Span]:
    """From a checkpoint to the end; a partition that it lacks is new and read from 0.

    Args:
        infos: the topics as ``look_up`` found them after the checkpoint was had.

    Raises:
        StaleCheckpointError: the log is not the one of the checkpoint. RetentionGapError: records are gone.
    """
    spans: list[Span] = []
    check_topics_there(topics, infos, checkpoint)
    for rank, topic in enumerate(topics):
        info = infos.get(topic)
        if info is None:
            continue
        starts = checkpoint.topic_offsets(info.name) or {}
        mark = checkpoint.mark(info.name)
        if mark is not None:
            check_topic(info, mark)
        check_partitions_there(info, starts)
        for part in info.partitions:
            known = mark.partitions.get(part.id) if mark is not None else None
            start = starts.get(part.id, 0)
            check_partition(info, part, start, None if known is None else known.created_at_micros)
            last_id = None if known is None else known.last_id
            spans.append(Span(rank, info, part.id, start, part.end, start > 0, last_id))
    return spans


async def spans_at(log: Log, stream: str, topics: Sequence[str], checkpoint: Checkpoint) -> list[Span]:
    """From the beginning to a checkpoint; a partition that it lacks reads as empty.

    Raises:
        StaleCheckpointError: the log is not the one of the checkpoint, or ends before it.
    """
    spans: list[Span] = []
    ends: list[Callable[[], Awaitable[None]]] = []
    found = await _infos(log, stream, topics)
    check_topics_there(topics, {info.name for _, info in found}, checkpoint)
    for rank, info in found:
        stops = checkpoint.topic_offsets(info.name) or {}
        mark = checkpoint.mark(info.name)
        if mark is not None:
            check_topic(info, mark)
        check_partitions_there(info, stops)
        for part in info.partitions:
            known = mark.partitions.get(part.id) if mark is not None else None
            stop = stops.get(part.id, 0)
            check_partition(info, part, max(stop, part.first), None if known is None else known.created_at_micros)
            if known is not None and known.last_id is not None and stop > part.first:
                ends.append(partial(check_record_before, log, stream, info, part.id, stop, known.last_id))
            spans.append(Span(rank, info, part.id, min(part.first, stop), stop, floats=True))
    await gather(ends)
    return spans


async def _infos(log: Log, stream: str, topics: Sequence[str]) -> list[tuple[int, TopicInfo]]:
    return _ranked(topics, await look_up(log, stream, topics))


def _ranked(topics: Sequence[str], infos: Mapping[str, TopicInfo]) -> list[tuple[int, TopicInfo]]:
    return [(rank, infos[topic]) for rank, topic in enumerate(topics) if topic in infos]
