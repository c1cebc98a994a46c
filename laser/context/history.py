"""Reading a conversation: its records from several topics, merged into one order."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final, TypeVar

import anyio.lowlevel
import msgspec

from laser.context.decoding import Copies, decode_record
from laser.context.gathering import gather
from laser.context.resume import check_window
from laser.model.checkpoint import Checkpoint
from laser.model.messages import ContextMessage, Messages, SkippedRecord
from laser.model.records import LogRecord
from laser.model.topics import TopicInfo
from laser.model.window import Match, Window, WindowQuery
from laser.ports.log import Log
from laser.wire.routing import route

__all__ = ["HistoryQuery", "read_history"]

# Records decoded, and put in order, between two chances for other tasks to run: about a millisecond's work.
_DECODE_CHUNK: Final = 128
_KEY_CHUNK: Final = 1_024

_Order = tuple[int, int, int, int]
_Entry = tuple[_Order, LogRecord, TopicInfo]
_Item = TypeVar("_Item")
_Keyed = list[tuple[_Order, _Item]]


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
    messages, skipped = await _all(windows)
    return _cut(messages, skipped, query.newest)


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
    messages: list[ContextMessage] = []
    skipped: list[SkippedRecord] = []
    ordered = await _in_order([(window.topic, window.records) for window in windows if window is not None])
    # From here on each record is let go of when it was looked at: to free all of many at once takes long.
    windows.clear()
    ids: set[tuple[int, int]] = set()
    while ordered:
        key, record, topic = ordered.pop()
        if len(ordered) % _DECODE_CHUNK == 0:
            await anyio.lowlevel.checkpoint()
        if record.id and (key[1], record.id) in ids:
            return None
        ids.add((key[1], record.id))
        if len(messages) == newest:
            # What is left lies before the oldest message: it is only looked at for copies of those after it.
            continue
        message = decode_record(record, topic)
        if isinstance(message, ContextMessage):
            messages.append(message)
        elif route(record.headers, record.payload).conversation_id is None:
            skipped.append(message)
        else:
            return None
    # An envelope is a mapping that a caller could change.
    if made is not None and not any(message.envelope for message in messages):
        made[newest] = Messages(reversed(messages), reversed(skipped))
    return Messages(reversed(messages), reversed(skipped))


async def _all(windows: Sequence[Window | None]) -> tuple[_Keyed[ContextMessage], _Keyed[SkippedRecord]]:
    """Every message of the windows and every record that holds none, each in order, with their keys."""
    kept = [(window.topic, await _without_copies(window.records)) for window in windows if window is not None]
    messages: _Keyed[ContextMessage] = []
    skipped: _Keyed[SkippedRecord] = []
    for count, (key, record, topic) in enumerate(await _in_order(kept), 1):
        if count % _DECODE_CHUNK == 0:
            await anyio.lowlevel.checkpoint()
        message = decode_record(record, topic)
        if isinstance(message, ContextMessage):
            messages.append((key, message))
        else:
            skipped.append((key, message))
    return messages, skipped


def _cut(messages: _Keyed[ContextMessage], skipped: _Keyed[SkippedRecord], newest: int | None) -> Messages:
    if newest is not None and len(messages) >= newest:
        messages = messages[len(messages) - newest :]
        # Older ones are not reported: how much older raw history a read saw differs between engines.
        skipped = [entry for entry in skipped if entry[0] >= messages[0][0]]
    return Messages([message for _, message in messages], [skip for _, skip in skipped])


async def _without_copies(records: Sequence[LogRecord]) -> list[LogRecord]:
    if len({record.id for record in records}) == len(records):
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


async def _in_order(windows: Sequence[tuple[TopicInfo, Sequence[LogRecord]]]) -> list[_Entry]:
    """The records of several topics, each by partition, then offset, merged into one order."""
    runs: list[list[_Entry]] = []
    for rank, (topic, records) in enumerate(windows):
        partition, highest = -1, 0
        for count, record in enumerate(records, 1):
            if record.partition != partition:
                partition, highest = record.partition, 0
                runs.append([])
            # Within a partition a clock that stepped back must not reorder anything.
            highest = max(highest, record.timestamp_micros)
            runs[-1].append(((highest, rank, partition, record.offset), record, topic))
            if count % _KEY_CHUNK == 0:
                await anyio.lowlevel.checkpoint()
    if len(runs) < 2:
        return runs[0] if runs else []
    if sum(map(len, runs)) <= _KEY_CHUNK:
        return sorted(chain.from_iterable(runs), key=_key)
    merged: list[_Entry] = []
    for entry in heapq.merge(*runs, key=_key):
        merged.append(entry)
        if len(merged) % _KEY_CHUNK == 0:
            await anyio.lowlevel.checkpoint()
    return merged


def _key(entry: _Entry) -> _Order:
    return entry[0]
