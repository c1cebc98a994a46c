"""Copies of a session's records in another session, and where each was taken from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from laser.context.connection import Connection
from laser.context.own_topics import append_to_own
from laser.context.resume import record_at
from laser.errors import CodecError, LimitError, NotFoundError, RetentionGapError
from laser.model.ids import new_record_id
from laser.model.messages import ContextMessage
from laser.model.provenance import Provenance
from laser.model.records import NewRecord
from laser.model.topics import AgentTopic
from laser.session.active.events import ACTIVE_TOPIC, CompactionRequested, Opened, decode_active, encode_active
from laser.wire.blocks import STRING, Header, decode_block
from laser.wire.frames import CONTENT_FRAME, EMPTY_FRAME, EMPTY_PAYLOAD
from laser.wire.provenance import EVERYONE, encode_provenance

__all__ = ["Copier", "MessageOrigin", "copy_message", "event_payload", "event_record", "read_origin"]

_MESSAGES: Final = AgentTopic.Sessions
_ORIGIN_KEY: Final = b"laser.origin"
_BATCH_BYTES: Final = 4_000_000


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


class Copier:
    """Writes records of a new session in batches. began_at_micros: the log's time of the first one."""

    def __init__(self, laser: Connection, target: str) -> None:
        self._laser = laser
        self._target = target
        self.began_at_micros: int | None = None

    async def append(self, topic: str, records: Sequence[NewRecord]) -> None:
        """Writes records of any size together. The topic of active contexts is created where it is absent."""
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


async def read_origin(laser: Connection, message: ContextMessage) -> MessageOrigin | None:
    """Where a message was copied from, ``None`` for one that is no copy; see ``Session.origin_of``.

    Raises:
        NotFoundError: the message is gone. CodecError: what it says of that is damaged.
    """
    log, stream = laser.open_log(), laser.stream
    record = await record_at(log, stream, message.topic, message.partition, message.offset)
    if record is None:
        raise NotFoundError(f"message: {message.id} is not on {message.topic!r} any more", topic=message.topic)
    for header in decode_block(record.headers):
        if header.key == _ORIGIN_KEY:
            try:
                session, partition, offset, timestamp = header.value.decode("ascii", "replace").split("/")
                return MessageOrigin(session, int(partition), int(offset), int(timestamp))
            except ValueError as error:
                raise CodecError(f"message: {message.id} has a damaged origin: {str(error)[:200]}") from error
    return None


def copy_message(message: ContextMessage, source: str, target: str) -> NewRecord:
    """The copy of a message, with where it was taken from."""
    place = f"{source}/{message.partition}/{message.offset}/{message.timestamp_micros}"
    provenance = _provenance(message, target)
    frames = () if message.content is None else (CONTENT_FRAME,)
    try:
        return _record(message.payload, provenance, (*frames, Header(_ORIGIN_KEY, STRING, place.encode())))
    except LimitError:
        # Its own headers leave no room: those matter more than where it was copied from.
        return _record(message.payload, provenance, frames)


def event_payload(message: ContextMessage, source: str, *, first: bool) -> bytes:
    """The payload of an event's copy. first: nothing opened the copied context yet."""
    try:
        event = decode_active(message.payload)
    except CodecError:
        return message.payload
    if first and isinstance(event, Opened):
        return encode_active(Opened(source))
    if isinstance(event, CompactionRequested) and event.at_micros is None:
        return encode_active(msgspec.structs.replace(event, at_micros=message.timestamp_micros))
    return message.payload


def event_record(payload: bytes, message: ContextMessage, target: str) -> NewRecord:
    """The copy of an event, with its payload as ``event_payload`` gives it."""
    return _record(payload, _provenance(message, target), ())


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
