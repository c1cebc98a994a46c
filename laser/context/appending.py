"""From what a user appends to a record for the log."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from laser.errors import InvalidError, ProvenanceError
from laser.model.checks import check_payload, check_record_id
from laser.model.ids import new_record_id, parse_conversation_id
from laser.model.provenance import Provenance
from laser.model.records import NewRecord
from laser.model.topics import AgentTopic
from laser.wire.frames import EMPTY_FRAME, EMPTY_PAYLOAD
from laser.wire.provenance import EVERYONE, encode_provenance

__all__ = ["build_provenance", "build_record", "with_lineage"]

def build_provenance(conversation_id: str, topic: str, agent: str | None, provenance: Provenance | None) -> Provenance:
    """The provenance of an append in a conversation.

    Args:
        conversation_id: canonical.
        agent: the writer's name. provenance: everything else; its own agent and conversation must not disagree.

    Raises:
        InvalidError: they do.
    """
    if agent is not None and not isinstance(agent, str):
        raise InvalidError(f"agent: expected a name, got {type(agent).__name__}", argument="agent")
    if provenance is None:
        return _plain(conversation_id, topic, agent)
    _check_provenance(provenance)
    named = provenance.conversation_id
    if named is not None and parse_conversation_id(named) != conversation_id:
        raise InvalidError(
            f"provenance: names conversation {named}, but the scope is of {conversation_id}", argument="provenance"
        )
    if agent is not None and provenance.agent not in (None, agent):
        raise InvalidError(f"agent: {agent!r}, but provenance names {provenance.agent!r}", argument="agent")
    target = provenance.target_agent_id
    if target is None and topic == AgentTopic.Sessions:
        target = EVERYONE
    return msgspec.structs.replace(
        provenance,
        conversation_id=conversation_id,
        agent=provenance.agent if agent is None else agent,
        target_agent_id=target,
    )


def with_lineage(lineage: Provenance, provenance: Provenance | None) -> Provenance:
    """A provenance with the parent and root conversation of its session, where it names none of its own."""
    if provenance is None:
        return lineage
    _check_provenance(provenance)
    return msgspec.structs.replace(
        provenance,
        parent_conversation_id=provenance.parent_conversation_id or lineage.parent_conversation_id,
        root_conversation_id=provenance.root_conversation_id or lineage.root_conversation_id,
    )


def build_record(payload: bytes | str, provenance: Provenance, record_id: int | None) -> NewRecord:
    """The record of a payload. Empty content is framed (``laser.wire.frames``).

    Raises:
        InvalidError, LimitError: a bad payload, id or provenance.
    """
    data = check_payload(payload)
    identity = new_record_id() if record_id is None else check_record_id(record_id)
    try:
        if data:
            return NewRecord(identity, data, encode_provenance(provenance))
        return NewRecord(identity, EMPTY_PAYLOAD, encode_provenance(provenance, (EMPTY_FRAME,)))
    except ProvenanceError as error:
        raise InvalidError(f"provenance: {error}", argument=error.header) from error


def _check_provenance(value: object) -> None:
    if not isinstance(value, Provenance):
        raise InvalidError(f"provenance: expected a Provenance, got {type(value).__name__}", argument="provenance")


@lru_cache(maxsize=4096)
def _plain(conversation_id: str, topic: str, agent: str | None) -> Provenance:
    target = EVERYONE if topic == AgentTopic.Sessions else None
    return Provenance(conversation_id=conversation_id, agent=agent, target_agent_id=target)
