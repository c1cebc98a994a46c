"""Resuming: whether the log can still give what a checkpoint needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from laser.errors import RetentionGapError, StaleCheckpointError
from laser.model.checkpoint import Checkpoint, TopicMark
from laser.model.topics import PartitionInfo, TopicInfo

__all__ = [
    "check_partition",
    "check_partitions_there",
    "check_same_record",
    "check_topic",
    "check_topics_there",
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
