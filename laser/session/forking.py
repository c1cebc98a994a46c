"""Forks: a new session that begins with a copy of another one's past."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from laser.content.content import Content
from laser.context.connection import Connection
from laser.context.own_topics import append_to_own
from laser.context.replay import Replay
from laser.context.resume import record_at
from laser.context.spans import Span, look_up, spans_at, spans_full
from laser.errors import CodecError, InvalidError, LimitError, NotFoundError, RetentionGapError
from laser.model.checkpoint import Checkpoint
from laser.model.content import ContentRef
from laser.model.ids import new_record_id
from laser.model.messages import ContextMessage
from laser.model.provenance import Provenance
from laser.model.records import NewRecord
from laser.model.topics import AgentTopic
from laser.model.window import Match
from laser.session.active.events import (
    ACTIVE_TOPIC,
    CompactionRequested,
    Event,
    Inherited,
    Opened,
    content_refs,
    decode_active,
    encode_active,
)
from laser.session.active.fold import ActiveFold
from laser.session.gaps import check_beginning
from laser.session.lifecycle import ForkOrigin
from laser.wire.blocks import STRING, Header, decode_block
from laser.wire.frames import CONTENT_FRAME, EMPTY_FRAME, EMPTY_PAYLOAD
from laser.wire.provenance import EVERYONE, encode_provenance

__all__ = ["MessageOrigin", "copy_session", "hold_for", "read_origin", "session_holder"]

_MESSAGES: Final = AgentTopic.Sessions
_ORIGIN_KEY: Final = b"laser.origin"
_BATCH_RECORDS: Final = 500
_BATCH_BYTES: Final = 4_000_000

_Take = Callable[[Sequence[ContextMessage]], Awaitable[None]]


class MessageOrigin(msgspec.Struct, frozen=True):
    """Where a fork's copy of a message was taken from.

    Attributes:
        session: the other session's id. partition, offset: on ``agent.sessions``.
        timestamp_micros: when the original was written, microseconds since 1970 UTC.
    """

    session: str
    partition: int
    offset: int
    timestamp_micros: int


async def copy_session(
    laser: Connection,
    source: str,
    target: str,
    at: ContextMessage | Checkpoint | None,
    agent: str | None,
    began: int,
    *,
    partial: bool,
    content: Content | None,
) -> ForkOrigin:
    """Copies a session's messages and the events of its active context, up to a moment; see ``Session.fork``."""
    cut = await _Cut.at(laser, source, at)
    copier = _Copier(laser, source, target)
    fold = ActiveFold()

    async def copy_messages(batch: Sequence[ContextMessage]) -> None:
        entries = [message.content for message in batch if message.content is not None]
        await hold_for(content, target, [ref for entry in entries for ref in entry.refs])
        await copier.append(_MESSAGES, [_message_copy(message, source, target) for message in batch])

    async def copy_events(batch: Sequence[ContextMessage]) -> None:
        records: list[NewRecord] = []
        await hold_for(content, target, [ref for message in batch for ref in _refs(message.payload)])
        for message in batch:
            payload = _event_copy(message, source, first=not fold.opened)
            records.append(_record(payload, _provenance(message, target), ()))
            _apply(fold, payload, message.timestamp_micros)
        await copier.append(ACTIVE_TOPIC, records)

    messages = await cut.messages(copy_messages, began, partial=partial)
    events = await cut.events(copy_events, began)
    # The mark that the copy is whole; without it, and without a start, nobody takes this for a session.
    marks: list[Event] = [Inherited(source, messages)] if events else [Opened(source), Inherited(source, messages)]
    ends = [encode_active(event) for event in marks]
    provenance = Provenance(conversation_id=target, agent=agent)
    await copier.append(ACTIVE_TOPIC, [_record(payload, provenance, ()) for payload in ends])
    _apply(fold, ends[-1], 0)
    assert copier.began_at_micros is not None
    return ForkOrigin(source, messages, events, fold.revision, copier.began_at_micros)


def session_holder(session: str) -> str:
    """The name under which a session holds content that entries of its active context refer to."""
    return f"session:{session}"


