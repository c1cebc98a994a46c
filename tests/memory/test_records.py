"""The bytes of memory records: the peer's, exact both ways, and strict."""

from __future__ import annotations

import math
import struct
from typing import Any

import cbor2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from laser.model.ids import ulid_text
from laser.model.memory import MEMORY_KINDS, FactMark, Forgotten, MemoryOwner, Remembered, Weighed
from laser.model.records import LogRecord
from laser.testing.strategies import mutations
from laser.wire.blocks import STRING, UINT32, Header, decode_block, encode_block
from laser.wire.memory import (
    content_id,
    encode_feedback,
    encode_forget,
    encode_item,
    memory_headers,
)
from laser.wire.memory_reading import decode_memory
from tests.memory.making import C1
from tests.properties import decodes, examples
from tests.shared import golden_copy

GOLDEN: list[dict[str, Any]] = golden_copy()["memory"]
CONVERSATION = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
ITEM = "01M8NCT8VD6143HC1MHB6GXN9S"
OWNER = MemoryOwner("stream:g4/notes", CONVERSATION)


def record(headers: bytes, payload: bytes) -> LogRecord:
    return LogRecord(3, 7, 1, 1_000, headers, payload)


def headers_of(golden: dict[str, Any]) -> bytes:
    """The golden headers in the order of their keys, as the server stores a map."""
    return encode_block(
        Header(key.encode(), STRING, entry["value"].encode()) for key, entry in sorted(golden["headers"].items())
    )


def test_the_peers_payloads() -> None:
    item, summary, feedback, forget = (bytes.fromhex(one["payload_cbor"]) for one in GOLDEN)
    text = bytes(cbor2.loads(item)["Item"]["body"])
    assert item == encode_item(ITEM, "fact", text)
    assert summary == encode_item(content_id("summary", b"\x00\xff"), "summary", b"\x00\xff")
    assert feedback == encode_feedback(ITEM, -0.5, CONVERSATION)
    assert forget == encode_forget(ITEM, CONVERSATION)


@pytest.mark.parametrize("golden", GOLDEN, ids=["item", "dedup", "feedback", "forget"])
def test_the_peers_headers(golden: dict[str, Any]) -> None:
    assert memory_headers(OWNER, golden["headers"]["agdx.idem"]["value"]) == headers_of(golden)


def test_the_peers_records_are_read() -> None:
    item, summary, feedback, forget = (
        decode_memory(record(headers_of(one), bytes.fromhex(one["payload_cbor"]))) for one in GOLDEN
    )
    place = (OWNER, 1_000, 3, 7)
    assert isinstance(item, Remembered)
    assert item == Remembered(ITEM, "fact", item.body, *place)
    assert summary == Remembered("6YCTCS04VJRVJ7YH0KVWTXT3EP", "summary", b"\x00\xff", *place)
    assert feedback == Weighed(ITEM, -0.5, CONVERSATION, *place)
    assert forget == Forgotten(ITEM, CONVERSATION, *place)


ID = ulid_text(7)
HEX = ID.encode().hex()
EXACT = {
    "item": (encode_item(ID, "fact", b"x"), f"a1644974656da3626964781a{HEX}646b696e64646661637464626f6479811878"),
    "empty": (encode_item(ID, "fact", b""), f"a1644974656da3626964781a{HEX}646b696e64646661637464626f647980"),
    "producer": (
        encode_item(ID, "fact", b"x", {"producer": {"name": "n", "version": "v"}}),
        f"a1644974656da4626964781a{HEX}646b696e64646661637464626f64798118786870726f6475636572a2646e616d65616e6776657273696f6e6176",
    ),
    "feedback": (
        encode_feedback(ID, -1e10, CONVERSATION),
        f"a168466565646261636ba366746172676574781a{HEX}66776569676874fad01502f96c636f6e766572736174696f6e781a{CONVERSATION.encode().hex()}",
    ),
    "forget": (encode_forget(ID, None), f"a166466f72676574a166746172676574781a{HEX}"),
}


@pytest.mark.parametrize(("payload", "expected"), EXACT.values(), ids=EXACT.keys())
def test_bytes_measured_on_the_peer(payload: bytes, expected: str) -> None:
    assert payload.hex() == expected


WEIGHTS = [
    (0.0, "f90000"), (-0.0, "f98000"), (1.5, "f93e00"), (0.1, "fa3dcccccd"), (65504.0, "f97bff"),
    (65505.0, "fa477fe100"), (2.0**-24, "f90001"), (1e-40, "fa000116c2"),
]  # fmt: skip


