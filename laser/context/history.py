"""Reading a conversation: its records from several topics, merged into one order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import anyio.lowlevel
import msgspec

from laser.context.decoding import Copies, decode_record
from laser.context.gathering import gather
from laser.context.resume import check_window
from laser.model.checkpoint import Checkpoint
from laser.model.messages import ContextMessage, Messages, SkippedRecord
from laser.model.window import Match, Window, WindowQuery
from laser.ports.log import Log
from laser.wire.routing import route

__all__ = ["HistoryQuery", "read_history"]

# Records decoded between two chances for other tasks to run: about a millisecond's work.
_DECODE_CHUNK = 256


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
    histories = [history for history in await gather(reads) if history is not None]
    return _merge(histories, query.newest)


class _TopicHistory:
    """The decoded records of one topic, by partition, then offset.

    Attributes:
        messages: the messages. skipped: records that hold none, with their times. partitions: how many have messages.
        lost: some records of the conversation itself hold no message, or are copies.
    """

    def __init__(self) -> None:
        self.messages: list[ContextMessage] = []
        self.skipped: list[tuple[int, SkippedRecord]] = []
        self.partitions = 0
        self.lost = False


async def _read_topic(log: Log, stream: str, topic: str, query: HistoryQuery) -> _TopicHistory | None:
    window = await log.window(stream, topic, query.for_topic(topic, query.newest))
    info = None if window is None else window.topic
    if query.from_checkpoint is not None:
        await check_window(log, stream, topic, info, query.from_checkpoint, starts=True)
    if query.to_checkpoint is not None:
        await check_window(log, stream, topic, info, query.to_checkpoint, starts=False)
    if window is None:
        return None
    history = await _decode(window)
    if query.newest is not None and history.lost:
        # Of the newest records some turned out not to be messages: their places belong to older ones.
        window = await log.window(stream, topic, query.for_topic(topic, None))
        if window is None:
            return None
        history = await _decode(window)
    return history


async def _decode(window: Window) -> _TopicHistory:
    history = _TopicHistory()
    copies: dict[int, Copies] = {}
    for count, record in enumerate(window.records, 1):
        if count % _DECODE_CHUNK == 0:
            await anyio.lowlevel.checkpoint()
        message = decode_record(record, window.topic)
        if isinstance(message, SkippedRecord):
            history.skipped.append((record.timestamp_micros, message))
            # A record of no known conversation takes no place among the newest of this one.
            if route(record.headers, record.payload).conversation_id is not None:
                history.lost = True
        elif copies.setdefault(record.partition, Copies()).note(record, message.provenance.conversation_id):
            history.lost = True
        else:
            history.messages.append(message)
    history.partitions = len(copies)
    return history


def _merge(histories: Sequence[_TopicHistory], newest: int | None) -> Messages:
    """All messages in order; the newest, with the records skipped since the oldest of them, where that was asked."""
    filled = [history for history in histories if history.messages or history.skipped]
    if len(filled) == 1 and filled[0].partitions < 2 and not filled[0].skipped:
        messages = filled[0].messages
        return Messages(messages if newest is None else messages[max(0, len(messages) - newest) :])
    keyed: list[tuple[tuple[int, int, int, int], ContextMessage]] = []
    skipped: list[tuple[tuple[int, int, int, int], SkippedRecord]] = []
    for rank, history in enumerate(histories):
        partition, highest = -1, 0
        for message in history.messages:
            if message.partition != partition:
                partition, highest = message.partition, 0
            highest = max(highest, message.timestamp_micros)
            keyed.append(((highest, rank, partition, message.offset), message))
        skipped += (((time, rank, skip.partition, skip.offset), skip) for time, skip in history.skipped)
    keyed.sort(key=_order)
    skipped.sort(key=_order)
    if newest is not None and len(keyed) >= newest:
        keyed = keyed[len(keyed) - newest :]
        # Older ones are not reported: how much older raw history a read saw differs between engines.
        skipped = [entry for entry in skipped if entry[0] >= keyed[0][0]]
    return Messages([message for _, message in keyed], [skip for _, skip in skipped])


def _order(entry: tuple[tuple[int, int, int, int], object]) -> tuple[int, int, int, int]:
    return entry[0]
