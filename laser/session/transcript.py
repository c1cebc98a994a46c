"""The transcript: what happened in a session, in pages. Loading old pages never moves the place of what comes next."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from laser.context.checkpoints import take_checkpoint
from laser.context.replay import Replay
from laser.context.snapshots import last_id_before
from laser.context.spans import look_up, spans_from_checkpoint
from laser.errors import InvalidError
from laser.limits import DEFAULT_LAST_N, MAX_TRANSCRIPT_PAGE
from laser.model.checkpoint import Checkpoint, PartitionMark, TopicMark
from laser.model.messages import ContextMessage, SkippedRecord
from laser.model.topics import AgentTopic, TopicInfo
from laser.model.window import Match
from laser.ports.log import Log
from laser.session.backward import Backward
from laser.session.cursors import OlderCursor, parse_cursor, parse_live

__all__ = ["DEFAULT_PAGE", "TranscriptPage", "read_transcript"]

DEFAULT_PAGE: Final = DEFAULT_LAST_N

_TOPIC: Final = AgentTopic.Sessions


class TranscriptPage(msgspec.Struct, frozen=True):
    """A part of a transcript.

    Attributes:
        messages: in the order of the conversation, oldest first.
        older: where the page before this one ends, exclusive; ``None`` at the beginning of the conversation.
        live: where what is new begins. Older pages have that of the page which they were reached from.
        skipped: records that could not be decoded.
    """

    messages: tuple[ContextMessage, ...]
    older: str | None
    live: str
    skipped: tuple[SkippedRecord, ...] = ()


async def read_transcript(
    log: Log,
    stream: str,
    conversation: str,
    began: Callable[[], Awaitable[int]],
    *,
    limit: int = DEFAULT_PAGE,
    before: str | None = None,
    after: str | None = None,
) -> TranscriptPage:
    """A page of a transcript; see ``Session.transcript``."""
    if type(limit) is not int or not 1 <= limit <= MAX_TRANSCRIPT_PAGE:
        raise InvalidError(
            f"limit: {limit!r:.40} is not a whole number from 1 to {MAX_TRANSCRIPT_PAGE}", argument="limit"
        )
    if before is not None and after is not None:
        raise InvalidError("after: give before or after, not both", argument="after")
    if after is not None:
        return await _newer(log, stream, conversation, parse_live(after, "after"), limit)
    if before is not None:
        cursor = parse_cursor(before, conversation)
        head, seen = parse_live(cursor.live, "before"), set(cursor.seen)
        bounds = cursor.bounds
    else:
        head, seen = await take_checkpoint(log, stream, [_TOPIC]), set()
        bounds = head.topic_offsets(_TOPIC) or {}
    found = await Backward(log, stream, conversation, began, head, seen).page(bounds, limit)
    live = head.to_json()
    older = None if found.bounds is None else OlderCursor(conversation, live, found.bounds, tuple(sorted(found.seen)))
    return TranscriptPage(found.messages, None if older is None else older.text(), live, found.skipped)


async def _newer(log: Log, stream: str, conversation: str, live: Checkpoint, limit: int) -> TranscriptPage:
    spans = spans_from_checkpoint([_TOPIC], await look_up(log, stream, [_TOPIC]), live)
    replay = Replay(log, stream, Match(conversation), spans)
    messages: list[ContextMessage] = []
    while len(messages) < limit and (batch := await replay.next_batch(limit - len(messages))) is not None:
        messages += batch
    offsets: dict[int, int] = {}
    marks: dict[int, PartitionMark] = {}
    info: TopicInfo | None = None
    for span, position in replay.positions():
        info = span.topic
        created = next(part.created_at_micros for part in info.partitions if part.id == span.partition)
        last_id = span.last_id
        if position != span.start:
            last_id = await last_id_before(log, stream, info.name, span.partition, position)
        offsets[span.partition] = position
        marks[span.partition] = PartitionMark(created, last_id)
    if info is not None:
        mark = TopicMark(info.stream_id, info.stream_created_at_micros, info.topic_id, info.created_at_micros, marks)
        live = Checkpoint({_TOPIC: offsets}, {_TOPIC: mark})
    return TranscriptPage(tuple(messages), None, live.to_json(), tuple(replay.skipped))
