"""A knowledge graph, as users see it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from laser.context.connection import Connection
from laser.graph.arguments import read_edges, read_nodes, read_source, read_stretch
from laser.graph.reading import GraphReader
from laser.limits import MAX_GRAPH_WRITE
from laser.model.graph import Edge, GraphSource, Moment, Node, check_label, check_moment, node_id_of, node_of
from laser.model.graph_change import EdgeFact, GraphWrite
from laser.model.messages import ContextMessage
from laser.ports.clock import Clock
from laser.ports.graph_view import GraphView

__all__ = ["Graph"]

# A relinking closes so many edges a record; the nodes and the new edge go with the first one.
_CLOSE: Final = MAX_GRAPH_WRITE - 3


class Graph(GraphReader):
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
        super().__init__(laser, name, clock=clock)
        self._conversation = conversation

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
