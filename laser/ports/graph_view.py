"""The read view of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from laser.model.graph import Edge, Node
from laser.model.graph_change import GraphChange
from laser.model.graph_walks import Direction
from laser.ports.views import View

__all__ = ["GraphView"]


class GraphView(View[GraphChange], Protocol):
    """The graphs of one topic, folded.

    Of several records that say something about the same thing, the newest holds: by the broker's time, then
    partition, then offset. An edge is there while both its nodes are.
    """

    async def nodes(self, graph: str, ids: Sequence[str]) -> list[Node]:
        """Those of the nodes that are there, by id."""
        ...

    async def find(
        self, graph: str, *, label: str | None, value: str | None, after: str | None, limit: int
    ) -> list[Node]:
        """Nodes with this label and this value, by id.

        Args:
            label, value: exact; ``None`` for any. after: only ids greater than this one.
        """
        ...

    async def edges_of(
        self,
        graph: str,
        ids: Sequence[str],
        *,
        direction: Direction,
        types: Sequence[str] | None,
        as_of: int | None,
        now: int,
        limit: int,
    ) -> list[Edge]:
        """Edges at these nodes that hold at a moment, each once: node by node, of each by type, then id.

        Args:
            direction: ``out``: that begin there; ``in``: that end there; ``both``: either.
            types: of these types; ``None`` for any.
            as_of: the moment; ``None`` for ``now``, and then what a record opened or closed when it was written is
                open or closed, however the reader's clock differs from the broker's.
            limit: the most edges.
        """
        ...

    async def stretches(self, graph: str, ids: Sequence[str], *, as_of: int | None, now: int | None) -> list[Edge]:
        """Stretches of time of these edges, by id, then start, whether their nodes are there or not.

        Args:
            as_of, now: only those that hold at the moment, as in ``edges_of``; ``now=None`` for all.
        """
        ...

    async def edges(self, graph: str, *, after: str | None, limit: int) -> list[Edge]:
        """Every stretch of time of the first edges, by id, then start.

        Args:
            after: only edges with an id greater than this one. limit: of edges, not of stretches.
        """
        ...
