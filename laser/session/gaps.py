"""Whether the beginning of a session's records is still on the log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from laser.context.spans import Span
from laser.errors import RetentionGapError
from laser.ports.log import Log

__all__ = ["check_beginning", "lost"]


async def check_beginning(
    log: Log, stream: str, spans: Sequence[Span], began: Callable[[], Awaitable[int]] | None
) -> None:
    """Refuses partitions whose removed records may have been a session's.

    Args:
        spans: of the partitions. began: when the session's records began, microseconds since 1970 UTC by the log's
            clock; ``None`` when it is known that some are missing wherever records were removed.

    Raises:
        RetentionGapError: retention took records that the session had, or may have had.
    """
    for span in spans:
        part = next(part for part in span.topic.partitions if part.id == span.partition)
        if not part.first:
            continue
        if began is not None:
            page = await log.read(stream, span.topic.name, span.partition, start=part.first, limit=1)
            # What was removed is older than what is left: nothing of a session that began later.
            if page.records and page.records[0].timestamp_micros < await began():
                continue
        raise lost(span.topic.name, span.partition, part.first)


def lost(topic: str, partition: int, first: int) -> RetentionGapError:
    """The error for records that are gone."""
    return RetentionGapError(
        f"partition {partition} of {topic!r} now begins at {first}: the beginning of the session is gone by retention; "
        "what needs it cannot be told any more",
        topic=topic,
        partition=partition,
        wanted=0,
        first=first,
    )
