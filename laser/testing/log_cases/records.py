"""Records for the cases: of a conversation, of its children, and such as belong to none."""

from __future__ import annotations

from itertools import count
from typing import Final

from laser.model.ids import derive_conversation_id, new_record_id, ulid_bytes
from laser.model.provenance import Provenance
from laser.model.records import NewRecord
from laser.wire.blocks import STRING, UINT32, Header, encode_block
from laser.wire.cbor import encode_cbor
from laser.wire.envelope import ENVELOPE_KEY
from laser.wire.provenance import encode_provenance

__all__ = ["CONVERSATIONS", "FOREIGN_BLOCKS", "GARBAGE_BLOCKS", "batch", "child", "enveloped", "record", "stray"]

CONVERSATIONS: Final = tuple(derive_conversation_id(f"conformance-{index}") for index in range(6))
"""Ids of conversations to write to."""

FOREIGN_BLOCKS: Final = (
    encode_block([Header(b"app.name", STRING, b"other")]),
    encode_block([Header(b"gen_ai.conversation.id", STRING, b"not an id")]),
    encode_block([Header(b"gen_ai.conversation.id", UINT32, bytes(4))]),
    encode_block([Header(b"agdx.parent_conv", STRING, CONVERSATIONS[0].encode())]),
)
"""Header blocks that are sound but name no conversation of their own."""

GARBAGE_BLOCKS: Final = (b"\x00", b"\xff" * 40, FOREIGN_BLOCKS[0][:-1], FOREIGN_BLOCKS[0] * 2, bytes(range(256)))
"""Header blocks that cannot be decoded."""

_numbers = count()


def record(
    conversation: str, payload: bytes | None = None, *, parent: str | None = None, root: str | None = None
) -> NewRecord:
    """A record of a conversation. Without a payload it gets one that no other record has."""
    provenance = Provenance(
        conversation_id=conversation, agent="suite", parent_conversation_id=parent, root_conversation_id=root
    )
    return NewRecord(new_record_id(), _payload(payload), encode_provenance(provenance))


def child(conversation: str, of: str) -> NewRecord:
    """A record of a conversation that another one started."""
    return record(conversation, parent=of, root=of)


def enveloped(conversation: str) -> NewRecord:
    """A record whose conversation stands in its payload."""
    envelope = {"kind": "event", "record": bytes(16), "conversation": ulid_bytes(conversation), "source": "suite"}
    block = encode_block([Header(ENVELOPE_KEY, UINT32, (1).to_bytes(4, "little"))])
    return NewRecord(new_record_id(), encode_cbor(envelope), block)


def stray(headers: bytes = b"", payload: bytes | None = None) -> NewRecord:
    """A record with these headers, as they are."""
    return NewRecord(new_record_id(), _payload(payload), headers)


def batch(conversation: str, size: int) -> list[NewRecord]:
    """Records of a conversation."""
    return [record(conversation) for _ in range(size)]


def _payload(payload: bytes | None) -> bytes:
    return f"payload {next(_numbers)}".encode() if payload is None else payload