async def read_origin(laser: Connection, message: ContextMessage) -> MessageOrigin | None:
    """Where a message was copied from, ``None`` for one that is no copy; see ``Session.origin_of``."""
    log, stream = laser.open_log(), laser.stream
    record = await record_at(log, stream, message.topic, message.partition, message.offset)
    if record is None:
        raise NotFoundError(f"message: {message.id} is not on {message.topic!r} any more", topic=message.topic)
    for header in decode_block(record.headers):
        if header.key == _ORIGIN_KEY:
            session, partition, offset, timestamp = header.value.decode("ascii", "replace").split("/")
            return MessageOrigin(session, int(partition), int(offset), int(timestamp))
    return None


class _Cut:
    """What of a session lies before a moment."""

    def __init__(
        self,
        laser: Connection,
        conversation: str,
        messages: Sequence[Span],
        events: Sequence[Span],
        last: ContextMessage | None = None,
        before_micros: int | None = None,
    ) -> None:
        self._laser = laser
        self._match = Match(conversation)
        self._messages = messages
        self._events = events
        self._last = last
        self._before_micros = before_micros

    @classmethod
    async def at(cls, laser: Connection, conversation: str, moment: ContextMessage | Checkpoint | None) -> _Cut:
        log, stream = laser.open_log(), laser.stream
        infos = await look_up(log, stream, [_MESSAGES, ACTIVE_TOPIC])
        messages, events = spans_full([_MESSAGES], infos), spans_full([ACTIVE_TOPIC], infos)
        if moment is None:
            return cls(laser, conversation, messages, events)
        if isinstance(moment, ContextMessage):
            if moment.topic != _MESSAGES or moment.provenance.conversation_id != conversation:
                raise InvalidError(
                    f"at: message {moment.id} of {moment.topic!r} is none of session {conversation} on {_MESSAGES!r}",
                    argument="at",
                )
            return cls(laser, conversation, messages, events, moment, moment.timestamp_micros + 1)
        if not isinstance(moment, Checkpoint):
            raise InvalidError(
                f"at: expected a ContextMessage, a Checkpoint or None, got {type(moment).__name__}", argument="at"
            )
        if moment.topic_offsets(_MESSAGES) is None:
            raise InvalidError(f"at: the checkpoint does not cover {_MESSAGES!r}", argument="at")
        messages = await spans_at(log, stream, [_MESSAGES], moment)
        if moment.topic_offsets(ACTIVE_TOPIC) is not None:
            return cls(laser, conversation, messages, await spans_at(log, stream, [ACTIVE_TOPIC], moment))
        after = [await record_at(log, stream, _MESSAGES, span.partition, span.stop) for span in messages]
        times = [record.timestamp_micros for record in after if record is not None]
        return cls(laser, conversation, messages, events, before_micros=min(times, default=None))

    async def messages(self, take: _Take, began: int, *, partial: bool) -> int:
        replay = self._replay(self._messages)
        count = 0
        seen: set[int] = set()
        found = self._last is None
        while (batch := await replay.next_batch(_BATCH_RECORDS)) is not None:
            fresh = {message.partition for message in batch} - seen
            if fresh and not partial:
                await self._check(self._messages, fresh, began)
            seen |= fresh
            place = next((place for place, one in enumerate(batch) if self._is_last(one)), None)
            found = found or place is not None
            kept = batch if place is None else batch[: place + 1]
            await take(kept)
            count += len(kept)
            if place is not None:
                break
        if not found:
            assert self._last is not None
            raise NotFoundError(f"at: message {self._last.id} is not on {_MESSAGES!r} any more", topic=_MESSAGES)
        if not partial and not seen:
            await self._check(self._messages, {span.partition for span in self._messages}, began)
        return count

    async def events(self, take: _Take, began: int) -> int:
        replay = self._replay(self._events)
        first, count = True, 0
        while (batch := await replay.next_batch(_BATCH_RECORDS)) is not None:
            if first and not _opens(batch[0]):
                await self._check(self._events, {batch[0].partition}, None)
            first = False
            kept = [one for one in batch if self._before_micros is None or one.timestamp_micros < self._before_micros]
            if kept:
                await take(kept)
                count += len(kept)
            if len(kept) < len(batch):
                break
        if first:
            await self._check(self._events, {span.partition for span in self._events}, began)
        return count

    def _replay(self, spans: Sequence[Span]) -> Replay:
        return Replay(self._laser.open_log(), self._laser.stream, self._match, spans)

    def _is_last(self, message: ContextMessage) -> bool:
        last = self._last
        return last is not None and (message.partition, message.offset) == (last.partition, last.offset)

    async def _check(self, spans: Sequence[Span], partitions: set[int], began: int | None) -> None:
        async def known() -> int:
            assert began is not None
            return began

        if spans:
            await check_beginning(
                self._laser.open_log(),
                self._laser.stream,
                spans[0].topic,
                partitions,
                None if began is None else known,
            )


