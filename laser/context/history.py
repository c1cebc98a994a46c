"""Reading a conversation: its records from several topics, merged into one order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import anyio.lowlevel
import msgspec

from laser.context.decoding import Copies, decode_record
from laser.context.gathering import gather
from laser.context.merging import merge_back
from laser.context.resume import check_window
from laser.model.checkpoint import Checkpoint
from laser.model.messages import ContextMessage, Messages, SkippedRecord
from laser.model.records import LogRecord
from laser.model.topics import TopicInfo
from laser.model.window import Match, Window, WindowQuery
from laser.ports.log import Log
from laser.wire.routing import route

__all__ = ["HistoryQuery", "read_history"]

# Records decoded, and looked at for copies, between two chances for other tasks to run: about a millisecond's work.
_DECODE_CHUNK: Final = 128
_ID_CHUNK: Final = 4_096


class HistoryQuery(msgspec.Struct, frozen=True):
    """What to read of a conversation.

    Attributes:
        topics: names, in the order that breaks ties of time.
        from_offsets: first offset by partition, for every topic. from_checkpoint: first offset by topic and
            partition; overrides ``from_offsets`` for the topics that it covers.
        to_checkpoint: where each partition stops.
        newest: only this many of the newest messages are needed, ``None`` for all of the window.
    """

    conversation_id: str
    topics: Sequence[str]
    children: bool = False
    from_offsets: Mapping[int, int] | None = None
    from_checkpoint: Checkpoint | None = None
    to_checkpoint: Checkpoint | None = None
    newest: int | None = None

    def for_topic(self, topic: str, newest: int | None) -> WindowQuery:
        """The window query of one topic."""
        starts, stops = self.from_offsets, None
        if self.from_checkpoint is not None:
            # A topic that the checkpoint does not cover had no record then: it is read from its beginning.
            starts = self.from_checkpoint.topic_offsets(topic) or {}
        if self.to_checkpoint is not None:
            stops = self.to_checkpoint.topic_offsets(topic) or {}
        return WindowQuery(Match(self.conversation_id, self.children), starts, stops, newest)


async def read_history(log: Log, stream: str, query: HistoryQuery) -> Messages:
    """The conversation's messages of the read windows, in order; absent topics read as empty.

    With ``newest`` only that many are returned, and skipped records are reported from the oldest of them on.

    The order is by broker timestamp, then place of the topic in the list, then partition, then offset. Within a
    partition the highest timestamp seen so far counts, so that a clock that steps back never reorders it. Of copies
    of one append (see ``COPY_DISTANCE``) the first one is kept.

    Raises:
        StaleCheckpointError: the log is not the one of a checkpoint. RetentionGapError: records of the window that
            come after ``from_checkpoint`` are gone.
    """
    reads = [partial(_read_topic, log, stream, topic, query) for topic in query.topics]
    windows = await gather(reads)
    if query.newest is not None:
        newest = await _newest(windows, query.newest)
        if newest is not None:
            return newest
        # Of the newest records some hold no message, or are copies: their places belong to older ones.
        whole = msgspec.structs.replace(query, newest=None)
        windows = await gather([partial(_read_topic, log, stream, topic, whole) for topic in query.topics])
    kept = [(window.topic, await _without_copies(window.records)) for window in windows if window is not None]
    windows.clear()
    messages, _ = await _walk(kept, query.newest)
    return messages


async def _read_topic(log: Log, stream: str, topic: str, query: HistoryQuery) -> Window | None:
    window = await log.window(stream, topic, query.for_topic(topic, query.newest))
    info = None if window is None else window.topic
    if query.from_checkpoint is not None:
        await check_window(log, stream, topic, info, query.from_checkpoint, starts=True)
    if query.to_checkpoint is not None:
        await check_window(log, stream, topic, info, query.to_checkpoint, starts=False)
    return window


async def _newest(windows: list[Window | None], newest: int) -> Messages | None:
    """The newest messages, decoding no more records than that takes. Empties the list of windows.

    Returns:
        ``None`` when a record of the conversation holds no message, or may be a copy: then the rest of the window
        has to be looked at as well.
    """
    # A log that remembers its answers keeps with one what was made of it last time.
    made = windows[0].made if len(windows) == 1 and windows[0] is not None else None
    if made is not None and newest in made:
        return Messages(made[newest], made[newest].skipped)
    for window in windows:
        if window is not None and await _may_hold_copies(window.records):
            return None
    parts = [(window.topic, window.records) for window in windows if window is not None]
    windows.clear()
    messages, whole = await _walk(parts, newest)
    if not whole:
        return None
    # An envelope is a mapping that a caller could change.
    if made is not None and not any(message.envelope for message in messages):
        made[newest] = Messages(messages, messages.skipped)
    return messages


async def _walk(windows: list[tuple[TopicInfo, list[LogRecord]]], newest: int | None) -> tuple[Messages, bool]:
    """The newest messages in order, all with ``None``, and whether each record of the conversation held one.

    Empties the list of windows: each record is let go of when it was looked at, since to free many at once takes long.
    Skipped records are reported from the oldest message on; how much older raw history a read saw differs between
    engines.
    """
    messages = Messages()
    skipped: list[SkippedRecord] = []
    whole = True
    ordered = await merge_back(windows)
    for count, (record, topic) in enumerate(ordered, 1):
        if len(messages) == newest:
            break
        message = decode_record(record, topic)
        if isinstance(message, ContextMessage):
            messages.append(message)
        else:
            skipped.append(message)
            whole = whole and route(record.headers, record.payload).conversation_id is None
        if count % _DECODE_CHUNK == 0:
            await anyio.lowlevel.checkpoint()
    await ordered.let_go()
    messages.reverse()
    messages.skipped = tuple(reversed(skipped))
    return messages, whole


async def _may_hold_copies(records: Sequence[LogRecord]) -> bool:
    """Whether an id stands twice. Records without one are no copies."""
    ids: set[int] = set()
    for start in range(0, len(records), _ID_CHUNK):
        if start:
            await anyio.lowlevel.checkpoint()
        more = [record.id for record in records[start : start + _ID_CHUNK] if record.id]
        before = len(ids)
        ids.update(more)
        if len(ids) - before < len(more):
            return True
    return False


async def _without_copies(records: Sequence[LogRecord]) -> list[LogRecord]:
    if not await _may_hold_copies(records):
        return list(records)
    copies: dict[int, Copies] = {}
    kept: list[LogRecord] = []
    for count, record in enumerate(records, 1):
        if count % _DECODE_CHUNK == 0:
            await anyio.lowlevel.checkpoint()
        conversation = route(record.headers, record.payload).conversation_id
        if conversation is None or not copies.setdefault(record.partition, Copies()).note(record, conversation):
            kept.append(record)
    return kept
