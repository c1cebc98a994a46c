"""Graphs for tests, and a fold in plain dicts to compare with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hypothesis import strategies as st

import laser as ls
from laser.model.graph_change import EdgeFact, GraphChange, GraphWrite
from laser.model.ids import ulid_text

ALICE, BOB, CAROL = (ls.Node("Person", name) for name in ("Alice", "Bob", "Carol"))
ACME, GLOBEX = ls.Node("Company", "Acme"), ls.Node("Company", "Globex")
OSLO = ls.Node("City", "Oslo")

Said = tuple[Any, ...]


def names(found: Iterable[ls.Node | ls.GraphHit]) -> list[str]:
    """The values of nodes, in their order."""
    return [one.node.value if isinstance(one, ls.GraphHit) else one.value for one in found]


def told(graph: ls.GraphExport) -> tuple[dict[str, Said], dict[str, list[Said]]]:
    """What a graph says, without order."""
    nodes: dict[str, Said] = {
        node.id: (node.label, node.value, dict(node.attributes), node.asserted) for node in graph.nodes
    }
    edges: dict[str, list[Said]] = {}
    for edge in graph.edges:
        edges.setdefault(edge.id, []).append(
            (edge.weight, edge.valid_from, edge.valid_to, dict(edge.attributes), edge.asserted)
        )
    return nodes, edges


def folded(changes: Iterable[GraphChange], graph: str) -> tuple[dict[str, Said], dict[str, list[Said]]]:
    """The same, said by records one after another in the order that decides."""
    nodes: dict[str, dict[str, Any]] = {}
    edges: dict[str, dict[str, Any]] = {}
    for change in sorted(changes, key=lambda one: (one.timestamp_micros, one.partition, one.offset)):
        by = ls.GraphAssertion(
            change.timestamp_micros, change.partition, change.offset, change.conversation, change.write.source
        )
        if change.write.graph != graph:
            continue
        for node in change.write.nodes:
            held = nodes.setdefault(node.id, {"attributes": {}})
            held |= {"label": node.label, "value": node.value}
            named = by.conversation is not None or by.source is not None
            if named or not held.get("named"):
                held |= {"by": by, "named": named}
            _merge(held["attributes"], node.attributes)
        for fact in change.write.edges:
            edge = edges.setdefault(fact.id, {"weight": None, "attributes": {}, "stretches": {}})
            edge |= {"source": fact.source, "target": fact.target}
            if fact.weight is not None:
                edge |= {"weight": fact.weight, "stretches": {}}
            edge["stretches"][fact.start] = (fact.end, by)
            _merge(edge["attributes"], fact.attributes)
    known = {key: (held["label"], held["value"], held["attributes"], held["by"]) for key, held in nodes.items()}
    found: dict[str, list[Said]] = {}
    for key, edge in edges.items():
        if edge["weight"] is None or edge["source"] not in nodes or edge["target"] not in nodes:
            continue
        stretches = [
            (edge["weight"], start, end, edge["attributes"], by)
            for start, (end, by) in sorted(edge["stretches"].items(), key=lambda one: (one[0] is not None, one[0] or 0))
            if start is None or end is None or start < end
        ]
        if stretches:
            found[key] = stretches
    return known, found


def _merge(held: dict[str, Any], new: Mapping[str, Any]) -> None:
    held.update(new)
    for name in [name for name, value in held.items() if value is None]:
        del held[name]


_moments = st.none() | st.integers(0, 3)
_values = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=3) | st.lists(st.just(1.5))
_attributes = st.dictionaries(st.sampled_from(["a", "b", "é"]), _values, max_size=2)
_THINGS = [ls.Node("L", "1"), ls.Node("L", "10"), ls.Node("Lx", "1")]
_nodes = st.builds(lambda node, held: ls.Node(node.label, node.value, held), st.sampled_from(_THINGS), _attributes)
# Few, so that several records speak of each.
_ENDS = [(_THINGS[0].id, "t", _THINGS[1].id), (_THINGS[0].id, "tt", _THINGS[1].id), (_THINGS[1].id, "t", _THINGS[1].id)]


@st.composite
def _facts(draw: st.DrawFn) -> EdgeFact:
    """What one record says of one of a few edges."""
    weight = draw(st.none() | st.sampled_from([0.5, 1.0]))
    attributes = {} if weight is None else draw(_attributes)
    start, end = draw(_moments), draw(_moments)
    return EdgeFact(*draw(st.sampled_from(_ENDS)), weight, start, end, attributes=attributes)


def _once(values: list[Any]) -> tuple[Any, ...]:
    return tuple({value.id: value for value in values}.values())


def writes(names: tuple[str, ...] = ("g1", "g10")) -> st.SearchStrategy[GraphWrite]:
    """Writes to a few graphs, about a few nodes and edges."""
    sources = st.none() | st.builds(ls.GraphSource, st.just("t"), st.integers(0, 3), st.integers(0, 9))
    return st.builds(
        GraphWrite,
        st.sampled_from(names),
        st.lists(_nodes, max_size=3).map(_once),
        st.lists(_facts(), max_size=3).map(_once),
        sources,
    )


@st.composite
def changes(draw: st.DrawFn) -> list[GraphChange]:
    """Records on two partitions whose clock stands still, goes on and steps back. At first all nodes are there."""
    offsets, found = [0, 0], []
    nodes = GraphWrite("g1", tuple(_THINGS), ())
    for write in [nodes, *draw(st.lists(writes(("g1", "g1", "g1", "g10")), max_size=14))]:
        partition, time = draw(st.integers(0, 1)), draw(st.integers(1, 4))
        conversation = draw(st.none() | st.just(ulid_text(7)))
        found.append(GraphChange(write, conversation, time, partition, offsets[partition]))
        offsets[partition] += 1
    return found
