"""A knowledge graph, as users see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, Literal, overload

from laser.context.catching_up import CatchUpProgress
from laser.context.connection import Connection
from laser.errors import InvalidError
from laser.graph.arguments import (
    check_count,
    read_edges,
    read_hops,
    read_nodes,
    read_source,
    read_start,
    read_stretch,
)
from laser.graph.folding import GraphFold
from laser.graph.walking import Walker
from laser.limits import (
    MAX_GRAPH_DEPTH,
    MAX_GRAPH_LABEL_BYTES,
    MAX_GRAPH_RESULTS,
    MAX_GRAPH_VALUE_BYTES,
    MAX_GRAPH_WRITE,
)
from laser.model.graph import (
    Edge,
    GraphSource,
    Moment,
    Node,
    check_label,
    check_moment,
    check_node_id,
    check_text,
    node_id_of,
    node_of,
)
from laser.model.graph_change import EdgeFact, GraphWrite
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
from laser.model.messages import ContextMessage, SkippedRecord
from laser.ports.clock import Clock, SystemClock
from laser.ports.graph_view import GraphView
from laser.wire.graph import check_graph_name

__all__ = ["Graph"]

_LIMIT: Final = 100
# A relinking closes so many edges a record; the nodes and the new edge go with the first one.
_CLOSE: Final = MAX_GRAPH_WRITE - 3


class Graph:
    """A graph of what agents know: nodes, and edges that hold for stretches of time.

    ``Laser.graph`` and ``ContextScope.graph`` make it, without any I/O. It is folded from the topic ``agent.graph`` of
    the stream, which the first write creates; graphs of other names and streams are apart.

    A node is given as a ``Node``, as its id, or as a text such as ``Person:Alice`` (label, colon, value). A moment is
    given in microseconds since 1970 UTC or as a ``datetime`` with a time zone.

    **Writes** converge: writing the same again changes nothing. Of two writes about the same thing the newest holds,
    by the broker's time. After ``AppendIndeterminateError`` write again. **Reads** first catch up with the log, so that
    they see everything that was written before. They tell what holds at the moment ``as_of``; without one, now.

    **Errors of every method.** ``InvalidError`` and ``LimitError`` name a bad argument; nothing was read or written.
    Others as the log, or the read view, says.
    """

    def __init__(
        self, laser: Connection, name: str, conversation: str | None = None, *, clock: Clock | None = None
    ) -> None:
        self._name = check_graph_name(name)
        self._conversation = conversation
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

    async def upsert(
        self,
        nodes: Iterable[Node | str] = (),
        edges: Iterable[Edge] = (),
        *,
        source: ContextMessage | GraphSource | None = None,
        valid_from: Moment | None = None,
        valid_to: Moment | None = None,
    ) -> None:
        """Writes nodes and edges, all in one record; nothing writes nothing.

        Attributes are merged, and ``None`` removes one. An edge gets the weight and the stretch of time that are given
        here, instead of those it had; it is found once both its nodes are there.

        Args:
            nodes, edges: at most ``MAX_GRAPH_WRITE`` together.
            source: the message that it was learnt from; without a scope it also names the conversation.
            valid_from, valid_to: when edges hold that have no bound of their own.
        """
        start, end = read_stretch(valid_from, valid_to)
        await self._write(read_nodes(nodes), read_edges(edges, start, end), source)

    async def link(
        self,
        from_: Node | str,
        relation: str,
        to: Node | str,
        *,
        weight: float = 1.0,
        valid_from: Moment | None = None,
        valid_to: Moment | None = None,
        source: ContextMessage | GraphSource | None = None,
    ) -> str:
        """Relates two things, and makes sure that both are there.

        A relation that holds already stays as it is. One that had ended holds again from now on, and its earlier
        stretches of time stay.

        Args:
            from_, to: nodes, or texts such as ``Person:Alice``; an id alone does not say what it stands for.
            weight: of an edge that is new. valid_from, valid_to: a further stretch of time; without them, for ever.

        Returns:
            The edge's id.
        """
        nodes = node_of(from_, "from_"), node_of(to, "to")
        edge = Edge(nodes[0].id, check_label(relation, "relation"), nodes[1].id, weight)
        start, end = read_stretch(valid_from, valid_to)
        read_source(source)
        known = await self._stretches(edge, None, None)
        facts = [EdgeFact(edge.source, edge.type, edge.target, None if known else edge.weight, start, end)]
        if known and start is None and end is None:
            holding = await self._stretches(edge, None, self._now())
            facts = [_same(holding[-1]) if holding else _open(edge, None, new=False)]
            if holding and source is None and self._conversation is None:
                facts = []  # nothing is new, and who said it before is worth more than nobody
        await self._write(read_nodes(nodes), facts, source)
        return edge.id

    async def unlink(
        self,
        from_: Node | str,
        relation: str,
        to: Node | str,
        *,
        at: Moment | None = None,
        source: ContextMessage | GraphSource | None = None,
    ) -> bool:
        """Ends a relation: it held until now. Its nodes stay, and so does what it was.

        Args:
            at: until when; ``None`` for now.

        Returns:
            Whether it held.
        """
        edge = Edge(node_id_of(from_, "from_"), check_label(relation, "relation"), node_id_of(to, "to"))
        moment = check_moment(at, "at")
        read_source(source)
        holding = await self._stretches(edge, moment, self._now())
        for at_once in range(0, len(holding), MAX_GRAPH_WRITE):
            facts = [_close(stretch, moment) for stretch in holding[at_once : at_once + MAX_GRAPH_WRITE]]
            await self._write((), facts, source)
        return bool(holding)

    async def relink(
        self,
        from_: Node | str,
        relation: str,
        to: Node | str,
        *,
        at: Moment | None = None,
        source: ContextMessage | GraphSource | None = None,
    ) -> int:
        """Says the newest value of a relation that has one at a time: ends the others, and opens this one.

        When two do so at the same time, the one whose record comes later stands.

        Args:
            from_, to: as in ``link``. at: from when; ``None`` for now.

        Returns:
            How many edges to others were ended.
        """
        nodes = node_of(from_, "from_"), node_of(to, "to")
        edge = Edge(nodes[0].id, check_label(relation, "relation"), nodes[1].id)
        moment = check_moment(at, "at")
        read_source(source)
        ended: set[str] = set()
        written = False
        while True:
            now = self._now()
            others, own = await self._fold.ask(partial(self._rivals, edge, moment, now))
            if written:
                # Somebody else may have relinked meanwhile. What was asserted after ours ends ours, not the reverse.
                others = [other for other in others if own and _place(other) < _place(own[-1])]
            if written and not others:
                return len(ended)
            closing = await self._stretches(others, moment, now)
            facts = [_close(stretch, moment) for stretch in closing][:_CLOSE]
            if not written:
                known = await self._stretches(edge, None, None)
                facts.append(_same(own[-1]) if own else _open(edge, moment, new=not known))
            await self._write(() if written else read_nodes(nodes), facts, source)
            ended.update(other.id for other in others)
            written = True

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
        return await self._fold.ask(lambda view: self._walk(view, ids, steps, moment, now, limit, returns))

    async def rebuild(self, progress: Callable[[CatchUpProgress], None] | None = None) -> int:
        """Throws the read view of all of the stream's graphs away, and folds it anew from the log.

        Args:
            progress: called after each page, and at the end.

        Returns:
            Records that were read.
        """
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

    async def _walk(
        self,
        view: GraphView,
        ids: list[str],
        steps: list[Hop],
        moment: int | None,
        now: int,
        limit: int,
        returns: GraphReturns,
    ) -> list[Node] | list[Edge] | list[GraphPath] | list[Triplet]:
        walker = Walker(view, self._name, moment, now, "hops")
        if returns == "nodes":
            ends = (await walker.walk(ids, steps, lambda last: len({step.end for step in last}) >= limit)).ends(limit)
            nodes = await walker.nodes(ends)
            return [nodes[key] for key in ends if key in nodes]
        walk = await walker.walk(ids, steps, lambda last: len(last) >= 2 * limit)
        if returns == "edges":
            return walk.edges(limit)
        if returns == "triplets":
            edges = walk.edges(limit)
            return walk.triplets(
                limit, await walker.nodes([key for edge in edges for key in (edge.source, edge.target)])
            )
        ways = walk.ways(limit)
        passed = await walker.nodes([key for way in ways for step in way for key in (step.start, step.end)])
        paths = [walk.path(way, passed) for way in ways]
        return [path for path in paths if path is not None]

    async def _rivals(self, edge: Edge, moment: int | None, now: int, view: GraphView) -> tuple[list[Edge], list[Edge]]:
        """Edges of the same relation to other nodes that hold, and the stretches of this one that do."""
        others = await view.edges_of(
            self._name,
            [edge.source],
            direction="out",
            types=[edge.type],
            as_of=moment,
            now=now,
            limit=_CLOSE + 1,
        )
        own = await view.stretches(self._name, [edge.id], as_of=moment, now=now)
        return [other for other in others if other.target != edge.target][:_CLOSE], own

    async def _stretches(self, edges: Edge | list[Edge], as_of: int | None, now: int | None) -> list[Edge]:
        ids = [edge.id for edge in ([edges] if isinstance(edges, Edge) else edges)]
        return await self._fold.ask(lambda view: view.stretches(self._name, ids, as_of=as_of, now=now))

    async def _write(
        self, nodes: Sequence[Node], edges: Sequence[EdgeFact], source: ContextMessage | GraphSource | None
    ) -> None:
        place, said_in = read_source(source)
        if nodes or edges:
            write = GraphWrite(self._name, tuple(nodes), tuple(edges), place)
            await self._fold.write(write, self._conversation or said_in)

    def _now(self) -> int:
        return self._clock.now_micros()

    def __repr__(self) -> str:
        return f"Graph({self._name!r})"


def _open(edge: Edge, at: int | None, *, new: bool) -> EdgeFact:
    """A stretch from a moment on, ``None`` for now; of an edge that is new also the edge."""
    weight = edge.weight if new else None
    return EdgeFact(edge.source, edge.type, edge.target, weight, at, starts_now=at is None)


def _close(stretch: Edge, at: int | None) -> EdgeFact:
    """The end of a stretch at a moment, ``None`` for now."""
    return EdgeFact(stretch.source, stretch.type, stretch.target, None, stretch.valid_from, at, ends_now=at is None)


def _same(stretch: Edge) -> EdgeFact:
    """A stretch as it is, said once more."""
    return EdgeFact(stretch.source, stretch.type, stretch.target, None, stretch.valid_from, stretch.valid_to)


def _place(edge: Edge) -> tuple[int, int, int]:
    by = edge.asserted
    return (0, 0, 0) if by is None else (by.timestamp_micros, by.partition, by.offset)
