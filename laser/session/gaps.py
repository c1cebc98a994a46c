"""Whether the beginning of a session's records is still on the log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from laser.errors import RetentionGapError
from laser.model.topics import TopicInfo
from laser.ports.log import Log

__all__ = ["check_beginning"]


async def check_beginning(
    log: Log, stream: str, topic: TopicInfo, partitions: Iterable[int], began: Callable[[], Awaitable[int]] | None
) -> None:
    """Refuses partitions whose removed records may have been a session's.

    Args:
        began: when the session's records began, microseconds since 1970 UTC by the log's clock; ``None`` when it is
            known that some are missing wherever records were removed.

    Raises:
        RetentionGapError: retention took records that the session had, or may have had.
    """
    for part in topic.partitions:
        if part.id not in partitions or not part.first:
            continue
        if began is not None:
            page = await log.read(stream, topic.name, part.id, start=part.first, limit=1)
            # What was removed is older than what is left: nothing of a session that began later.
            if page.records and page.records[0].timestamp_micros < await began():
                continue
        raise RetentionGapError(
            f"partition {part.id} of {topic.name!r} now begins at {part.first}: the beginning of the session is gone "
            "by retention; what needs it cannot be told any more",
            topic=topic.name,
            partition=part.id,
            wanted=0,
            first=part.first,
        )
