"""Resuming: whether the log can still give what a checkpoint needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial

from laser.context.gathering import gather
from laser.errors import RetentionGapError, StaleCheckpointError
from laser.limits import CONTEXT_READ_WINDOW
from laser.model.checkpoint import Checkpoint, TopicMark
from laser.model.records import LogRecord
from laser.model.topics import PartitionInfo, TopicInfo
from laser.ports.log import Log

__all__ = [
    "check_partition",
    "check_partitions_there",
    "check_record_before",
    "check_same_record",
    "check_topic",
    "check_topics_there",
    "check_window",
    "record_at",
]


def check_topics_there(topics: Sequence[str], there: Collection[str], checkpoint: Checkpoint) -> None:
    """Refuses a log that lacks a topic of which the checkpoint has seen records.

    Args:
        topics: the names that are wanted. there: those of them that exist.

    Raises:
        StaleCheckpointError: so it is.
    """
    for topic in topics:
        covered = checkpoint.topic_offsets(topic)
        if topic not in there and covered and any(covered.values()):
            raise StaleCheckpointError(
                f"topic {topic!r}, which the checkpoint covers, does not exist any more; fold from the start instead",
                topic=topic,
                partition=None,
                expected=max(covered.values()),
                actual=0,
            )


def check_partitions_there(info: TopicInfo, offsets: Mapping[int, int]) -> None:
    """Refuses a topic that lacks a partition of which an offset above 0 is wanted.

    Raises:
        StaleCheckpointError: so it is.
    """
    there = {part.id for part in info.partitions}
    for partition, offset in offsets.items():
        if partition not in there and offset:
            raise StaleCheckpointError(
                f"partition {partition} of {info.name!r}, of which {offset} is wanted, does not exist (any more)",
                topic=info.name,
                partition=partition,
                expected=offset,
                actual=0,
            )


def check_topic(info: TopicInfo, mark: TopicMark) -> None:
    """Refuses a topic that is not the one the mark was taken from.

    Raises:
        StaleCheckpointError: the stream or topic was deleted and made anew.
    """
    for what, expected, actual in (
        ("stream", mark.stream_created_at_micros, info.stream_created_at_micros),
        ("topic", mark.created_at_micros, info.created_at_micros),
        ("topic number", mark.topic_id, info.topic_id),
    ):
        if expected != actual:
            raise StaleCheckpointError(
                f"the {what} of {info.name!r} was made anew since the checkpoint: created {actual}, was {expected}; "
                "fold from the start instead",
                topic=info.name,
                partition=None,
                expected=expected,
                actual=actual,
            )


def check_partition(info: TopicInfo, part: PartitionInfo, start: int, created_at_micros: int | None) -> None:
    """Refuses a start that the partition cannot serve.

    Args:
        start: the first offset wanted. created_at_micros: when the partition was made, as the checkpoint knows it.

    Raises:
        StaleCheckpointError: the partition was made anew, or ends before the start (purged, or its tail was lost).
        RetentionGapError: records from the start on are gone.
    """
    if created_at_micros is not None and created_at_micros != part.created_at_micros:
        raise StaleCheckpointError(
            f"partition {part.id} of {info.name!r} was made anew since the checkpoint: "
            f"created {part.created_at_micros}, was {created_at_micros}; fold from the start instead",
            topic=info.name,
            partition=part.id,
            expected=created_at_micros,
            actual=part.created_at_micros,
        )
    if start > part.end:
        raise StaleCheckpointError(
            f"partition {part.id} of {info.name!r} ends at {part.end}, before the checkpoint's {start}: "
            "it was purged, or lost its end; fold from the start instead",
            topic=info.name,
            partition=part.id,
            expected=start,
            actual=part.end,
        )
    if start < part.first:
        raise RetentionGapError(
            f"partition {part.id} of {info.name!r} now begins at {part.first}: "
            f"the records from {start} on are gone by retention; nothing was skipped silently",
            topic=info.name,
            partition=part.id,
            wanted=start,
            first=part.first,
        )


async def check_window(
    log: Log, stream: str, topic: str, info: TopicInfo | None, checkpoint: Checkpoint, *, starts: bool
) -> None:
    """Refuses a context read that starts or stops at a checkpoint which the log cannot serve.

    Args:
        info: the topic now, ``None`` where absent. starts: the read starts there, so that the records of its window
            which come after the checkpoint must be there.

    Raises:
        StaleCheckpointError: the log is not the one of the checkpoint. RetentionGapError: records are gone.
    """
    if info is None:
        check_topics_there([topic], (), checkpoint)
        return
    offsets, mark = checkpoint.topic_offsets(topic) or {}, checkpoint.mark(topic)
    if mark is not None:
        check_topic(info, mark)
    check_partitions_there(info, offsets)
    reads: list[Callable[[], Awaitable[None]]] = []
    for part in info.partitions:
        at = offsets.get(part.id)
        if at is None:
            continue
        known = None if mark is None else mark.partitions.get(part.id)
        # What lies before the read window is not looked at, gone or not.
        wanted = at if starts and part.first > part.end - CONTEXT_READ_WINDOW else max(at, part.first)
        check_partition(info, part, wanted, None if known is None else known.created_at_micros)
        if known is not None and known.last_id is not None and at > part.first:
            reads.append(partial(check_record_before, log, stream, info, part.id, at, known.last_id))
    await gather(reads)


async def check_record_before(
    log: Log, stream: str, info: TopicInfo, partition: int, position: int, last_id: int
) -> None:
    """Refuses a log whose record just before a position is not the one that was there.

    Raises:
        StaleCheckpointError: it is another one.
    """
    record = await record_at(log, stream, info.name, partition, position - 1)
    if record is not None:
        check_same_record(info, partition, position - 1, last_id, record.id)


async def record_at(log: Log, stream: str, topic: str, partition: int, offset: int) -> LogRecord | None:
    """The record at an offset, ``None`` where retention or a purge took it."""
    while True:
        page = await log.read(stream, topic, partition, start=offset, limit=1)
        if page.records:
            record = page.records[0]
            return record if record.offset == offset else None
        if page.next > offset or offset >= page.end:
            return None


def check_same_record(info: TopicInfo, partition: int, offset: int, expected: int, actual: int) -> None:
    """Refuses a log whose record at an offset is not the one that was there.

    Raises:
        StaleCheckpointError: it is another one, so offsets were handed out again.
    """
    if expected != actual:
        raise StaleCheckpointError(
            f"partition {partition} of {info.name!r} holds another record at {offset} than at the checkpoint "
            f"(id {actual:032x}, was {expected:032x}): it was purged or lost its end and grew again; "
            "fold from the start instead",
            topic=info.name,
            partition=partition,
            expected=expected,
            actual=actual,
        )
