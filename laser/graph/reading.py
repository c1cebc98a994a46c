"""What can be asked of a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, overload

from laser.context.catching_up import CatchUpProgress
from laser.context.connection import Connection
from laser.errors import InvalidError
from laser.graph.arguments import check_count, read_hops, read_start
from laser.graph.folding import GraphFold
from laser.graph.walking import Walker
from laser.limits import MAX_GRAPH_DEPTH, MAX_GRAPH_LABEL_BYTES, MAX_GRAPH_RESULTS, MAX_GRAPH_VALUE_BYTES
from laser.model.checks import check_progress
from laser.model.graph import Edge, Moment, Node, check_label, check_moment, check_node_id, check_text, node_id_of
from laser.model.graph_walks import (
    RETURNS,
    Direction,
    GraphExport,
    GraphHit,
    GraphPath,
    GraphReturns,
    Hop,
    Triplet,
    check_direction,
)
from laser.model.messages import SkippedRecord
from laser.ports.clock import Clock, SystemClock
from laser.ports.graph_view import GraphView
from laser.wire.graph import check_graph_name

__all__ = ["GraphReader"]

_LIMIT: Final = 100


class GraphReader:
    """The reading half of ``Graph``."""

    def __init__(self, laser: Connection, name: str, *, clock: Clock | None = None) -> None:
        self._name = check_graph_name(name)
        self._clock = clock or SystemClock()
        self._fold = laser.share("graph", lambda: GraphFold(laser))

    @property
    def name(self) -> str:
        """The graph's name."""
        return self._name

    @property
    def skipped(self) -> tuple[SkippedRecord, ...]:
        """Records of the topic that are none of a graph, or damaged: the first 1,000 that this client came across."""
        return self._fold.skipped

    async def node(self, id: Node | str) -> Node | None:
        """A node as it is known, ``None`` where it is not."""
        key = node_id_of(id, "id")
        found = await self._fold.ask(lambda view: view.nodes(self._name, [key]))
        return found[0] if found else None

    async def find(
        self, label: str | None = None, value: str | None = None, *, after: str | None = None, limit: int = _LIMIT
    ) -> list[Node]:
        """Nodes with this label and this value, by id.

        Args:
            label, value: exact; ``None`` for any. after: go on after this id. limit: 1 to ``MAX_GRAPH_RESULTS``.
        """
        if label is not None:
            check_text(label, "label", MAX_GRAPH_LABEL_BYTES)
        if value is not None:
            check_text(value, "value", MAX_GRAPH_VALUE_BYTES)
        start = None if after is None else check_node_id(after, "after")
        check_count(limit, "limit", MAX_GRAPH_RESULTS)
        return await self._fold.ask(
            lambda view: view.find(self._name, label=label, value=value, after=start, limit=limit)
        )

    async def neighbors(
        self,
        node: Node | str,
        direction: Direction = "out",
        edge_type: str | None = None,
        depth: int = 1,
        *,
        as_of: Moment | None = None,
        limit: int = _LIMIT,
    ) -> list[GraphHit]:
        """The nodes around a node, nearest first, each once, without itself.

        Args:
            direction: ``out`` along edges, ``in`` against them, ``both``.
            edge_type: only over edges of this type. depth: hops, 1 to ``MAX_GRAPH_DEPTH``.
            limit: 1 to ``MAX_GRAPH_RESULTS``.

        Raises:
            LimitError: it takes more than ``MAX_GRAPH_EDGES`` edges to tell.
        """
        key, moment = node_id_of(node, "node"), check_moment(as_of, "as_of")
        check_direction(direction)
        if edge_type is not None:
            check_label(edge_type, "edge_type")
        check_count(depth, "depth", MAX_GRAPH_DEPTH)
        check_count(limit, "limit", MAX_GRAPH_RESULTS)
        now = self._now()
        return await self._fold.ask(
            lambda view: Walker(view, self._name, moment, now, "depth").neighbors(
                key, direction, edge_type, depth, limit
            )
        )

    async def incoming(
        self,
        node: Node | str,
        edge_type: str | None = None,
        depth: int = 1,
        *,
        as_of: Moment | None = None,
        limit: int = _LIMIT,
    ) -> list[GraphHit]:
        """The nodes whose edges lead to a node: ``neighbors`` with the direction ``in``."""
        return await self.neighbors(node, "in", edge_type, depth, as_of=as_of, limit=limit)

    @overload
    async def traverse(
        self,
        start: Node | str | Sequence[Node | str],
        hops: Sequence[Hop | str],
        *,
        as_of: Moment | None = None,
        limit: int = _LIMIT,
        returns: Literal["nodes"] = "nodes",
    ) -> list[Node]: ...

    @overload
    async def traverse(
        self,
        start: Node | str | Sequence[Node | str],
        hops: Sequence[Hop | str],
        *,
        as_of: Moment | None = None,
        limit: int = _LIMIT,
        returns: Literal["edges"],
    ) -> list[Edge]: ...

    @overload
    async def traverse(
        self,
        start: Node | str | Sequence[Node | str],
        hops: Sequence[Hop | str],
        *,
        as_of: Moment | None = None,
        limit: int = _LIMIT,
        returns: Literal["paths"],
    ) -> list[GraphPath]: ...

    @overload
    async def traverse(
        self,
        start: Node | str | Sequence[Node | str],
        hops: Sequence[Hop | str],
        *,
        as_of: Moment | None = None,
        limit: int = _LIMIT,
        returns: Literal["triplets"],
    ) -> list[Triplet]: ...

    async def traverse(
        self,
        start: Node | str | Sequence[Node | str],
        hops: Sequence[Hop | str],
        *,
        as_of: Moment | None = None,
        limit: int = _LIMIT,
        returns: GraphReturns = "nodes",
    ) -> list[Node] | list[Edge] | list[GraphPath] | list[Triplet]:
        """Where hops lead, taken one after another. A way may come back to where it was.

        Args:
            start: one node or several, at most ``MAX_GRAPH_RESULTS``.
            hops: 1 to ``MAX_GRAPH_DEPTH``; a text is the type of edges to follow along.
            limit: results, 1 to ``MAX_GRAPH_RESULTS``.
            returns: ``nodes``: those that are reached with the last hop. Of the ways that take every hop, ``edges``:
                the edges; ``triplets``: the edges with their nodes; ``paths``: each way as a whole.

        Raises:
            LimitError: it takes more than ``MAX_GRAPH_EDGES`` edges to tell.
        """
        ids, steps, moment = read_start(start), read_hops(hops), check_moment(as_of, "as_of")
        check_count(limit, "limit", MAX_GRAPH_RESULTS)
        if returns not in RETURNS:
            raise InvalidError(f"returns: {returns!r:.40} is not one of {', '.join(RETURNS)}", argument="returns")
        now = self._now()
        return await self._fold.ask(
            lambda view: Walker(view, self._name, moment, now, "hops").traverse(ids, steps, limit, returns)
        )

    async def rebuild(self, progress: Callable[[CatchUpProgress], None] | None = None) -> int:
        """Throws the read view of all of the stream's graphs away, and folds it anew from the log.

        Args:
            progress: called after each page, and at the end.

        Returns:
            Records that were read.
        """
        check_progress(progress)
        return await self._fold.rebuild(progress)

    async def export(self) -> GraphExport:
        """The whole graph, in memory: every node, and every edge with all its stretches of time."""
        return await self._fold.ask(self._export)

    async def _export(self, view: GraphView) -> GraphExport:
        nodes: list[Node] = []
        while page := await view.find(
            self._name, label=None, value=None, after=nodes[-1].id if nodes else None, limit=MAX_GRAPH_RESULTS
        ):
            nodes += page
        edges: list[Edge] = []
        while stretches := await view.edges(self._name, after=edges[-1].id if edges else None, limit=MAX_GRAPH_RESULTS):
            edges += stretches
        return GraphExport(self._name, tuple(nodes), tuple(edges))

    def _now(self) -> int:
        return self._clock.now_micros()

    def __repr__(self) -> str:
        return f"Graph({self._name!r})"