@pytest.mark.parametrize(("weight", "expected"), WEIGHTS)
def test_weights_measured_on_the_peer(weight: float, expected: str) -> None:
    payload = encode_feedback(ID, weight, None)
    assert payload.hex().endswith(expected)
    read = decode_memory(record(memory_headers(OWNER, ID), payload))
    assert isinstance(read, Weighed)
    assert struct.pack(">f", read.weight) == struct.pack(">f", weight)


def test_content_ids_measured_on_the_peer() -> None:
    assert content_id("fact", b"x") == "0W4JEMG87T3QWJAX1D6CFYVHB7"
    assert content_id("fact", b"x", user="us") == "0RKA53CHFPAQETEKYKW6EQYS1Z"
    assert len({content_id(kind, b"x") for kind in MEMORY_KINDS}) == 6


names = st.none() | st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=20).filter(
    lambda text: len(text.encode()) <= 60
)


@examples(150)
@given(
    st.sampled_from(MEMORY_KINDS), st.binary(max_size=300), names, names, names,
    st.none() | st.builds(FactMark, st.just("k"), st.just("engine"), st.none() | st.integers(0, 10**17)),
    st.booleans(), st.lists(st.just(ID), max_size=3), st.booleans(),
)  # fmt: skip
def test_items_round_trip(
    kind: Any, body: bytes, agent: str | None, user: str | None, app: str | None, fact: FactMark | None,
    durable: bool, sources: list[str], made: bool,
) -> None:  # fmt: skip
    owner = MemoryOwner("stream:s/n", C1, agent, user, app)
    lineage = {"producer": {"name": "n", "version": "1"}} if made else {}
    payload = encode_item(ID, kind, body, lineage, sources)
    assert cbor2.loads(payload)["Item"]["body"] == list(body)
    read = decode_memory(record(memory_headers(owner, ID, fact=fact, durable=durable), payload))
    assert read == Remembered(ID, kind, body, owner, 1_000, 3, 7, fact, durable, tuple(sources), lineage)


@examples(80)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.booleans(), st.booleans())
def test_feedback_and_forgets_round_trip(weight: float, scoped: bool, pruned: bool) -> None:
    within = C1 if scoped else None
    read = decode_memory(record(memory_headers(OWNER, ID, note="é"), encode_feedback(ID, weight, within)))
    assert read == Weighed(ID, weight, within, OWNER, 1_000, 3, 7, "é")
    gone = decode_memory(record(memory_headers(OWNER, ID, pruned=pruned), encode_forget(ID, within)))
    assert gone == Forgotten(ID, within, OWNER, 1_000, 3, 7, pruned)


def _item(**fields: Any) -> bytes:
    return cbor2.dumps({"Item": {"id": ID, "kind": "fact", "body": [1], **fields}})


MESSAGE = {"stream": 1, "topic": 2, "partition": 3, "offset": 4}
ACCEPTED: dict[str, tuple[bytes, dict[str, Any]]] = {
    "body as bytes": (_item(body=b"\x01"), {}),
    "further fields": (_item(more={b"\xff": 2}, again=[None]), {}),
    "lower case": (_item(id=ID.lower()), {}),
    "no origin": (_item(origin=None, producer=None), {}),
    "message": (_item(origin={"Message": {**MESSAGE, "x": {b"": b""}}}), {"origin": {"Message": MESSAGE}}),
    "all of a message": (
        _item(origin={"Message": {**MESSAGE, "generation": 2**64 - 1, "conversation": "c"}}),
        {"origin": {"Message": {**MESSAGE, "generation": 2**64 - 1, "conversation": "c"}}},
    ),
    "kv": (_item(origin={"Kv": {"namespace": "n", "key": "k"}}), {"origin": {"Kv": {"namespace": "n", "key": "k"}}}),
    "memory": (_item(origin={"Memory": {"id": "any"}}), {"origin": {"Memory": {"id": "any"}}}),
    "producer": (
        _item(producer={"name": "n", "version": "v", "x": 1}),
        {"producer": {"name": "n", "version": "v"}},
    ),
}


@pytest.mark.parametrize(("payload", "lineage"), ACCEPTED.values(), ids=ACCEPTED.keys())
def test_what_is_read(payload: bytes, lineage: dict[str, Any]) -> None:
    read = decode_memory(record(memory_headers(OWNER, ID), payload))
    assert isinstance(read, Remembered)
    assert (read.id, read.body, read.lineage) == (ID, b"\x01", lineage)


def test_names_in_place_of_ids_are_passed_over() -> None:
    for payload in (_item(id="notes/k"), cbor2.dumps({"Forget": {"target": "notes/k"}})):
        assert decode_memory(record(memory_headers(OWNER, ID), payload)) is None


