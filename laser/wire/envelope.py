"""Envelope records: a record whose payload is a named-field CBOR map, marked by the ``agdx.av`` header.

laser reads them; the format and the rule that such a record's provenance comes from its envelope are laser-sdk's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from laser.errors import CodecError, ProvenanceError
from laser.model.ids import ulid_text
from laser.model.provenance import Provenance
from laser.wire.blocks import STRING, UINT32, decode_block
from laser.wire.cbor import decode_cbor

__all__ = ["ENVELOPE_KEY", "decode_envelope", "envelope_provenance", "is_envelope"]

ENVELOPE_KEY: Final = b"agdx.av"
_VERSION: Final = (1).to_bytes(4, "little")
_KINDS: Final = frozenset({"command", "response", "event", "status", "error", "chunk"})
_IDS: Final = ("record", "conversation", "parent", "root", "correlation", "cause")
_TEXTS: Final = ("kind", "source", "target", "operation", "idempotency_key")
_USAGE: Final = ("input_tokens", "output_tokens")
_REQUIRED: Final = ("kind", "record", "conversation", "source")


def is_envelope(block: bytes) -> bool:
    """Whether a record with this header block carries an envelope.

    Raises:
        ProvenanceError: it says so, in a version or kind that is not known.
    """
    if ENVELOPE_KEY not in block:
        return False
    try:
        headers = decode_block(block)
    except CodecError as error:
        raise ProvenanceError(str(error)) from error
    for header in headers:
        if header.key == ENVELOPE_KEY and header.key_kind == STRING:
            if header.kind != UINT32 or header.value != _VERSION:
                raise ProvenanceError("agdx.av: not envelope version 1", header="agdx.av")
            return True
    return False


def decode_envelope(payload: bytes) -> dict[str, Any]:
    """The envelope in a payload: ids as 26 characters, everything else as stored. Unknown fields are kept.

    Raises:
        CodecError: not a strict CBOR map, a required field is absent, or a known one has a wrong type.
    """
    value = decode_cbor(payload)
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise CodecError("envelope: not a map with text keys")
    envelope: dict[str, Any] = dict(value)
    for field in _REQUIRED:
        if field not in envelope:
            raise CodecError(f"envelope: no field {field}")
    for field in _TEXTS:
        if field in envelope and not isinstance(envelope[field], str):
            raise CodecError(f"envelope: {field} is not text")
    if envelope["kind"] not in _KINDS:
        raise CodecError(f"envelope: unknown kind {envelope['kind'][:32]!r}")
    for field in _IDS:
        if field in envelope:
            data = envelope[field]
            if not isinstance(data, bytes) or len(data) != 16:
                raise CodecError(f"envelope: {field} is not 16 bytes")
            envelope[field] = ulid_text(int.from_bytes(data, "big"))
    if envelope.get("deadline_micros") is not None:
        _check_unsigned(envelope, "deadline_micros", "deadline_micros")
    if "usage" in envelope:
        usage = envelope["usage"]
        if not isinstance(usage, dict):
            raise CodecError("envelope: usage is not a map")
        for field in _USAGE:
            _check_unsigned(usage, field, f"usage.{field}")
    return envelope


def _check_unsigned(fields: Mapping[str, Any], field: str, path: str) -> None:
    value = fields.get(field)
    if type(value) is not int or not 0 <= value < 2**64:
        raise CodecError(f"envelope: {path} is not an unsigned 64-bit number")


def envelope_provenance(envelope: Mapping[str, Any]) -> Provenance:
    """The provenance of a record that carries this envelope."""
    usage = envelope.get("usage", {})
    return Provenance(
        conversation_id=envelope["conversation"],
        parent_conversation_id=envelope.get("parent"),
        root_conversation_id=envelope.get("root"),
        agent=envelope["source"],
        target_agent_id=envelope.get("target"),
        correlation_id=envelope.get("correlation"),
        idempotency_key=envelope.get("idempotency_key"),
        deadline_micros=envelope.get("deadline_micros"),
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
    )
