"""The transcript: what happened in a session, in pages. Loading old pages never moves the place of what comes next."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio.lowlevel
import msgspec
import orjson

from laser.context.checkpoints import take_checkpoint
from laser.context.decoding import Copies, decode_record
from laser.context.gathering import gather
from laser.context.replay import Replay
from laser.context.resume import check_partition, check_partitions_there, check_topic, record_at
from laser.context.snapshots import last_id_before
from laser.context.spans import look_up, spans_from_checkpoint
from laser.errors import CodecError, InvalidError, RetentionGapError, StaleCheckpointError
from laser.limits import COPY_DISTANCE, DEFAULT_LAST_N, MAX_TRANSCRIPT_PAGE
from laser.model.checkpoint import Checkpoint, PartitionMark, TopicMark
from laser.model.messages import ContextMessage, SkippedRecord
from laser.model.topics import AgentTopic, PartitionInfo, TopicInfo
from laser.model.window import Match
from laser.ports.log import Log
from laser.session.gaps import check_beginning

__all__ = ["DEFAULT_PAGE", "TranscriptPage", "parse_cursor", "read_transcript"]

DEFAULT_PAGE: Final = DEFAULT_LAST_N

_TOPIC: Final = AgentTopic.Sessions
_VERSION: Final = 1
_FIRST_STEP: Final = 512
_MAX_STEP: Final = 65_536
_PAGE: Final = 1_000
_DECODE_CHUNK: Final = 256
# On a cluster clocks can step back: further than this below a session's beginning nothing of it is looked for.
_SLACK_MICROS: Final = 3_600_000_000


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


class _Cursor(msgspec.Struct, frozen=True):
    """Where an older page ends: the offset before which each partition goes on, and those with messages of the
    conversation so far."""

    version: int
    conversation: str
    live: str
    before: dict[str, int]
    seen: tuple[int, ...]


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
        return await _newer(log, stream, conversation, _live(after, "after"), limit)
    if before is not None:
        cursor = parse_cursor(before, conversation)
        head, seen = _live(cursor.live, "before"), set(cursor.seen)
        bounds = {int(partition): offset for partition, offset in cursor.before.items()}
    else:
        head, seen = await take_checkpoint(log, stream, [_TOPIC]), set()
        bounds = head.topic_offsets(_TOPIC) or {}
    return await _Backward(log, stream, conversation, began, head, seen).page(bounds, limit)


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


class _Backward:
    """Reads pages backward from exclusive bounds.

    The order is that of each partition, newest first; across partitions by time. A cursor holds one bound a partition,
    so whatever is appended meanwhile, no message is missed or given out twice.
    """

    def __init__(
        self,
        log: Log,
        stream: str,
        conversation: str,
        began: Callable[[], Awaitable[int]],
        head: Checkpoint,
        seen: set[int],
    ) -> None:
        self._log = log
        self._stream = stream
        self._conversation = conversation
        self._began = began
        self._head = head
        self._seen = seen

    async def page(self, bounds: dict[int, int], limit: int) -> TranscriptPage:
        live = self._head.to_json()
        info = await self._log.topic(self._stream, _TOPIC)
        if info is None:
            if any(bounds.values()):
                raise StaleCheckpointError(
                    f"topic {_TOPIC!r} does not exist any more", topic=_TOPIC, partition=None, expected=1, actual=0
                )
            return TranscriptPage((), None, live)
        self._check(info, bounds)
        tails = [
            _Tail(self._log, self._stream, self._conversation, info, part, bounds.get(part.id, 0), self._began)
            for part in info.partitions
        ]
        taken: list[ContextMessage | SkippedRecord] = []
        count = 0
        while True:
            await gather([tail.fill for tail in tails])
            ready = [tail for tail in tails if tail.buffer]
            if not ready or count == limit:
                break
            tail = max(ready, key=_Tail.order)
            found = tail.take()
            taken.append(found)
            if isinstance(found, ContextMessage):
                self._seen.add(found.partition)
                count += 1
        taken.reverse()
        messages = tuple(one for one in taken if isinstance(one, ContextMessage))
        skipped = tuple(one for one in taken if isinstance(one, SkippedRecord))
        more = bool(ready)
        if not more:
            more = await self._is_cut(info, raises=not messages)
        older = None
        if more:
            at = {str(tail.partition): tail.bound for tail in tails}
            cursor = _Cursor(_VERSION, self._conversation, live, at, tuple(sorted(self._seen)))
            older = orjson.dumps(msgspec.to_builtins(cursor)).decode()
        return TranscriptPage(messages, older, live, skipped)

    async def _is_cut(self, info: TopicInfo, *, raises: bool) -> bool:
        """Whether retention took the beginning of the conversation: the next older page says so."""
        parts = self._seen or {part.id for part in info.partitions}
        try:
            await check_beginning(self._log, self._stream, info, parts, self._began)
        except RetentionGapError:
            if raises:
                raise
            return True
        return False

    def _check(self, info: TopicInfo, bounds: dict[int, int]) -> None:
        mark = self._head.mark(_TOPIC)
        if mark is not None:
            check_topic(info, mark)
        check_partitions_there(info, bounds)
        for part in info.partitions:
            known = None if mark is None else mark.partitions.get(part.id)
            created = None if known is None else known.created_at_micros
            check_partition(info, part, max(bounds.get(part.id, 0), part.first), created)


class _Tail:
    """One partition, read from its end to its beginning."""

    def __init__(
        self,
        log: Log,
        stream: str,
        conversation: str,
        info: TopicInfo,
        part: PartitionInfo,
        bound: int,
        began: Callable[[], Awaitable[int]],
    ) -> None:
        self._log = log
        self._stream = stream
        self._match = Match(conversation)
        self._info = info
        self._first = part.first
        self._low = max(bound, part.first)
        self._step = _FIRST_STEP
        self._began = began
        self.partition = part.id
        self.buffer: deque[tuple[int, ContextMessage | SkippedRecord]] = deque()

    @property
    def bound(self) -> int:
        """Before which offset what was not taken lies."""
        return self.buffer[0][1].offset + 1 if self.buffer else self._low

    def order(self) -> tuple[int, int, int]:
        time, found = self.buffer[0]
        return time, self.partition, found.offset

    def take(self) -> ContextMessage | SkippedRecord:
        return self.buffer.popleft()[1]

    async def fill(self) -> None:
        while not self.buffer and self._low > self._first:
            high, low = self._low, max(self._first, self._low - self._step)
            await self._read(low, high)
            self._low, self._step = low, min(2 * self._step, _MAX_STEP)
            if not self.buffer and low > self._first and await self._is_before(low):
                self._low = self._first

    async def _is_before(self, offset: int) -> bool:
        record = await record_at(self._log, self._stream, self._info.name, self.partition, offset)
        return record is not None and record.timestamp_micros < await self._began() - _SLACK_MICROS

    async def _read(self, low: int, high: int) -> None:
        # What lies just before tells which of these records are copies of an append whose answer was lost.
        copies, at = Copies(), max(self._first, low - COPY_DISTANCE)
        count = 0
        while at < high:
            page = await self._log.read(
                self._stream, self._info.name, self.partition, start=at, limit=_PAGE, match=self._match
            )
            for record in page.records:
                if record.offset >= high:
                    break
                count += 1
                if count % _DECODE_CHUNK == 0:
                    await anyio.lowlevel.checkpoint()
                found = decode_record(record, self._info)
                is_message = isinstance(found, ContextMessage)
                if is_message and copies.note(record, self._match.conversation_id):
                    continue
                if record.offset >= low:
                    self.buffer.appendleft((record.timestamp_micros, found))
            at = max(at, page.next)
            if page.next >= page.end:
                break


def _live(text: str, argument: str) -> Checkpoint:
    try:
        return Checkpoint.from_json(text)
    except CodecError as error:
        raise InvalidError(
            f"{argument}: not a cursor of a transcript: {str(error)[:200]}", argument=argument
        ) from error


def parse_cursor(text: str, conversation: str) -> _Cursor:
    """The cursor in ``TranscriptPage.older``.

    Raises:
        InvalidError: it is none, or of another conversation.
    """
    try:
        value: Any = orjson.loads(text)
        cursor = msgspec.convert(value, _Cursor)
        bounds = {int(partition): offset for partition, offset in cursor.before.items()}
    except (ValueError, TypeError, msgspec.ValidationError) as error:
        raise InvalidError(
            f"before: not a cursor of a transcript, take TranscriptPage.older: {str(error)[:200]}", argument="before"
        ) from error
    if cursor.version != _VERSION or any(offset < 0 or partition < 0 for partition, offset in bounds.items()):
        raise InvalidError("before: a cursor of another version, or damaged", argument="before")
    if cursor.conversation != conversation:
        raise InvalidError(f"before: a cursor of session {cursor.conversation:.40}", argument="before")
    return cursor
