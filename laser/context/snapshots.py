"""Snapshots of folded state: made from checkpoints, turned back into them, checked against the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import anyio.to_thread

from laser.context.connection import Connection
from laser.context.resume import check_topic, record_at
from laser.context.spans import Span, look_up
from laser.errors import InvalidError, NotFoundError, StaleCheckpointError
from laser.limits import MAX_OFFSET
from laser.model.checkpoint import Checkpoint, PartitionMark, TopicMark
from laser.model.checks import check_name, check_topics, shown
from laser.model.ids import parse_conversation_id
from laser.model.snapshot import Folded, Snapshot
from laser.model.topics import TopicInfo
from laser.ports.log import Log
from laser.wire.state_json import encode_state

__all__ = [
    "check_snapshot",
    "check_version",
    "checkpoint_from_snapshot",
    "resume_point",
    "snapshot_from_checkpoint",
    "snapshot_of_spans",
    "still_fits",
]


async def snapshot_from_checkpoint(
    laser: Connection,
    conversation: str,
    fold: str,
    checkpoint: Checkpoint,
    state: object,
    *,
    version: int = 1,
) -> Snapshot:
    """A snapshot of a state that holds everything before a checkpoint.

    Args:
        conversation: its id. fold: the name of the fold, 1 to 255 bytes. version: of the fold's code.
        checkpoint: taken before the state was folded with ``at=checkpoint``.
        state: JSON-able, or bytes that hold JSON already; what JSON would change is refused (see ``encode_state``).

    Raises:
        InvalidError: a bad argument, or a state that cannot be kept exactly, with the path inside it.
        NotFoundError: a topic of the checkpoint is absent. StaleCheckpointError: it was made anew since.
    """
    if not isinstance(checkpoint, Checkpoint):
        raise InvalidError(f"checkpoint: expected a Checkpoint, got {type(checkpoint).__name__}", argument="checkpoint")
    if checkpoint.is_empty():
        raise InvalidError(
            "checkpoint: covers no topic, so the snapshot would not know its stream", argument="checkpoint"
        )
    log = laser.open_log()
    as_of: list[Folded] = []
    stream: TopicInfo | None = None
    for topic, offsets in checkpoint.topics().items():
        stream = await _current(log, laser.stream, topic)
        mark = checkpoint.mark(topic)
        if mark is not None:
            check_topic(stream, mark)
        for partition, offset in offsets.items():
            if offset:
                known = mark.partitions.get(partition) if mark is not None else None
                last_id = None if known is None else known.last_id
                as_of.append(Folded(stream.topic_id, stream.created_at_micros, partition, offset - 1, last_id))
    assert stream is not None
    return _snapshot(stream, conversation, fold, version, as_of, await _encoded(state))


async def checkpoint_from_snapshot(laser: Connection, snapshot: Snapshot, topics: Sequence[str]) -> Checkpoint:
    """Where to resume after a snapshot.

    Args:
        topics: the names of the topics that were folded. One that had no record then is read from 0.

    Raises:
        StaleCheckpointError: the stream or a topic was made anew, or a folded topic is not among ``topics``.
    """
    check_snapshot(snapshot)
    names = check_topics(topics)
    return resume_point(snapshot, names, await look_up(laser.open_log(), laser.stream, names), laser.stream)


def resume_point(snapshot: Snapshot, topics: Sequence[str], infos: Mapping[str, TopicInfo], stream: str) -> Checkpoint:
    """``checkpoint_from_snapshot`` with topics that were looked up already.

    Raises:
        StaleCheckpointError: the stream or a topic was made anew, or a folded topic is not among ``topics``.
    """
    by_id = {info.topic_id: info for info in infos.values()}
    for info in by_id.values():
        _check_stream(info, snapshot, stream)
    per_topic: dict[str, dict[int, int]] = {info.name: {} for info in by_id.values()}
    marks: dict[str, dict[int, PartitionMark]] = {info.name: {} for info in by_id.values()}
    for part in snapshot.as_of:
        found = by_id.get(part.topic_id)
        if found is None or found.created_at_micros != part.topic_created_at_micros:
            raise StaleCheckpointError(
                f"the snapshot folded topic number {part.topic_id}, created {part.topic_created_at_micros}, which is "
                f"none of {', '.join(topics)} now: it was made anew, or the topics of the fold changed; "
                "fold from the start instead",
                topic=found.name if found is not None else ", ".join(topics),
                partition=part.partition,
                expected=part.topic_created_at_micros,
                actual=0 if found is None else found.created_at_micros,
            )
        created = next((p.created_at_micros for p in found.partitions if p.id == part.partition), 0)
        per_topic[found.name][part.partition] = min(part.offset + 1, MAX_OFFSET)
        marks[found.name][part.partition] = PartitionMark(created, part.last_id)
    return Checkpoint(
        per_topic,
        {
            info.name: TopicMark(
                info.stream_id,
                info.stream_created_at_micros,
                info.topic_id,
                info.created_at_micros,
                marks[info.name],
            )
            for info in by_id.values()
        },
    )


async def snapshot_of_spans(
    log: Log,
    stream: str,
    conversation: str,
    fold: str,
    version: int,
    positions: Iterable[tuple[Span, int]],
    state: object,
    now_micros: int | None = None,
    last_ids: dict[tuple[str, int], tuple[int, int | None]] | None = None,
) -> Snapshot | None:
    """The snapshot of a state that holds everything before the given positions; ``None`` when there is no topic.

    Args:
        last_ids: by topic and partition, a position and the id of the record before it, as this function left them
            for the snapshot before: positions that did not move are not looked up again.
    """
    as_of: list[Folded] = []
    topic: TopicInfo | None = None
    known = {} if last_ids is None else last_ids
    for span, position in positions:
        topic = span.topic
        if position:
            place = (topic.name, span.partition)
            if place not in known or known[place][0] != position:
                known[place] = (position, await last_id_before(log, stream, *place, position))
            last_id = known[place][1]
            as_of.append(Folded(topic.topic_id, topic.created_at_micros, span.partition, position - 1, last_id))
    if topic is None:
        return None
    return _snapshot(topic, conversation, fold, version, as_of, await _encoded(state), now_micros)


async def still_fits(log: Log, stream: str, snapshot: Snapshot) -> bool:
    """Whether the log still has what the snapshot was folded from, or at least nothing else in its place."""
    infos = {info.topic_id: info for info in await log.topics(stream)}
    for folded in snapshot.as_of:
        info = infos.get(folded.topic_id)
        if info is None or info.created_at_micros != folded.topic_created_at_micros:
            return False
        part = next((part for part in info.partitions if part.id == folded.partition), None)
        if part is None or part.end <= folded.offset:
            return False
        if folded.last_id is not None and folded.offset >= part.first:
            there = await last_id_before(log, stream, info.name, part.id, folded.offset + 1)
            if there not in (None, folded.last_id):
                return False
    return True


def check_snapshot(value: object) -> None:
    """Refuses what is no snapshot.

    Raises:
        InvalidError: so it is.
    """
    if not isinstance(value, Snapshot):
        raise InvalidError(
            f"snapshot: expected a Snapshot, as snapshot_from_checkpoint makes one, got {type(value).__name__}",
            argument="snapshot",
        )


def check_version(version: int) -> int:
    """A fold's version: a whole number from 1 to 2**32 - 1.

    Raises:
        InvalidError: it is not.
    """
    if type(version) is not int or not 1 <= version < 2**32:
        raise InvalidError(f"version: {shown(version)} is not a whole number from 1 to 2**32 - 1", argument="version")
    return version


async def last_id_before(log: Log, stream: str, topic: str, partition: int, position: int) -> int | None:
    """The id of the record just before a position, ``None`` when it is gone."""
    record = await record_at(log, stream, topic, partition, position - 1)
    return None if record is None else record.id


async def _encoded(state: object) -> bytes:
    # A state can be of any size, and checking it takes longer than writing it.
    return await anyio.to_thread.run_sync(encode_state, state)


def _snapshot(
    topic: TopicInfo,
    conversation: str,
    fold: str,
    version: int,
    as_of: Sequence[Folded],
    state: bytes,
    now_micros: int | None = None,
) -> Snapshot:
    return Snapshot(
        stream=topic.stream,
        stream_id=topic.stream_id,
        stream_created_at_micros=topic.stream_created_at_micros,
        conversation=parse_conversation_id(conversation),
        fold=check_name(fold, "fold"),
        as_of=tuple(as_of),
        state=state,
        version=check_version(version),
        saved_at_micros=now_micros,
    )


async def _current(log: Log, stream: str, topic: str) -> TopicInfo:
    info = await log.topic(stream, topic)
    if info is None:
        raise NotFoundError(
            f"topic {topic!r} of stream {stream!r}, which the checkpoint covers, does not exist",
            stream=stream,
            topic=topic,
        )
    return info


def _check_stream(info: TopicInfo, snapshot: Snapshot, stream: str) -> None:
    for what, expected, actual in (
        ("number", snapshot.stream_id, info.stream_id),
        ("creation time", snapshot.stream_created_at_micros, info.stream_created_at_micros),
    ):
        if expected != actual:
            raise StaleCheckpointError(
                f"the snapshot is of stream {snapshot.stream!r} with {what} {expected}, but {stream!r} has {actual}: "
                "the stream was made anew; fold from the start instead",
                topic=info.name,
                partition=None,
                expected=expected,
                actual=actual,
            )
