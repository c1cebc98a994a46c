"""Provenance headers: what can be written, and what is read of headers by other hands."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from laser.model.ids import ulid_text
from laser.wire.blocks import FLOAT64, RAW, STRING, UINT32, UINT64, Header, encode_block
from laser.wire.provenance import decode_provenance, encode_provenance
from tests.properties import decodes, examples

ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
OWN = Header(b"gen_ai.conversation.id", STRING, ID.encode())

_ids = st.integers(0, 2**128 - 1).map(ulid_text)
_texts = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=20).filter(
    lambda text: text != "*"
)
_numbers = st.integers(0, 2**64 - 1)
_positions = st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)).map(lambda at: f"{at[0]}:{at[1]}")


def _maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


provenances = st.builds(
    ls.Provenance,
    conversation_id=_ids,
    causal_parent=_maybe(_positions),
    parent_conversation_id=_maybe(_ids),
    root_conversation_id=_maybe(_ids),
    agent=_maybe(_texts),
    target_agent_id=_maybe(_texts),
    idempotency_key=_maybe(_texts),
    correlation_id=_maybe(_texts),
    deadline_micros=_maybe(_numbers),
    fence_token=_maybe(_numbers),
    input_tokens=_maybe(_numbers),
    output_tokens=_maybe(_numbers),
    cost_usd=_maybe(st.floats(allow_nan=False, allow_infinity=False)),
)


@given(provenances)
@examples(200)
def test_round_trip(made: ls.Provenance) -> None:
    try:
        block = encode_provenance(made)
    except ls.LimitError:
        assert _size(made) > 1_024
        return
    assert _size(made) <= 1_024
    assert decode_provenance(block) == made


@given(provenances, st.data())
@examples(300)
def test_mutated_headers_give_provenance_or_one_typed_error(made: ls.Provenance, data: st.DataObject) -> None:
    short = ls.Provenance(conversation_id=made.conversation_id, agent=made.agent, fence_token=made.fence_token)
    block = bytearray(encode_provenance(short))
    at = data.draw(st.integers(0, len(block) - 1))
    block[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    decoded = decodes(lambda: decode_provenance(bytes(block)), ls.ProvenanceError)
    if decoded is not None:
        # Whatever is read can be written again and is then the same.
        assert decode_provenance(encode_provenance(decoded)) == decoded


@pytest.mark.parametrize("field", ["agent", "target_agent_id", "idempotency_key", "correlation_id"])
@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("", ls.ProvenanceError),
        ("a\nb", ls.ProvenanceError),
        ("a\0", ls.ProvenanceError),
        ("\x7f", ls.ProvenanceError),
        ("a\u0085b", ls.ProvenanceError),
        ("\ud83d", ls.ProvenanceError),
        (5, ls.ProvenanceError),
        (b"x", ls.ProvenanceError),
        ("é" * 128, ls.LimitError),
        ("x" * 256, ls.LimitError),
    ],
)
def test_texts_that_headers_cannot_hold(field: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=field):
        encode_provenance(ls.Provenance(conversation_id=ID, **{field: value}))


@pytest.mark.parametrize("field", ["agent", "target_agent_id", "idempotency_key", "correlation_id"])
def test_texts_at_the_limit(field: str) -> None:
    made = ls.Provenance(conversation_id=ID, **{field: "é" * 127 + "x"})
    assert decode_provenance(encode_provenance(made)) == made


@pytest.mark.parametrize("field", ["deadline_micros", "fence_token", "input_tokens", "output_tokens"])
@pytest.mark.parametrize("value", [-1, 2**64, 1.0, True, "1", math.nan])
def test_numbers_that_are_not_unsigned_64_bits(field: str, value: Any) -> None:
    # Equal values of another type first: what was accepted once must not let these through.
    encode_provenance(ls.Provenance(conversation_id=ID, **{field: 1}))
    with pytest.raises(ls.ProvenanceError, match=field):
        encode_provenance(ls.Provenance(conversation_id=ID, **{field: value}))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, "1", 10**400, -(10**400)])
def test_b14_costs_that_are_not_finite_numbers(value: Any) -> None:
    encode_provenance(ls.Provenance(conversation_id=ID, cost_usd=1.0))
    with pytest.raises(ls.ProvenanceError, match="cost_usd"):
        encode_provenance(ls.Provenance(conversation_id=ID, cost_usd=value))


def test_a_negative_zero_keeps_its_sign() -> None:
    for cost in (0.0, -0.0, 0.0):
        block = encode_provenance(ls.Provenance(conversation_id=ID, cost_usd=cost))
        assert struct.pack("<d", cost) in block


@pytest.mark.parametrize(
    "value",
    [
        *("", "1", "1:", ":1", "01:1", "1:01", "1:-1", "1:+1", "1:1:1", " 1:1", "１:1"),
        *("4294967296:0", "0:18446744073709551616"),
    ],
)
def test_causes_that_are_no_positions(value: str) -> None:
    with pytest.raises(ls.ProvenanceError, match="causal_parent"):
        encode_provenance(ls.Provenance(conversation_id=ID, causal_parent=value))


@pytest.mark.parametrize("field", ["conversation_id", "parent_conversation_id", "root_conversation_id"])
def test_ids_of_another_form_are_named(field: str) -> None:
    fields = {"conversation_id": ID, field: "nonsense"}
    with pytest.raises(ls.IdError, match=field) as caught:
        encode_provenance(ls.Provenance(**fields))
    assert caught.value.argument == field


def test_all_headers_together_fit_1024_bytes() -> None:
    fields = dict.fromkeys(["agent", "target_agent_id", "idempotency_key", "correlation_id"], "x" * 255)
    with pytest.raises(ls.LimitError) as caught:
        encode_provenance(ls.Provenance(conversation_id=ID, **fields))
    assert caught.value.limit == 1_024
    assert caught.value.size > 1_024
    spare = 1_024 - (len("gen_ai.conversation.id") + 26 + 9) - 3 * (9 + 255) - len("gen_ai.agent.idagdx.toagdx.idem")
    exact = ls.Provenance(
        conversation_id=ID,
        agent="x" * 255,
        target_agent_id="x" * 255,
        idempotency_key="x" * 255,
        correlation_id="x" * (spare - 9 - len("agdx.corr")),
    )
    assert decode_provenance(encode_provenance(exact)) == exact
    over = ls.Provenance(**{**_fields(exact), "correlation_id": f"{exact.correlation_id}x"})
    with pytest.raises(ls.LimitError, match="1025"):
        encode_provenance(over)


_KEYS = {
    "conversation_id": "gen_ai.conversation.id",
    "causal_parent": "agdx.cause",
    "parent_conversation_id": "agdx.parent_conv",
    "root_conversation_id": "agdx.root_conv",
    "agent": "gen_ai.agent.id",
    "target_agent_id": "agdx.to",
    "idempotency_key": "agdx.idem",
    "correlation_id": "agdx.corr",
    "deadline_micros": "agdx.deadline",
    "fence_token": "agdx.fence",
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cost_usd": "agdx.cost",
}


def _size(made: ls.Provenance) -> int:
    """What the headers count for: key + value + 9 each."""
    values = {name: value for name, value in _fields(made).items() if value is not None}
    return sum(
        len(_KEYS[name]) + 9 + (len(value.encode()) if isinstance(value, str) else 8) for name, value in values.items()
    )


def _fields(made: ls.Provenance) -> dict[str, Any]:
    return {name: getattr(made, name) for name in made.__struct_fields__}


def _read(*headers: Header) -> ls.Provenance:
    return decode_provenance(encode_block([OWN, *headers]))


def test_numbers_of_older_writers_are_read_as_text() -> None:
    read = _read(
        Header(b"agdx.deadline", STRING, b"18446744073709551615"),
        Header(b"agdx.fence", STRING, b"007"),
        Header(b"gen_ai.usage.input_tokens", STRING, b"0"),
        Header(b"agdx.cost", STRING, b"1.5"),
    )
    assert (read.deadline_micros, read.fence_token, read.input_tokens, read.cost_usd) == (2**64 - 1, 7, 0, 1.5)


@pytest.mark.parametrize(
    "header",
    [
        Header(b"agdx.fence", STRING, b"junk"),
        Header(b"agdx.fence", STRING, b"-1"),
        Header(b"agdx.fence", STRING, b"+5"),
        Header(b"agdx.fence", STRING, b" 5"),
        Header(b"agdx.fence", STRING, b"1_0"),
        Header(b"agdx.fence", STRING, b"9" * 255),
        Header(b"agdx.fence", STRING, "٣".encode()),
        Header(b"agdx.fence", UINT32, b"\x05\0\0\0"),
        Header(b"agdx.fence", RAW, b"\x05"),
        Header(b"agdx.cost", STRING, b"junk"),
        Header(b"agdx.cost", STRING, b"nan"),
        Header(b"agdx.cost", STRING, b"inf"),
        Header(b"agdx.cost", STRING, b"1e999"),
        Header(b"agdx.cost", STRING, b"1_0"),
        Header(b"agdx.cost", STRING, b" 1.5"),
        Header(b"agdx.cost", STRING, "٣".encode()),
        Header(b"agdx.cost", FLOAT64, struct.pack("<d", math.nan)),
        Header(b"agdx.cost", UINT64, b"\x05" + bytes(7)),
        Header(b"agdx.cause", STRING, b"junk"),
        Header(b"agdx.cause", STRING, b"4294967296:1"),
        Header(b"agdx.parent_conv", STRING, b"junk"),
        Header(b"agdx.root_conv", STRING, b"81ARZ3NDEKTSV4RRFFQ69G5FAV"),
        Header(b"gen_ai.agent.id", STRING, b"a\nb"),
        Header(b"gen_ai.agent.id", STRING, b"\xff"),
        Header(b"gen_ai.agent.id", UINT64, bytes(8)),
        Header(b"agdx.corr", RAW, b"x"),
    ],
    ids=lambda header: f"{header.key.decode()}={header.value[:12]!r}",
)
def test_known_headers_with_impossible_values_make_the_record_undecodable(header: Header) -> None:
    with pytest.raises(ls.ProvenanceError) as caught:
        _read(header)
    assert caught.value.header == header.key.decode()


def test_a_target_of_all_is_no_target() -> None:
    assert _read(Header(b"agdx.to", STRING, b"*")) == ls.Provenance(conversation_id=ID)
    assert _read(Header(b"agdx.to", STRING, b"**")).target_agent_id == "**"


def test_foreign_headers_are_ignored() -> None:
    assert _read(Header(b"x", RAW, b"\xff"), Header(b"agdx.fence", RAW, b"\xff", key_kind=RAW)) == ls.Provenance(
        conversation_id=ID
    )


def test_ids_are_read_in_any_case_and_shown_upper() -> None:
    read = decode_provenance(encode_block([Header(b"gen_ai.conversation.id", STRING, ID.lower().encode())]))
    assert read.conversation_id == ID


@pytest.mark.parametrize("block", [b"", b"junk", encode_block([Header(b"x", STRING, b"y")])])
def test_g4_records_without_provenance_say_so(block: bytes) -> None:
    with pytest.raises(ls.ProvenanceError):
        decode_provenance(block)


def test_usage_and_deadline_are_read_as_laser_sdk_calls_them() -> None:
    provenance = ls.Provenance(conversation_id=ls.new_conversation_id(), deadline_micros=5, input_tokens=0)
    assert provenance.deadline == 5
    assert provenance.usage == ls.Usage(0, None, None)
    assert ls.Provenance().usage is None
