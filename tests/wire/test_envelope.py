"""Envelope records of the peer: what they say, and what makes one undecodable."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from laser.model.ids import ulid_bytes
from laser.wire.blocks import RAW, STRING, UINT32, UINT64, Header, encode_block
from laser.wire.cbor import encode_cbor
from laser.wire.envelope import decode_envelope, envelope_provenance, is_envelope
from tests.properties import decodes, examples

A, B, C, D = (f"01ARZ3NDEKTSV4RRFFQ69G5FA{end}" for end in "ABCD")
FIELDS: dict[str, Any] = {
    "kind": "command",
    "record": ulid_bytes(A),
    "conversation": ulid_bytes(B),
    "source": "planner",
    "target": "worker",
    "parent": ulid_bytes(C),
    "root": ulid_bytes(D),
    "correlation": ulid_bytes(C),
    "cause": ulid_bytes(D),
    "operation": "op",
    "idempotency_key": "k1",
    "deadline_micros": 123_456,
    "metadata": {"k": "v"},
    "usage": {"input_tokens": 3, "output_tokens": 4},
}


def _block(kind: int = UINT32, value: bytes = b"\1\0\0\0", key_kind: int = STRING) -> bytes:
    return encode_block([Header(b"agdx.av", kind, value, key_kind)])


def test_an_envelope_is_marked_by_its_header() -> None:
    assert is_envelope(_block())
    assert not is_envelope(b"")
    assert not is_envelope(encode_block([Header(b"x", STRING, b"agdx.av")]))
    assert not is_envelope(_block(key_kind=RAW))


@pytest.mark.parametrize(
    ("kind", "value"),
    [(UINT32, b"\2\0\0\0"), (UINT32, bytes(4)), (STRING, b"1"), (UINT64, b"\1" + bytes(7)), (RAW, b"\1\0\0\0")],
)
def test_other_versions_and_kinds_are_refused(kind: int, value: bytes) -> None:
    with pytest.raises(ls.ProvenanceError) as caught:
        is_envelope(_block(kind, value))
    assert caught.value.header == "agdx.av"


def test_a_damaged_block_that_speaks_of_an_envelope_is_refused() -> None:
    with pytest.raises(ls.ProvenanceError):
        is_envelope(_block() + b"\0")


def test_ids_become_text_and_the_rest_stays() -> None:
    read = decode_envelope(encode_cbor(FIELDS))
    assert read == {**FIELDS, "record": A, "conversation": B, "parent": C, "root": D, "correlation": C, "cause": D}
    assert envelope_provenance(read) == ls.Provenance(
        conversation_id=B,
        parent_conversation_id=C,
        root_conversation_id=D,
        agent="planner",
        target_agent_id="worker",
        correlation_id=C,
        idempotency_key="k1",
        deadline_micros=123_456,
        input_tokens=3,
        output_tokens=4,
    )


def test_unknown_fields_are_kept() -> None:
    assert decode_envelope(encode_cbor({**FIELDS, "later": [1]}))["later"] == [1]


@pytest.mark.parametrize("field", ["kind", "record", "conversation", "source"])
def test_required_fields(field: str) -> None:
    with pytest.raises(ls.CodecError, match=field):
        decode_envelope(encode_cbor({name: value for name, value in FIELDS.items() if name != field}))


@pytest.mark.parametrize("field", sorted(set(FIELDS) - {"metadata"}))
@pytest.mark.parametrize("value", [None, True, -1, 1.5, b"short", b"x" * 17, [], {}, "no such thing"])
def test_known_fields_of_a_wrong_type(field: str, value: object) -> None:
    fits = isinstance(value, str) and field in ("source", "target", "operation", "idempotency_key")
    if fits or (value is None and field == "deadline_micros"):
        assert decode_envelope(encode_cbor({**FIELDS, field: value}))[field] == value
        return
    with pytest.raises(ls.CodecError, match=field if field != "kind" else "kind"):
        decode_envelope(encode_cbor({**FIELDS, field: value}))


@pytest.mark.parametrize(
    "usage",
    [{}, {"input_tokens": 1}, {"input_tokens": 1, "output_tokens": -1}, {"input_tokens": 1.0, "output_tokens": 1}],
)
def test_usage_has_both_counts(usage: object) -> None:
    with pytest.raises(ls.CodecError, match=r"usage\."):
        decode_envelope(encode_cbor({**FIELDS, "usage": usage}))


@pytest.mark.parametrize("value", [5, [1], "text", None, {1: 2}, {b"kind": "event"}])
def test_a_value_that_is_no_map_with_text_keys(value: object) -> None:
    with pytest.raises(ls.CodecError):
        decode_envelope(encode_cbor(value))


def test_bytes_after_the_map() -> None:
    with pytest.raises(ls.CodecError):
        decode_envelope(encode_cbor(FIELDS) + b"\0")


@given(st.data())
@examples(600)
def test_mutated_envelopes_give_an_envelope_or_one_typed_error(data: st.DataObject) -> None:
    block = bytearray(encode_cbor(FIELDS))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(block) - 1))
        block[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3)) or b"\0"
    read = decodes(lambda: decode_envelope(bytes(block)), ls.CodecError)
    if read is not None:
        made = envelope_provenance(read)
        assert made.conversation_id is not None
        assert isinstance(made.agent, str)
