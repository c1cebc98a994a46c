"""Memory records read by their form."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laser.model.ids import new_conversation_id
from laser.model.memory import MEMORY_KINDS, MemoryKind
from laser.wire.cbor import decode_cbor
from laser.wire.memory import encode_item
from laser.wire.memory_reading import _plain_item


@given(st.binary(max_size=400), st.sampled_from(MEMORY_KINDS), st.integers(0, 10_000), st.integers(0, 7))
def test_items_are_read_the_same_by_their_form_and_by_their_meaning(
    body: bytes, kind: MemoryKind, at: int, bit: int
) -> None:
    """One line of text is read by its form, all else by a decoder of CBOR: damage must not make a difference."""
    payload = bytearray(encode_item(new_conversation_id(), kind, body))
    for damaged in (False, True):
        if damaged:
            payload[at % len(payload)] ^= 1 << bit
        by_form = _plain_item(bytes(payload))
        if by_form is not None:
            fields = decode_cbor(bytes(payload))["Item"]
            assert by_form == (fields["id"], fields["kind"], bytes(fields["body"]))
