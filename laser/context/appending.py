"""From what a user appends to a record for the log."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import repeat

import msgspec

from laser.errors import InvalidError, LimitError, ProvenanceError
from laser.limits import MAX_BATCH_BYTES, MAX_BATCH_RECORDS, MAX_PAYLOAD_BYTES
from laser.model.checks import check_payload, check_record_id, check_record_ids
from laser.model.content import ContentEntry
from laser.model.ids import new_record_id, new_record_ids, parse_conversation_id
from laser.model.provenance import Provenance
from laser.model.records import NewRecord
from laser.model.topics import AgentTopic
from laser.wire.blocks import Header
from laser.wire.content import encode_entry
from laser.wire.frames import CONTENT_FRAME, EMPTY_FRAME, EMPTY_PAYLOAD
from laser.wire.provenance import EVERYONE, encode_provenance

__all__ = ["build_provenance", "build_record", "build_records", "build_reference", "check_writers", "with_lineage"]


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
    if data:
        return NewRecord(identity, data, _headers(provenance))
    return NewRecord(identity, EMPTY_PAYLOAD, _headers(provenance, (EMPTY_FRAME,)))


def build_reference(entry: ContentEntry, provenance: Provenance, record_id: int) -> NewRecord:
    """The record that refers to content.

    Raises:
        InvalidError, LimitError: a bad provenance.
    """
    return NewRecord(record_id, encode_entry(entry), _headers(provenance, (CONTENT_FRAME,)))


def check_writers(agent: str | Sequence[str | None] | None, payloads: Sequence[bytes | str]) -> list[str | None]:
    """Who writes each payload of a batch; one writer of all of them for one name.

    Raises:
        InvalidError: no list of payloads, or a list of another length or of something else than names.
    """
    if isinstance(payloads, str | bytes) or not isinstance(payloads, Sequence):
        raise InvalidError("payloads: expected a list of payloads", argument="payloads")
    if agent is None or isinstance(agent, str):
        return [agent]
    if isinstance(agent, bytes) or not isinstance(agent, Sequence):
        raise InvalidError(
            f"agent: expected a name, or a list with one for each payload, got {type(agent).__name__}", argument="agent"
        )
    if len(agent) != len(payloads):
        raise InvalidError(f"agent: {len(agent)} names for {len(payloads)} payloads", argument="agent")
    for place, name in enumerate(agent):
        if name is not None and not isinstance(name, str):
            raise InvalidError(f"agent[{place}]: expected a name, got {type(name).__name__}", argument="agent")
    return list(agent)


def build_records(
    payloads: Sequence[bytes | str], provenances: Sequence[Provenance], ids: Sequence[int] | None
) -> list[NewRecord]:
    """The records of a batch; see ``ContextScope.append_many``.

    Args:
        provenances: one of all payloads, or one for each.

    Raises:
        InvalidError, LimitError: a bad argument, with the place in the list where it is one of the payloads.
    """
    count = len(payloads)
    if count > MAX_BATCH_RECORDS:
        raise LimitError(
            f"payloads: {count} of them, allowed are {MAX_BATCH_RECORDS} a batch",
            argument="payloads",
            size=count,
            limit=MAX_BATCH_RECORDS,
        )
    identities = new_record_ids(count) if ids is None else check_record_ids(ids, count)
    # One block for each writer: the headers of a batch differ by that, and between empty content and other.
    shared = {id(provenance): provenance for provenance in provenances}
    blocks = {key: _headers(provenance) for key, provenance in shared.items()}
    alike = len(provenances) == 1
    each = repeat(blocks[id(provenances[0])], count) if alike else [blocks[id(one)] for one in provenances]
    records: list[NewRecord] = []
    size = 0
    for identity, payload, headers in zip(identities, payloads, each, strict=True):
        if type(payload) is not bytes or not 0 < len(payload) <= MAX_PAYLOAD_BYTES:
            place = len(records)
            payload, framed = _checked(payload, provenances[0 if alike else place], place)
            headers = framed or headers
        records.append(NewRecord(identity, payload, headers))
        size += len(payload)
    if size > MAX_BATCH_BYTES:
        raise LimitError(
            f"payloads: {size} bytes, allowed are {MAX_BATCH_BYTES} a batch; append them in parts",
            argument="payloads",
            size=size,
            limit=MAX_BATCH_BYTES,
        )
    return records


def _checked(payload: bytes | str, provenance: Provenance, place: int) -> tuple[bytes, bytes | None]:
    """The payload at a place of a batch, and the headers that it needs where it is empty."""
    try:
        data = check_payload(payload)
    except InvalidError as error:
        error.args = (f"payloads[{place}]: {error}",)
        error.argument = "payloads"
        raise
    return (data, None) if data else (EMPTY_PAYLOAD, _headers(provenance, (EMPTY_FRAME,)))


def _headers(provenance: Provenance, extra: tuple[Header, ...] = ()) -> bytes:
    try:
        return encode_provenance(provenance, extra)
    except ProvenanceError as error:
        raise InvalidError(f"provenance: {error}", argument=error.header) from error


def _check_provenance(value: object) -> None:
    if not isinstance(value, Provenance):
        raise InvalidError(f"provenance: expected a Provenance, got {type(value).__name__}", argument="provenance")


@lru_cache(maxsize=4096)
def _plain(conversation_id: str, topic: str, agent: str | None) -> Provenance:
    target = EVERYONE if topic == AgentTopic.Sessions else None
    return Provenance(conversation_id=conversation_id, agent=agent, target_agent_id=target)
