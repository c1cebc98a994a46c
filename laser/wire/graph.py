"""Graph records: a format of laser's own on the topic ``agent.graph``.

The header ``laser.graph`` names the graph, the usual one the conversation. The payload is strict CBOR, a map of:

- ``v``: 1;
- ``nodes``: arrays of label, value, attributes; left out when there are none;
- ``edges``: arrays of source (16 bytes), type, target (16 bytes), weight, start, end, attributes; left out likewise.
  Start and end are microseconds, null for no bound, or true for the record's own time. A null weight only opens or
  closes a stretch of time of an edge that others assert;
- ``source``: array of topic, partition and offset of the record that it was learnt from; left out where none is named.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from laser.errors import CodecError, InvalidError, LimitError
from laser.limits import MAX_GRAPH_ATTRIBUTES_BYTES, MAX_GRAPH_NAME_BYTES, MAX_GRAPH_WRITE, MAX_HEADER_BYTES, MAX_OFFSET
from laser.model.graph import GraphSource, Node, check_label, check_moment, check_text
from laser.model.graph_change import EdgeFact, GraphChange, GraphWrite
from laser.model.ids import ulid_bytes, ulid_text
from laser.model.provenance import Provenance
from laser.model.records import LogRecord
from laser.wire.blocks import STRING, Header, decode_block, encode_block
from laser.wire.cbor import decode_cbor, encode_cbor
from laser.wire.provenance import encode_provenance, read_conversations

__all__ = ["GRAPH_TOPIC", "check_graph_name", "decode_graph", "encode_graph"]

GRAPH_TOPIC: Final = "agent.graph"
"""The topic that graphs are kept on. The first write creates it where it is absent."""

_NAME_KEY: Final = b"laser.graph"
_VERSION: Final = 1
_FIELDS: Final = frozenset({"v", "nodes", "edges", "source"})
_MIN_INT: Final = -(2**63)
_MAX_INT: Final = 2**64 - 1
_MAX_U32: Final = 2**32 - 1


def encode_graph(write: GraphWrite, conversation: str | None) -> tuple[bytes, bytes]:
    """The header block and the payload of a record.

    Args:
        conversation: who says it, canonical; ``None`` names nobody.

    Raises:
        InvalidError, LimitError: attributes that cannot be kept, too many of anything.
    """
    count = len(write.nodes) + len(write.edges)
    if count > MAX_GRAPH_WRITE:
        raise LimitError(
            f"nodes: {count} of them and edges together, allowed are {MAX_GRAPH_WRITE} a write; write them in parts",
            argument="nodes",
            size=count,
            limit=MAX_GRAPH_WRITE,
        )
    fields: dict[str, Any] = {"v": _VERSION}
    if write.nodes:
        fields["nodes"] = [[node.label, node.value, _attributes(node.attributes)] for node in write.nodes]
    if write.edges:
        fields["edges"] = [
            [
                ulid_bytes(edge.source),
                edge.type,
                ulid_bytes(edge.target),
                edge.weight,
                True if edge.starts_now else edge.start,
                True if edge.ends_now else edge.end,
                _attributes(edge.attributes),
            ]
            for edge in write.edges
        ]
    if write.source is not None:
        _check_source(write.source)
        fields["source"] = [write.source.topic, write.source.partition, write.source.offset]
    name = Header(_NAME_KEY, STRING, write.graph.encode())
    if conversation is None:
        return encode_block((name,)), encode_cbor(fields)
    return encode_provenance(Provenance(conversation_id=conversation), (name,)), encode_cbor(fields)


def decode_graph(record: LogRecord) -> GraphChange:
    """What a record says, its bounds of "now" filled in with its time.

    Raises:
        CodecError: not a graph record, damaged, or of another version.
    """
    headers = decode_block(record.headers)
    name = next((header for header in headers if header.key == _NAME_KEY and header.key_kind == STRING), None)
    if name is None or name.kind != STRING:
        raise CodecError("graph: no header laser.graph with a name")
    fields = decode_cbor(record.payload)
    if not isinstance(fields, dict) or type(fields.get("v")) is not int:
        raise CodecError("graph: not a map with a version")
    if fields["v"] != _VERSION:
        raise CodecError(f"graph: version {str(fields['v'])[:20]}, known is {_VERSION}")
    if not _FIELDS.issuperset(fields):
        raise CodecError("graph: holds a field that version 1 does not have")
    try:
        graph = check_graph_name(name.value.decode())
        nodes = [_node(entry) for entry in _entries(fields, "nodes")]
        edges = [_edge(entry, record.timestamp_micros) for entry in _entries(fields, "edges")]
        source = None if "source" not in fields else _source(fields["source"])
    except (InvalidError, UnicodeDecodeError) as error:
        raise CodecError(f"graph: {error}") from error
    if len(nodes) + len(edges) > MAX_GRAPH_WRITE:
        raise CodecError(f"graph: more than {MAX_GRAPH_WRITE} nodes and edges")
    # By what the ids are made from: to hash every text here would hold up the event loop.
    distinct = {(node.label, node.value) for node in nodes}, {_identity(edge) for edge in edges}
    if (len(distinct[0]), len(distinct[1])) != (len(nodes), len(edges)):
        raise CodecError("graph: a node or an edge stands twice")
    return GraphChange(
        GraphWrite(graph, tuple(nodes), tuple(edges), source),
        read_conversations(headers).get("conversation_id"),
        record.timestamp_micros,
        record.partition,
        record.offset,
    )


def check_graph_name(value: str) -> str:
    """A graph's name: 1 to ``MAX_GRAPH_NAME_BYTES`` UTF-8 bytes without control characters.

    Raises:
        InvalidError: another form. LimitError: too long.
    """
    check_text(value, "name", MAX_GRAPH_NAME_BYTES)
    return check_label(value, "name")


def _attributes(value: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes that come back as they are.

    Raises:
        InvalidError: one that does not. LimitError: too many bytes.
    """
    if not isinstance(value, Mapping):
        raise InvalidError(f"attributes: expected a mapping, got {type(value).__name__}", argument="attributes")
    for key, item in value.items():
        check_label(key, "attributes")
        for leaf in item if type(item) is list else (item,):
            _check_leaf(leaf, key)
    plain = dict(value)
    size = len(encode_cbor(plain)) if plain else 0
    if size > MAX_GRAPH_ATTRIBUTES_BYTES:
        raise LimitError(
            f"attributes: take {size} bytes, allowed are {MAX_GRAPH_ATTRIBUTES_BYTES}",
            argument="attributes",
            size=size,
            limit=MAX_GRAPH_ATTRIBUTES_BYTES,
        )
    return plain


