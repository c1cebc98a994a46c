"""Forks: a new session that begins with a copy of another one's past."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from laser.content.content import Content
from laser.context.appending import build_record
from laser.context.connection import Connection
from laser.errors import CodecError
from laser.model.checkpoint import Checkpoint
from laser.model.content import ContentRef
from laser.model.messages import ContextMessage
from laser.model.provenance import Provenance
from laser.model.records import NewRecord
from laser.model.topics import AgentTopic
from laser.session.active.events import (
    ACTIVE_TOPIC,
    Event,
    Inherited,
    Opened,
    content_refs,
    decode_active,
    encode_active,
)
from laser.session.active.fold import ActiveFold
from laser.session.copying import Copier, copy_message, event_payload, event_record
from laser.session.cutting import Cut
from laser.session.holding import hold_for
from laser.session.lifecycle import ForkOrigin

__all__ = ["copy_session"]

_MESSAGES: Final = AgentTopic.Sessions


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
    cut = await Cut.at(laser, source, at)
    copier = Copier(laser, target)
    fold = ActiveFold()

    async def copy_messages(batch: Sequence[ContextMessage]) -> None:
        entries = [message.content for message in batch if message.content is not None]
        await hold_for(content, target, [ref for entry in entries for ref in entry.refs])
        await copier.append(_MESSAGES, [copy_message(message, source, target) for message in batch])

    async def copy_events(batch: Sequence[ContextMessage]) -> None:
        records: list[NewRecord] = []
        await hold_for(content, target, [ref for message in batch for ref in _refs(message.payload)])
        for message in batch:
            payload = event_payload(message, source, first=not fold.opened)
            records.append(event_record(payload, message, target))
            _apply(fold, payload, message.timestamp_micros)
        await copier.append(ACTIVE_TOPIC, records)

    messages = await cut.messages(copy_messages, began, partial=partial)
    events = await cut.events(copy_events, began)
    # The mark that the copy is whole; without it, and without a start, nobody takes this for a session.
    marks: list[Event] = [Inherited(source, messages)] if events else [Opened(source), Inherited(source, messages)]
    ends = [encode_active(event) for event in marks]
    provenance = Provenance(conversation_id=target, agent=agent)
    await copier.append(ACTIVE_TOPIC, [build_record(payload, provenance, None) for payload in ends])
    _apply(fold, ends[-1], 0)
    assert copier.began_at_micros is not None
    return ForkOrigin(source, messages, events, fold.revision, copier.began_at_micros)


def _refs(payload: bytes) -> list[ContentRef]:
    try:
        return content_refs(decode_active(payload))
    except CodecError:
        return []


def _apply(fold: ActiveFold, payload: bytes, at_micros: int) -> None:
    try:
        fold.apply(decode_active(payload), at_micros)
    except CodecError:
        return
