"""Walks through a graph, layer by layer, in bounded work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from laser.errors import LimitError
from laser.limits import MAX_GRAPH_EDGES
from laser.model.graph import Edge, Node
from laser.model.graph_walks import Direction, GraphHit, GraphPath, GraphReturns, Hop, Triplet
from laser.ports.graph_view import GraphView

__all__ = ["Walk", "Walker"]


class Step(msgspec.Struct, frozen=True, gc=False):
    """An edge, followed from one of its ends to the other."""

    start: str
    edge: Edge
    end: str


_END: Final = Step("", Edge("0" * 26, "-", "0" * 26), "")


class Walker:
    """Reads edges of one graph as of one moment, ``MAX_GRAPH_EDGES`` at most in all.

    Args:
        argument: what to name when that is not enough.
    """

    def __init__(self, view: GraphView, graph: str, as_of: int | None, now: int, argument: str) -> None:
        self._view = view
        self._graph = graph
        self._moment = (as_of, now)
        self._argument = argument
        self._left = MAX_GRAPH_EDGES

    async def neighbors(
        self, start: str, direction: Direction, type_: str | None, depth: int, limit: int
    ) -> list[GraphHit]:
        """The nodes around a node, nearest first, without itself."""
        hop = Hop(type_, direction)
        reached: dict[str, tuple[int, Edge]] = {}
        frontier = [start]

        def new(steps: list[Step]) -> dict[str, Edge]:
            found: dict[str, Edge] = {}
            for step in steps:
                if step.end != start and step.end not in reached:
                    found.setdefault(step.end, step.edge)
            return found

        def enough(steps: list[Step]) -> bool:
            return len(reached) + len(new(steps)) >= limit

        for level in range(1, depth + 1):
            fresh = new(await self.steps(frontier, hop, enough))
            reached.update((key, (level, edge)) for key, edge in fresh.items())
            frontier = list(fresh)
            if not frontier or len(reached) >= limit:
                break
        nodes = await self.nodes(list(reached)[:limit])
        return [GraphHit(nodes[key], *reached[key]) for key in list(reached)[:limit] if key in nodes]

    async def walk(self, start: Sequence[str], hops: Sequence[Hop], enough: Callable[[list[Step]], bool]) -> Walk:
        """Every way that takes the hops one after another.

        Args:
            enough: when the steps of the last hop suffice.
        """
        layers: list[list[Step]] = []
        frontier = list(start)
        for place, hop in enumerate(hops):
            # With a label it takes the nodes to tell how many steps count.
            last = place == len(hops) - 1 and hop.label is None
            steps = await self.steps(frontier, hop, enough if last else None)
            if hop.label is not None:
                nodes = await self.nodes(list(dict.fromkeys(step.end for step in steps)))
                steps = [step for step in steps if step.end in nodes and nodes[step.end].label == hop.label]
            layers.append(steps)
            frontier = list(dict.fromkeys(step.end for step in steps))
        return Walk(layers)

    async def traverse(
        self, start: Sequence[str], hops: Sequence[Hop], limit: int, returns: GraphReturns
    ) -> list[Node] | list[Edge] | list[GraphPath] | list[Triplet]:
        """What ``Graph.traverse`` returns."""
        if returns == "nodes":
            ends = (await self.walk(start, hops, lambda last: len({step.end for step in last}) >= limit)).ends(limit)
            nodes = await self.nodes(ends)
            return [nodes[key] for key in ends if key in nodes]
        walk = await self.walk(start, hops, lambda last: len(last) >= 2 * limit)
        if returns == "edges":
            return walk.edges(limit)
        if returns == "triplets":
            edges = walk.edges(limit)
            return walk.triplets(limit, await self.nodes([key for edge in edges for key in (edge.source, edge.target)]))
        ways = walk.ways(limit)
        passed = await self.nodes([key for way in ways for step in way for key in (step.start, step.end)])
        paths = [walk.path(way, passed) for way in ways]
        return [path for path in paths if path is not None]

    async def steps(
        self, frontier: Sequence[str], hop: Hop, enough: Callable[[list[Step]], bool] | None = None
    ) -> list[Step]:
        """The steps of a hop from some nodes.

        Args:
            enough: when some of them suffice; ``None`` for all.

        Raises:
            LimitError: there are too many.
        """
        if not frontier:
            return []
        count = self._left if enough is None else min(256, self._left)
        while True:
            edges = await self._view.edges_of(
                self._graph,
                frontier,
                direction=hop.direction,
                types=None if hop.type is None else [hop.type],
                as_of=self._moment[0],
                now=self._moment[1],
                limit=count + 1,
            )
            steps = list(_follow(edges, frontier, hop.direction))
            if len(edges) <= count or (enough is not None and enough(steps)):
                self._left -= min(len(edges), self._left)
                return steps
            if count == self._left:
                raise LimitError(
                    f"{self._argument}: leads over more than {MAX_GRAPH_EDGES} edges; name edge types, or go less far",
                    argument=self._argument,
                    size=MAX_GRAPH_EDGES + 1,
                    limit=MAX_GRAPH_EDGES,
                )
            count = min(4 * count, self._left)

    async def nodes(self, ids: Sequence[str]) -> dict[str, Node]:
        """Nodes by id."""
        return {node.id: node for node in await self._view.nodes(self._graph, ids)} if ids else {}


class Walk:
    """The ways of a traversal, as layers of steps: those of each hop that are part of a whole way."""

    def __init__(self, layers: list[list[Step]]) -> None:
        for place in range(len(layers) - 2, -1, -1):
            onward = {step.start for step in layers[place + 1]}
            layers[place] = [step for step in layers[place] if step.end in onward]
        self._layers = layers

    def ends(self, limit: int) -> list[str]:
        """Where the ways end, each node once."""
        return list(dict.fromkeys(step.end for step in self._layers[-1]))[:limit]

    def edges(self, limit: int) -> list[Edge]:
        """The edges that the ways take, each once, those of the first hop first."""
        found: dict[tuple[str, str, str], Edge] = {}
        for layer in self._layers:
            for step in layer:
                found.setdefault((step.edge.source, step.edge.type, step.edge.target), step.edge)
                if len(found) == limit:
                    return list(found.values())
        return list(found.values())

    def triplets(self, limit: int, nodes: dict[str, Node]) -> list[Triplet]:
        """The same edges with their nodes."""
        return [
            Triplet(nodes[edge.source], edge, nodes[edge.target])
            for edge in self.edges(limit)
            if edge.source in nodes and edge.target in nodes
        ]

    def ways(self, limit: int) -> list[list[Step]]:
        """The first ways, step by step."""
        onward: list[dict[str, list[Step]]] = []
        for layer in self._layers:
            by_start: dict[str, list[Step]] = {}
            for step in layer:
                by_start.setdefault(step.start, []).append(step)
            onward.append(by_start)
        found: list[list[Step]] = []
        stack: list[Iterator[Step]] = [iter(self._layers[0])]
        way: list[Step] = []
        # No dead ends are left, so every step that is tried is part of a way that is returned.
        while stack and len(found) < limit:
            step = next(stack[-1], _END)
            if step is _END:
                stack.pop()
                if way:
                    way.pop()
            elif len(stack) == len(self._layers):
                found.append([*way, step])
            else:
                way.append(step)
                stack.append(iter(onward[len(stack)][step.end]))
        return found

    @staticmethod
    def path(way: Sequence[Step], nodes: dict[str, Node]) -> GraphPath | None:
        """A way with its nodes; ``None`` where one of them has gone meanwhile."""
        ids = [way[0].start, *(step.end for step in way)]
        if not all(key in nodes for key in ids):
            return None
        return GraphPath(tuple(nodes[key] for key in ids), tuple(step.edge for step in way))


def _follow(edges: Sequence[Edge], frontier: Sequence[str], direction: Direction) -> Iterator[Step]:
    there = set(frontier)
    for edge in edges:
        if direction != "in" and edge.source in there:
            yield Step(edge.source, edge, edge.target)
        # An edge from a node to itself is one step, whichever way it is taken.
        if direction != "out" and edge.target in there and (direction == "in" or edge.source != edge.target):
            yield Step(edge.target, edge, edge.source)