def _check_leaf(value: object, key: str) -> None:
    kind = type(value)
    if value is None or kind is bool:
        return
    if kind is str:
        try:
            value.encode()  # type: ignore[attr-defined]
        except UnicodeEncodeError:
            _refuse(key, "text with a lone surrogate, which UTF-8 cannot hold")
    elif kind is int:
        if not _MIN_INT <= value <= _MAX_INT:  # type: ignore[operator]
            _refuse(key, "an int that 64 bits cannot hold; keep it as text")
    elif kind is float:
        if not math.isfinite(value):  # type: ignore[arg-type]
            _refuse(key, f"{value}; keep None or text")
    else:
        _refuse(key, f"a {kind.__name__}; allowed are None, bool, int, float, str, and a list of those")


def _refuse(key: str, what: str) -> NoReturn:
    raise InvalidError(f"attributes: {key!r:.80} is {what}", argument="attributes")


def _entries(fields: dict[str, Any], name: str) -> list[Any]:
    entries = fields.get(name, [])
    if not isinstance(entries, list):
        raise CodecError(f"graph: {name} is not an array")
    return entries


def _node(entry: object) -> Node:
    if not isinstance(entry, list) or len(entry) != 3:
        raise CodecError("graph: a node is not an array of 3")
    label, value, attributes = entry
    return Node(label, value, _attributes(attributes))


def _edge(entry: object, timestamp: int) -> EdgeFact:
    if not isinstance(entry, list) or len(entry) != 7:
        raise CodecError("graph: an edge is not an array of 7")
    source, type_, target, weight, start, end, attributes = entry
    if weight is not None and (type(weight) is not float or not math.isfinite(weight)):
        raise CodecError("graph: an edge's weight is not a finite float")
    if weight is None and attributes != {}:
        raise CodecError("graph: an edge without a weight has attributes")
    return EdgeFact(
        _id(source),
        check_label(type_, "type"),
        _id(target),
        weight,
        timestamp if start is True else check_moment(start, "start"),
        timestamp if end is True else check_moment(end, "end"),
        start is True,
        end is True,
        _attributes(attributes),
    )


def _identity(edge: EdgeFact) -> tuple[object, ...]:
    """What may stand in a record once: an edge that is asserted, and each stretch of one that is not."""
    ends = edge.source, edge.type, edge.target
    return ends if edge.weight is not None else (*ends, edge.start)


def _id(value: object) -> str:
    if not isinstance(value, bytes) or len(value) != 16:
        raise CodecError("graph: a node's id is not 16 bytes")
    return ulid_text(int.from_bytes(value, "big"))


def _source(value: object) -> GraphSource:
    if not isinstance(value, list) or len(value) != 3:
        raise CodecError("graph: source is not an array of 3")
    return _check_source(GraphSource(*value))


def _check_source(source: GraphSource) -> GraphSource:
    check_text(source.topic, "source", MAX_HEADER_BYTES)
    for value, limit in ((source.partition, _MAX_U32), (source.offset, MAX_OFFSET)):
        if type(value) is not int or not 0 <= value <= limit:
            raise InvalidError(f"source: {value!r:.40} is not a whole number from 0 to {limit}", argument="source")
    return source
