"""Which conversations a record belongs to: what routing says is what decoding shows."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from laser.context.decoding import decode_record
from laser.model.ids import ulid_bytes
from laser.model.records import LogRecord
from laser.model.topics import TopicInfo
from laser.model.window import Match
from laser.wire.blocks import STRING, UINT32, Header, encode_block
from laser.wire.cbor import encode_cbor
from laser.wire.frames import EMPTY_FRAME, EMPTY_PAYLOAD, unframe
from laser.wire.provenance import decode_provenance
from laser.wire.routing import UNATTRIBUTED, Route, route
from tests.properties import examples

A, B, C = (f"01ARZ3NDEKTSV4RRFFQ69G5FA{end}" for end in "ABC")
TOPIC = TopicInfo("s", 1, 0, "t", 2, 0, None, None, 0, ())
AV = Header(b"agdx.av", UINT32, b"\1\0\0\0")

_values = st.sampled_from([A.encode(), B.encode(), A.lower().encode(), b"junk", b"\xff", A.encode() + b"\n"])
_keys = st.sampled_from([b"gen_ai.conversation.id", b"agdx.parent_conv", b"agdx.root_conv", b"agdx.corr", b"x"])
_headers = st.lists(
    st.builds(Header, _keys, st.sampled_from([STRING, STRING, STRING, 1]), _values)
    | st.sampled_from([AV, Header(b"agdx.av", UINT32, b"\2\0\0\0"), Header(b"agdx.av", STRING, b"1"), EMPTY_FRAME]),
    max_size=5,
)
_envelope = {
    "kind": "event",
    "record": bytes(16),
    "conversation": bytes.fromhex("01563e3ab5d3d6764c61efb99302bd5b"),
    "source": "s",
}
_child = {**_envelope, "parent": ulid_bytes(B), "root": ulid_bytes(C)}
_payloads = st.sampled_from(
    [b"x", EMPTY_PAYLOAD, encode_cbor(_envelope), encode_cbor(_child), encode_cbor({**_envelope, "kind": "no"})]
)


@given(_headers, _payloads, st.binary(max_size=3))
@examples(400)
def test_what_is_shown_is_what_was_routed(headers: list[Header], payload: bytes, tail: bytes) -> None:
    block = encode_block(headers) + tail
    said = route(block, payload)
    message = decode_record(LogRecord(0, 0, 1, 0, block, payload), TOPIC)
    if isinstance(message, ls.SkippedRecord):
        return
    # A message reaches exactly the conversation that its provenance names, so none is shown twice or to others.
    assert said.conversation_id == message.provenance.conversation_id is not None
    if message.envelope is None:
        assert said.parent_conversation_id == message.provenance.parent_conversation_id
        assert said.root_conversation_id == message.provenance.root_conversation_id


@given(_headers, _payloads)
@examples(200)
def test_what_cannot_be_attributed_cannot_be_decoded(headers: list[Header], payload: bytes) -> None:
    block = encode_block(headers)
    if route(block, payload).conversation_id is None:
        assert isinstance(decode_record(LogRecord(0, 0, 1, 0, block, payload), TOPIC), ls.SkippedRecord)


def test_children_are_met_by_parent_or_root_only_when_asked_for() -> None:
    child = Route(A, B, C)
    assert child.meets(Match(A))
    assert not child.meets(Match(B))
    assert child.meets(Match(B, children=True))
    assert child.meets(Match(C, children=True))
    assert not Route(A).meets(Match(B, children=True))
    assert UNATTRIBUTED.meets(Match(A))


def test_an_envelope_without_headers_names_its_parents_itself() -> None:
    said = route(encode_block([AV]), encode_cbor(_child))
    assert (said.parent_conversation_id, said.root_conversation_id) == (B, C)
    assert said.meets(Match(B, children=True))


def test_a_child_that_cannot_be_attributed_is_no_child() -> None:
    block = encode_block([Header(b"agdx.parent_conv", STRING, A.encode())])
    assert route(block, b"x") == UNATTRIBUTED


def test_large_foreign_blocks_are_not_kept() -> None:
    own = Header(b"gen_ai.conversation.id", STRING, A.encode())
    padding = [Header(b"%03d" % number, STRING, b"v" * 255) for number in range(200)]
    tracemalloc.start()
    try:
        for number in range(100):
            block = encode_block([own, *padding, Header(b"n", STRING, b"%d" % number)])
            assert route(block, b"x").conversation_id == decode_provenance(block).conversation_id == A
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000


class TestFrames:
    def test_empty_content_round_trips(self) -> None:
        assert unframe(encode_block([EMPTY_FRAME]), EMPTY_PAYLOAD) == b""

    def test_a_zero_byte_of_the_users_own_stays(self) -> None:
        assert unframe(encode_block([Header(b"x", STRING, b"laser.frame")]), b"\0") == b"\0"
        assert unframe(b"", b"\0") == b"\0"

    @pytest.mark.parametrize(
        ("header", "payload"),
        [
            (Header(b"laser.frame", STRING, b"zstd"), b"\0"),
            (Header(b"laser.frame", 1, b"empty"), b"\0"),
            (EMPTY_FRAME, b"x"),
            (EMPTY_FRAME, b"\0\0"),
        ],
    )
    def test_frames_of_later_versions_are_refused_not_shown_raw(self, header: Header, payload: bytes) -> None:
        with pytest.raises(ls.CodecError, match=r"laser\.frame"):
            unframe(encode_block([header]), payload)
