"""The bytes of graph records: exact both ways, and strict."""

from __future__ import annotations

from typing import Any

import cbor2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from laser.limits import MAX_GRAPH_WRITE
from laser.model.graph_change import EdgeFact, GraphChange, GraphWrite
from laser.model.ids import ulid_bytes
from laser.model.records import LogRecord
from laser.testing.strategies import mutations
from laser.wire.blocks import RAW, STRING, Header, decode_block, encode_block
from laser.wire.graph import decode_graph, encode_graph
from laser.wire.provenance import decode_provenance
from tests.graph.making import ACME, ALICE, writes
from tests.properties import decodes, examples

CONVERSATION = ls.derive_conversation_id("graph")
EDGE = EdgeFact(ALICE.id, "works_at", ACME.id, 1.0)


def record(headers: bytes, payload: bytes) -> LogRecord:
    return LogRecord(3, 7, 1, 1_000, headers, payload)


@examples(200)
@given(writes(("g", "é" * 64)), st.none() | st.just(CONVERSATION))
def test_round_trip(write: GraphWrite, conversation: str | None) -> None:
    headers, payload = encode_graph(write, conversation)
    assert decode_graph(record(headers, payload)) == GraphChange(write, conversation, 1_000, 3, 7)
    if conversation is not None:
        assert decode_provenance(headers).conversation_id == conversation


def test_the_bytes() -> None:
    """These bytes are on logs: they must stay readable for ever."""
    node = ls.Node("Person", "Alice", {"age": 30})
    fact = EdgeFact(ALICE.id, "works_at", ACME.id, 0.5, 5, None, attributes={"role": "lead"})
    write = GraphWrite("g1", (node,), (fact,), ls.GraphSource("agent.sessions", 2, 9))
    headers, payload = encode_graph(write, None)
    assert headers == b"\x02\x0b\x00\x00\x00laser.graph\x02\x02\x00\x00\x00g1"
    assert cbor2.loads(payload) == {
        "v": 1,
        "nodes": [["Person", "Alice", {"age": 30}]],
        "edges": [[ulid_bytes(ALICE.id), "works_at", ulid_bytes(ACME.id), 0.5, 5, None, {"role": "lead"}]],
        "source": ["agent.sessions", 2, 9],
    }
    assert payload.startswith(
        b"\xa4\x61v\x01\x65nodes\x81\x83\x66Person\x65Alice\xa1\x63age\x18\x1e\x65edges\x81\x87\x50"
    )
    assert payload.endswith(b"\xa1\x64role\x64lead\x66source\x83\x6eagent.sessions\x02\x09")


def test_the_records_own_time() -> None:
    opened = msgspec.structs.replace(EDGE, starts_now=True)
    closed = msgspec.structs.replace(EDGE, type="t", weight=None, start=5, ends_now=True)
    change = decode_graph(record(*encode_graph(GraphWrite("g", (), (opened, closed)), None)))
    assert [(fact.start, fact.end) for fact in change.write.edges] == [(1_000, None), (5, 1_000)]


def _payload(**fields: Any) -> bytes:
    return cbor2.dumps({"v": 1, **fields})


def _edge(**changed: Any) -> bytes:
    fields = {"source": b"a" * 16, "type": "t", "target": b"b" * 16, "weight": 1.0, "start": None, "end": None, "a": {}}
    return _payload(edges=[list((fields | changed).values())])


_NAME = (Header(b"laser.graph", STRING, b"g"),)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff",
        cbor2.dumps([]),
        cbor2.dumps({}),
        cbor2.dumps({"v": 2}),
        cbor2.dumps({"v": True}),
        cbor2.dumps({"v": "1"}),
        cbor2.dumps({"v": 10**30}),
        _payload() + b"\0",
        _payload(more=1),
        cbor2.dumps({"v": 1, 7: 1}),
        _payload(nodes={}),
        _payload(nodes=[1]),
        _payload(nodes=[["L", "v"]]),
        _payload(nodes=[["L", "v", None]]),
        _payload(nodes=[["L", "v", {7: 1}]]),
        _payload(nodes=[["L", "v", {"a": {}}]]),
        _payload(nodes=[["L", "v", {"a": [[]]}]]),
        _payload(nodes=[["L", "v", {"a": b"x"}]]),
        _payload(nodes=[["L", "v", {"a": float("nan")}]]),
        _payload(nodes=[["L", "v", {"a": 2**64}]]),
        _payload(nodes=[["L", "v", {"a": "x" * 20_000}]]),
        _payload(nodes=[["", "v", {}]]),
        _payload(nodes=[["L\0", "v", {}]]),
        _payload(nodes=[["L" * 256, "v", {}]]),
        _payload(nodes=[["L", "v" * 1_025, {}]]),
        _payload(nodes=[[b"L", "v", {}]]),
        _payload(nodes=[["L", "v", {}]] * 2),
        _payload(nodes=[["L", str(number), {}] for number in range(MAX_GRAPH_WRITE + 1)]),
        _edge(source=b"a" * 15),
        _edge(target="b" * 16),
        _edge(type=""),
        _edge(weight=1),
        _edge(weight=float("inf")),
        _edge(weight=None, a={"x": 1}),
        _edge(start=False),
        _edge(start=1.0),
        _edge(end=2**62 + 1),
        _edge(a=[]),
        _payload(edges=[[]]),
        _payload(source=None),
        _payload(source=["t", 0]),
        _payload(source=["t", 0, -1]),
        _payload(source=["t", 2**32, 0]),
        _payload(source=[7, 0, 0]),
        _payload(source=["t", True, 0]),
    ],
)
def test_damaged_payloads(payload: bytes) -> None:
    with pytest.raises(ls.CodecError):
        decode_graph(record(encode_block(_NAME), payload))


@pytest.mark.parametrize(
    "headers",
    [
        b"",
        b"\x02",
        encode_block((Header(b"laser.graph", RAW, b"g"),)),
        encode_block((Header(b"laser.graph", STRING, b"\xff"),)),
        encode_block((Header(b"laser.graph", STRING, b"g" * 129),)),
        encode_block((Header(b"laser.graph", STRING, b"a\nb"),)),
        encode_block((Header(b"laser.graph", STRING, b"g", RAW),)),
        encode_block((Header(b"laser.graphs", STRING, b"g"),)),
    ],
)
def test_damaged_headers(headers: bytes) -> None:
    with pytest.raises(ls.CodecError):
        decode_graph(record(headers, _payload()))


def test_a_conversation_that_cannot_be_read_is_none() -> None:
    block = encode_block((*_NAME, Header(b"gen_ai.conversation.id", STRING, b"x")))
    assert decode_graph(record(block, _payload())).conversation is None
    assert decode_graph(record(encode_block(_NAME), _payload())).write == GraphWrite("g", (), ())


@examples(200)
@given(writes().flatmap(lambda write: st.tuples(*map(mutations, encode_graph(write, CONVERSATION)))))
def test_hostile_bytes(data: tuple[bytes, bytes]) -> None:
    """A value or ``CodecError``; a value is one that can be written again."""
    change = decodes(lambda: decode_graph(record(*data)), ls.CodecError)
    if change is not None:
        headers, payload = encode_graph(change.write, change.conversation)
        again = decode_graph(record(headers, payload))
        assert [header.key for header in decode_block(headers)][-1] == b"laser.graph"
        assert again == change