class _Copier:
    """Writes records of a new session in batches. began_at_micros: the log's time of the first one."""

    def __init__(self, laser: Connection, source: str, target: str) -> None:
        self._laser = laser
        self._target = target
        self.began_at_micros: int | None = None

    async def append(self, topic: str, records: Sequence[NewRecord]) -> None:
        batch: list[NewRecord] = []
        size = 0
        for record in records:
            if batch and size + len(record.payload) > _BATCH_BYTES:
                await self._write(topic, batch)
                batch, size = [], 0
            batch.append(record)
            size += len(record.payload)
        if batch:
            await self._write(topic, batch)

    async def _write(self, topic: str, batch: list[NewRecord]) -> None:
        log, stream = self._laser.open_log(), self._laser.stream
        if topic == ACTIVE_TOPIC:
            done = await append_to_own(log, stream, topic, batch, key=self._target)
        else:
            done = await log.append(stream, topic, batch, key=self._target)
        if self.began_at_micros is None:
            record = await record_at(log, stream, topic, done.partition, done.offsets[0])
            if record is None:
                raise RetentionGapError(
                    f"retention of {topic!r} takes records as soon as they are written",
                    topic=topic,
                    partition=done.partition,
                    wanted=done.offsets[0],
                    first=done.offsets[0] + 1,
                )
            self.began_at_micros = record.timestamp_micros


async def hold_for(content: Content | None, target: str, refs: list[ContentRef]) -> None:
    """Holds for the fork what its copies are about to refer to."""
    if not refs:
        return
    if content is None:
        raise InvalidError(
            "content: the session refers to content; give laser.content(tenant), so that the fork holds it too",
            argument="content",
        )
    await content.hold(session_holder(target), refs)


def _refs(payload: bytes) -> list[ContentRef]:
    try:
        return content_refs(decode_active(payload))
    except CodecError:
        return []


def _message_copy(message: ContextMessage, source: str, target: str) -> NewRecord:
    place = f"{source}/{message.partition}/{message.offset}/{message.timestamp_micros}"
    provenance = _provenance(message, target)
    frames = () if message.content is None else (CONTENT_FRAME,)
    try:
        return _record(message.payload, provenance, (*frames, Header(_ORIGIN_KEY, STRING, place.encode())))
    except LimitError:
        # Its own headers leave no room: those matter more than where it was copied from.
        return _record(message.payload, provenance, frames)


def _record(payload: bytes, provenance: Provenance, extra: tuple[Header, ...]) -> NewRecord:
    if payload:
        return NewRecord(new_record_id(), payload, encode_provenance(provenance, extra))
    return NewRecord(new_record_id(), EMPTY_PAYLOAD, encode_provenance(provenance, (*extra, EMPTY_FRAME)))


def _provenance(message: ContextMessage, target: str) -> Provenance:
    # Without the other session's tree: who reads that one across its conversations must not see everything twice.
    return msgspec.structs.replace(
        message.provenance,
        conversation_id=target,
        parent_conversation_id=None,
        root_conversation_id=None,
        target_agent_id=message.provenance.target_agent_id or (EVERYONE if message.topic == _MESSAGES else None),
    )


def _event_copy(message: ContextMessage, source: str, *, first: bool) -> bytes:
    try:
        event = decode_active(message.payload)
    except CodecError:
        return message.payload
    if first and isinstance(event, Opened):
        return encode_active(Opened(source))
    if isinstance(event, CompactionRequested) and event.at_micros is None:
        return encode_active(msgspec.structs.replace(event, at_micros=message.timestamp_micros))
    return message.payload


def _apply(fold: ActiveFold, payload: bytes, at_micros: int) -> None:
    try:
        fold.apply(decode_active(payload), at_micros)
    except CodecError:
        return


def _opens(message: ContextMessage) -> bool:
    try:
        return isinstance(decode_active(message.payload), Opened)
    except CodecError:
        return False
