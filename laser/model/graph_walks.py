"""What a walk through a graph is asked for and what it gives."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from laser.errors import InvalidError
from laser.model.graph import Edge, Node, check_label

__all__ = [
    "DIRECTIONS",
    "RETURNS",
    "Direction",
    "GraphExport",
    "GraphHit",
    "GraphPath",
    "GraphReturns",
    "Hop",
    "Triplet",
    "check_direction",
]

Direction = Literal["out", "in", "both"]
"""Which way edges are followed: as they lead, against it, or either way."""

DIRECTIONS: Final[tuple[Direction, ...]] = ("out", "in", "both")

GraphReturns = Literal["nodes", "edges", "paths", "triplets"]
"""What a traversal returns."""

RETURNS: Final[tuple[GraphReturns, ...]] = ("nodes", "edges", "paths", "triplets")


class Hop(msgspec.Struct, frozen=True, gc=False):
    """One step of a traversal.

    Args:
        type: follow edges of this type; ``None`` for any.
        direction: ``out``, ``in`` or ``both``.
        label: arrive at nodes with this label; ``None`` for any.

    Raises:
        InvalidError: a bad value.
    """

    type: str | None = None
    direction: Direction = "out"
    label: str | None = None

    def __post_init__(self) -> None:
        if self.type is not None:
            check_label(self.type, "type")
        if self.label is not None:
            check_label(self.label, "label")
        check_direction(self.direction)


class GraphHit(msgspec.Struct, frozen=True):
    """A neighbour.

    Attributes:
        node: the node. depth: how many hops away, from 1. edge: the last edge of a shortest way there.
    """

    node: Node
    depth: int
    edge: Edge


class GraphPath(msgspec.Struct, frozen=True):
    """A way through a graph.

    Attributes:
        nodes: from the start to the end. edges: the edges between them, one fewer.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


class Triplet(msgspec.Struct, frozen=True):
    """An edge together with its nodes; it leads from ``source`` to ``target``."""

    source: Node
    edge: Edge
    target: Node


class GraphExport(msgspec.Struct, frozen=True):
    """A whole graph.

    Attributes:
        name: the graph's.
        nodes: by id. edges: by id, then by when they begin; one that was true in several stretches stands once for
            each. Edges of which a node is not there are left out.
    """

    name: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def check_direction(value: str, argument: str = "direction") -> None:
    """Refuses anything but a ``Direction``.

    Raises:
        InvalidError: so it is.
    """
    if value not in DIRECTIONS:
        raise InvalidError(f"{argument}: {value!r:.40} is not one of {', '.join(DIRECTIONS)}", argument=argument)
