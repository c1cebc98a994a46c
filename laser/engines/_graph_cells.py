"""Cells: what single records say of single fields of nodes and edges, and the nodes and edges that they add up to.

A cell is known by the field and the record, so that records can be applied in any order, and taken back one by one when
retention takes them. Of the cells of a field the newest holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import orjson

from laser.model.graph import Edge, GraphAssertion, GraphSource, Node
from laser.model.graph_change import EdgeFact, GraphChange

__all__ = [
    "ASSERTED",
    "EDGE",
    "NODE",
    "Cell",
    "edge_cells",
    "holds",
    "merge_edge",
    "merge_node",
    "node_cells",
]

NODE: Final = 0
EDGE: Final = 1

ASSERTED: Final = ""
"""The field that says: it is there."""

_ATTRIBUTE: Final = "a"
_STRETCH: Final = "v"
_NAMED: Final = "s"

Cell = tuple[str, int, int, int, bytes]
"""Field, timestamp, partition, offset, value as JSON."""

_Said = list[Any]
"""Conversation, and topic, partition and offset of the source."""


def node_cells(change: GraphChange, node: Node) -> Iterator[tuple[str, bytes]]:
    """Field and value of what a record says of a node."""
    said = orjson.dumps(_said(change))
    yield ASSERTED, said
    if change.conversation is not None or change.write.source is not None:
        yield _NAMED, said
    for name, value in node.attributes.items():
        yield _ATTRIBUTE + name, orjson.dumps(value)


def edge_cells(change: GraphChange, fact: EdgeFact) -> Iterator[tuple[str, bytes]]:
    """Field and value of what a record says of an edge."""
    said: _Said = [fact.end, *_said(change)]
    if fact.weight is None:
        yield _STRETCH + ("" if fact.start is None else str(fact.start)), orjson.dumps(said)
        return
    yield ASSERTED, orjson.dumps([fact.weight, fact.start, *said])
    for name, value in fact.attributes.items():
        yield _ATTRIBUTE + name, orjson.dumps(value)


def merge_node(label: str, value: str, cells: Iterable[Cell]) -> Node | None:
    """The node that cells add up to, ``None`` where nobody asserts it."""
    newest = _newest(cells)
    asserted = newest.get(ASSERTED)
    if asserted is None:
        return None
    # To say once more that something is there, and not how one knows, does not make the others' word forgotten.
    by = newest.get(_NAMED, asserted)
    return Node(label, value, _attributes(newest), _assertion(by, orjson.loads(by[4])))


def merge_edge(source: str, type_: str, target: str, cells: Iterable[Cell]) -> list[Edge]:
    """The stretches that cells add up to, by start; none where nobody asserts the edge."""
    newest = _newest(cells)
    asserted = newest.get(ASSERTED)
    if asserted is None:
        return []
    weight, start, *said = orjson.loads(asserted[4])
    found: dict[int | None, tuple[Cell, _Said]] = {start: (asserted, said)}
    for field, cell in newest.items():
        # An assertion replaces the stretches that were there before it.
        if field.startswith(_STRETCH) and cell[1:4] > asserted[1:4]:
            found[int(field[1:]) if len(field) > 1 else None] = (cell, orjson.loads(cell[4]))
    attributes = _attributes(newest)
    return [
        Edge(source, type_, target, weight, begin, end, attributes, _assertion(cell, by))
        for begin, (cell, (end, *by)) in sorted(found.items(), key=lambda entry: _start(entry[0]))
        # Closed as soon as it was opened, it holds at no moment.
        if begin is None or end is None or begin < end
    ]


def holds(edge: Edge, as_of: int | None, now: int) -> bool:
    """Whether a stretch holds at a moment, ``None`` for now.

    Now is not before the record that speaks of the stretch, so that what it closed is closed for a slower clock too.
    """
    if as_of is None:
        as_of = now if edge.asserted is None else max(now, edge.asserted.timestamp_micros)
    return edge.holds_at(as_of)


def _newest(cells: Iterable[Cell]) -> dict[str, Cell]:
    newest: dict[str, Cell] = {}
    for cell in cells:
        known = newest.get(cell[0])
        if known is None or cell[1:4] > known[1:4]:
            newest[cell[0]] = cell
    return newest


def _attributes(newest: dict[str, Cell]) -> dict[str, Any]:
    found = {field[1:]: orjson.loads(cell[4]) for field, cell in newest.items() if field.startswith(_ATTRIBUTE)}
    return {name: found[name] for name in sorted(found) if found[name] is not None}


def _start(start: int | None) -> float:
    return float("-inf") if start is None else start


def _said(change: GraphChange) -> _Said:
    source = change.write.source
    place = [None, None, None] if source is None else [source.topic, source.partition, source.offset]
    return [change.conversation, *place]


def _assertion(cell: Cell, said: Sequence[Any]) -> GraphAssertion:
    conversation, topic, partition, offset = said
    source = None if topic is None else GraphSource(topic, partition, offset)
    return GraphAssertion(cell[1], cell[2], cell[3], conversation, source)