REFUSED: dict[str, bytes] = {
    "not CBOR": b"noise",
    "nothing": b"",
    "a list": cbor2.dumps([1]),
    "two keys": cbor2.dumps({"Item": {}, "Forget": {}}),
    "another record": cbor2.dumps({"Items": {}}),
    "a number for a key": cbor2.dumps({7: {}}),
    "bytes for a key": cbor2.dumps({b"\xff" * 99: {}}),
    "fields in a list": cbor2.dumps({"Item": [ID, "fact", [1]]}),
    "no id": cbor2.dumps({"Item": {"kind": "fact", "body": [1]}}),
    "a number for an id": _item(id=7),
    "no body": cbor2.dumps({"Item": {"id": ID, "kind": "fact"}}),
    "body of text": _item(body="x"),
    "body above a byte": _item(body=[256]),
    "body below a byte": _item(body=[-1]),
    "body of booleans": _item(body=[True]),
    "body of floats": _item(body=[1.0]),
    "kind of bytes": _item(kind=b"fact"),
    "origin of text": _item(origin="Message"),
    "origin of another kind": _item(origin={"File": {}}),
    "origin with a number for a kind": _item(origin={1: MESSAGE}),
    "origin of two kinds": _item(origin={"Message": MESSAGE, "Memory": {"id": "x"}}),
    "origin that lacks a member": _item(origin={"Message": {"stream": 1, "topic": 2, "partition": 3}}),
    "origin with a member too large": _item(origin={"Message": {**MESSAGE, "stream": 2**32}}),
    "origin with a member below 0": _item(origin={"Message": {**MESSAGE, "offset": -1}}),
    "producer without a version": _item(producer={"name": "n"}),
    "sources that are none": _item(**{"laser.sources": [1]}),
    "after the end": _item() + b"\0",
    "a whole number for a weight": cbor2.dumps({"Feedback": {"target": ID, "weight": 1}}),
    "no weight": cbor2.dumps({"Feedback": {"target": ID}}),
    "weight nan": cbor2.dumps({"Feedback": {"target": ID, "weight": math.nan}}),
    "weight too large": cbor2.dumps({"Feedback": {"target": ID, "weight": 1e39}}),
    "no conversation id": cbor2.dumps({"Forget": {"target": ID, "conversation": "c"}}),
    "an empty conversation": cbor2.dumps({"Feedback": {"target": ID, "weight": 1.0, "conversation": ""}}),
}


@pytest.mark.parametrize("payload", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(payload: bytes) -> None:
    with pytest.raises(ls.CodecError):
        decode_memory(record(memory_headers(OWNER, ID), payload))


@pytest.mark.parametrize("drop", [b"agdx.mem.ns", b"gen_ai.conversation.id"])
def test_headers_that_are_needed(drop: bytes) -> None:
    kept = [header for header in decode_block(memory_headers(OWNER, ID)) if header.key != drop]
    with pytest.raises((ls.CodecError, ls.ProvenanceError)):
        decode_memory(record(encode_block(kept), _item()))
    other = [msgspec.structs.replace(one, kind=UINT32, value=b"\0\0\0\1") if one.key == drop else one for one in
             decode_block(memory_headers(OWNER, ID))]  # fmt: skip
    with pytest.raises((ls.CodecError, ls.ProvenanceError)):
        decode_memory(record(encode_block(other), _item()))


def test_headers_that_are_damaged() -> None:
    for key, value in ((b"laser.mem.expires", b"soon"), (b"laser.mem.expires", b"9" * 19), (b"agdx.mem.user", b"\xff")):
        block = [
            *decode_block(memory_headers(OWNER, ID)),
            Header(key, STRING, value),
            Header(b"laser.mem.key", STRING, b"k"),
        ]
        with pytest.raises(ls.CodecError):
            decode_memory(record(encode_block(block), _item()))


@examples(400)
@given(st.data())
def test_hostile_bytes_give_a_value_or_a_typed_error(data: st.DataObject) -> None:
    made = [one for one, _ in EXACT.values()] + [payload for payload, _ in ACCEPTED.values()]
    payload = data.draw(st.binary(max_size=60) | st.sampled_from(made).flatmap(mutations))
    mark = FactMark("k", "engine", 5)
    whole = memory_headers(MemoryOwner("stream:s/n", C1, "a", "u", "p"), ID, fact=mark, note="n", durable=True)
    block = data.draw(st.just(whole) | mutations(whole) | st.binary(max_size=60))
    decodes(lambda: decode_memory(record(block, payload)), ls.CodecError, ls.ProvenanceError)
