"""From what a caller gives to what a graph works on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from laser.errors import InvalidError, LimitError
from laser.limits import MAX_GRAPH_DEPTH, MAX_GRAPH_RESULTS
from laser.model.graph import Edge, GraphSource, Moment, Node, check_moment, node_id_of, node_of
from laser.model.graph_change import EdgeFact
from laser.model.graph_walks import Hop
from laser.model.messages import ContextMessage

__all__ = ["check_count", "read_edges", "read_hops", "read_nodes", "read_source", "read_start", "read_stretch"]


def read_nodes(values: Iterable[Node | str]) -> tuple[Node, ...]:
    """Nodes, each once; of two that are the same one, the later one's attributes count."""
    nodes: dict[tuple[str, str], Node] = {}
    for value in _items(values, "nodes"):
        node = node_of(value, "nodes")
        before = nodes.get((node.label, node.value))
        if before is not None:
            node = msgspec.structs.replace(node, attributes={**before.attributes, **node.attributes})
        nodes[node.label, node.value] = node
    return tuple(nodes.values())


def read_edges(values: Iterable[Edge], start: int | None, end: int | None) -> tuple[EdgeFact, ...]:
    """What is said of edges, each once; of two that are the same one, the later one counts.

    Args:
        start, end: of edges without a bound of their own.
    """
    facts: dict[tuple[str, str, str], EdgeFact] = {}
    for edge in _items(values, "edges"):
        if not isinstance(edge, Edge):
            raise InvalidError(f"edges: expected an Edge, got {type(edge).__name__}", argument="edges")
        bounds = edge.valid_from, edge.valid_to
        begin, finish = (start, end) if bounds == (None, None) else bounds
        before = facts.get((edge.source, edge.type, edge.target))
        attributes = edge.attributes if before is None else {**before.attributes, **edge.attributes}
        facts[edge.source, edge.type, edge.target] = EdgeFact(
            edge.source, edge.type, edge.target, edge.weight, begin, finish, attributes=attributes
        )
    return tuple(facts.values())


def read_stretch(valid_from: Moment | None, valid_to: Moment | None) -> tuple[int | None, int | None]:
    """A stretch of time.

    Raises:
        InvalidError: it ends before it begins, or a datetime has no time zone.
    """
    start, end = check_moment(valid_from, "valid_from"), check_moment(valid_to, "valid_to")
    if start is not None and end is not None and end <= start:
        raise InvalidError(f"valid_to: {end} is not after valid_from, {start}", argument="valid_to")
    return start, end


def read_source(source: ContextMessage | GraphSource | None) -> tuple[GraphSource | None, str | None]:
    """Where something was learnt from, and in which conversation that was said, where it is known."""
    if source is None or isinstance(source, GraphSource):
        return source, None
    if isinstance(source, ContextMessage):
        place = GraphSource(source.topic, source.partition, source.offset)
        return place, source.provenance.conversation_id
    raise InvalidError(
        f"source: expected a ContextMessage or a GraphSource, got {type(source).__name__}", argument="source"
    )


def read_start(start: Node | str | Sequence[Node | str]) -> list[str]:
    """The ids that a traversal begins at."""
    values: Sequence[Node | str] = [start] if isinstance(start, Node | str) else _items(start, "start")
    ids = list(dict.fromkeys(node_id_of(value, "start") for value in values))
    if len(ids) > MAX_GRAPH_RESULTS:
        raise LimitError(
            f"start: {len(ids)} nodes, allowed are {MAX_GRAPH_RESULTS}",
            argument="start",
            size=len(ids),
            limit=MAX_GRAPH_RESULTS,
        )
    return ids


def read_hops(hops: Sequence[Hop | str]) -> list[Hop]:
    """The hops of a traversal; a text is the type of edges to follow."""
    found = [hop if isinstance(hop, Hop) else Hop(hop) for hop in _items(hops, "hops")]
    if not found:
        raise InvalidError("hops: there are none; name at least one edge type", argument="hops")
    if len(found) > MAX_GRAPH_DEPTH:
        raise LimitError(
            f"hops: {len(found)} of them, allowed are {MAX_GRAPH_DEPTH}",
            argument="hops",
            size=len(found),
            limit=MAX_GRAPH_DEPTH,
        )
    return found


def check_count(value: int, argument: str, limit: int) -> int:
    """A whole number from 1 to a limit.

    Raises:
        InvalidError: it is not.
    """
    if type(value) is not int or not 1 <= value <= limit:
        raise InvalidError(f"{argument}: {value!r:.40} is not a whole number from 1 to {limit}", argument=argument)
    return value


def _items(values: Iterable[Any], argument: str) -> list[Any]:
    if isinstance(values, str | bytes | Node | Edge) or not isinstance(values, Iterable):
        raise InvalidError(f"{argument}: expected a list, got {type(values).__name__}", argument=argument)
    return list(values)
