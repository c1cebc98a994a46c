"""Taking checkpoints."""

from __future__ import annotations

from collections.abc import Sequence

from laser.context.resume import record_at
from laser.context.spans import look_up
from laser.model.checkpoint import Checkpoint, PartitionMark, TopicMark
from laser.model.checks import check_topics
from laser.model.topics import AgentTopic, PartitionInfo, TopicInfo
from laser.ports.log import Log

__all__ = ["take_checkpoint"]


async def take_checkpoint(log: Log, stream: str, topics: Sequence[str] | None = None) -> Checkpoint:
    """Where topics end now; absent ones are not covered. On a local log all ends are as of one moment.

    Args:
        topics: names; ``None`` means ``agent.sessions``.
    """
    names = [AgentTopic.Sessions] if topics is None else check_topics(topics)
    per_topic: dict[str, dict[int, int]] = {}
    marks: dict[str, TopicMark] = {}
    for name, info in (await look_up(log, stream, names)).items():
        per_topic[name] = {part.id: part.end for part in info.partitions}
        marks[name] = await _mark(log, stream, info)
    return Checkpoint(per_topic, marks)


async def _mark(log: Log, stream: str, info: TopicInfo) -> TopicMark:
    partitions = {
        part.id: PartitionMark(part.created_at_micros, await _last_id(log, stream, info, part))
        for part in info.partitions
    }
    return TopicMark(info.stream_id, info.stream_created_at_micros, info.topic_id, info.created_at_micros, partitions)


async def _last_id(log: Log, stream: str, info: TopicInfo, part: PartitionInfo) -> int | None:
    if part.end == part.first:
        return None
    record = await record_at(log, stream, info.name, part.id, part.end - 1)
    return None if record is None else record.id
