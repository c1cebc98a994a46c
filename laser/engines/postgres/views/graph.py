"""The read view of graphs on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from psycopg import ServerCursor

from laser.engines._graph_cells import EDGE, NODE, Cell, holds, merge_edge, merge_node
from laser.engines._remote import Remote
from laser.engines.postgres.driver import Connection
from laser.engines.postgres.views.graph_writing import forget_all, space_number, trim_records, write_changes
from laser.engines.postgres.views.positions import Positions
from laser.model.graph import Edge, Node
from laser.model.graph_change import GraphChange
from laser.model.graph_walks import Direction

__all__ = ["PostgresGraphView"]

T = TypeVar("T")

# OFFSET 0 and LIMIT 1 make the server look each row up by an index. Left to itself it reads whole tables while it has
# no statistics of them, that is for some time after much was written.
_CELLS: Final = """
SELECT c.id, c.field, c.at, c.part, c.off, c.value FROM unnest(%s::text[]) AS k(id)
CROSS JOIN LATERAL (SELECT * FROM laser.graph_cells WHERE space = %s AND kind = %s AND id = k.id OFFSET 0) c
"""
_BY_ID: Final = """
SELECT e.{columns} FROM unnest(%(ids)s::text[]) WITH ORDINALITY AS k(id, place)
CROSS JOIN LATERAL (SELECT * FROM laser.{table} WHERE space = %(space)s AND id = k.id OFFSET 0) e ORDER BY k.place
"""
_NODES_BY_ID: Final = _BY_ID.format(columns="id, e.label, e.value", table="graph_nodes")
_EDGES_BY_ID: Final = _BY_ID.format(columns="id, e.source, e.type, e.target", table="graph_edges")
_NODES: Final = "SELECT id, label, value FROM laser.graph_nodes WHERE space = %(space)s AND id > %(after)s"
# By whether a label and a value are wanted.
_FIND: Final = {
    (label, value): f"{_NODES}{' AND label = %(label)s' if label else ''}{' AND value = %(value)s' if value else ''}"
    " ORDER BY id"
    for label in (False, True)
    for value in (False, True)
}
_EDGES: Final = "SELECT e.id, e.source, e.type, e.target FROM"
_BOTH_THERE: Final = """
(SELECT true FROM laser.graph_nodes n WHERE n.space = %(space)s AND n.id = e.source LIMIT 1)
AND (SELECT true FROM laser.graph_nodes n WHERE n.space = %(space)s AND n.id = e.target LIMIT 1)
"""
_ALL_EDGES: Final = (
    f"{_EDGES} laser.graph_edges e WHERE e.space = %(space)s AND e.id > %(after)s AND {_BOTH_THERE} ORDER BY e.id"
)
_ANY_TYPE: Final = """
SELECT k.place, {way}, 0::bigint, e.type, e.id, e.source, e.target
FROM unnest(%(ids)s::text[]) WITH ORDINALITY AS k(id, place)
CROSS JOIN LATERAL (SELECT * FROM laser.graph_edges WHERE space = %(space)s AND {end} = k.id OFFSET 0) e
"""
_SOME_TYPES: Final = """
SELECT k.place, {way}, t.place, e.type, e.id, e.source, e.target
FROM unnest(%(ids)s::text[]) WITH ORDINALITY AS k(id, place)
CROSS JOIN unnest(%(types)s::bytea[]) WITH ORDINALITY AS t(type, place)
CROSS JOIN LATERAL (
    SELECT * FROM laser.graph_edges WHERE space = %(space)s AND {end} = k.id AND type = t.type OFFSET 0
) e
"""
_IN_ORDER: Final = """
SELECT * FROM ({parts}) AS u(k, way, t, type, id, source, target) ORDER BY k, way, t, type, id OFFSET 0
"""
_ENDS: Final[dict[Direction, tuple[str, ...]]] = {"out": ("source",), "in": ("target",), "both": ("source", "target")}


def _at(direction: Direction, typed: bool) -> str:
    """A question for the edges at some nodes: node by node, outgoing ones first, of each by type, then id."""
    one = _SOME_TYPES if typed else _ANY_TYPE
    parts = " UNION ALL ".join(one.format(way=way, end=end) for way, end in enumerate(_ENDS[direction]))
    return f"{_EDGES} ({_IN_ORDER.format(parts=parts)}) e WHERE {_BOTH_THERE}"


_AT: Final = {(direction, typed): _at(direction, typed) for direction in _ENDS for typed in (False, True)}
# Nodes or edges at once.
_BATCH: Final = 500


class PostgresGraphView:
    """The graphs of one topic. See ``GraphView``."""

    def __init__(self, remote: Remote[Connection], stream: str, topic: str) -> None:
        self._place = (stream, topic)
        self._positions = Positions(remote, "graph", self._place)

    async def position(self) -> str | None:
        """See ``View.position``."""
        return await self._positions.get()

    async def apply(
        self, changes: Sequence[GraphChange], *, firsts: Mapping[int, int], expect: str | None, position: str
    ) -> bool:
        """See ``View.apply``."""
        return await self._positions.move(
            lambda connection: write_changes(connection, self._place, changes),
            lambda connection, kept: trim_records(connection, self._place, kept),
            firsts,
            expect=expect,
            position=position,
        )

    async def clear(self, *, expect: str | None) -> None:
        """See ``View.clear``."""
        await self._positions.clear(lambda connection: forget_all(connection, self._place), expect=expect)

    async def nodes(self, graph: str, ids: Sequence[str]) -> list[Node]:
        """See ``GraphView.nodes``."""
        wanted = sorted(set(ids))
        return await self._asked(graph, lambda graph: graph.nodes(_NODES_BY_ID, {"ids": wanted}, len(wanted)))

    async def find(
        self, graph: str, *, label: str | None, value: str | None, after: str | None, limit: int
    ) -> list[Node]:
        """See ``GraphView.find``."""
        wanted: dict[str, Any] = {"after": after or ""}
        wanted |= {name: text.encode() for name, text in (("label", label), ("value", value)) if text is not None}
        statement = _FIND[label is not None, value is not None]
        return await self._asked(graph, lambda graph: graph.nodes(statement, wanted, limit))

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
        """See ``GraphView.edges_of``."""
        wanted: dict[str, Any] = {"ids": list(dict.fromkeys(ids))}
        if types is not None:
            wanted["types"] = [name.encode() for name in dict.fromkeys(types)]

        def run(graph: _Graph) -> list[Edge]:
            found: dict[tuple[str, str, str], Edge] = {}

            def take(stretches: Sequence[Edge]) -> bool:
                holding = [edge for edge in stretches if holds(edge, as_of, now)]
                if holding:
                    edge = holding[-1]
                    found.setdefault((edge.source, edge.type, edge.target), edge)
                return len(found) >= limit

            graph.edges(_AT[direction, types is not None], wanted, take)
            return list(found.values())

        return await self._asked(graph, run)

    async def stretches(self, graph: str, ids: Sequence[str], *, as_of: int | None, now: int | None) -> list[Edge]:
        """See ``GraphView.stretches``."""
        wanted = {"ids": sorted(set(ids))}

        def run(graph: _Graph) -> list[Edge]:
            found: list[Edge] = []

            def take(stretches: Sequence[Edge]) -> bool:
                found.extend(edge for edge in stretches if now is None or holds(edge, as_of, now))
                return False

            graph.edges(_EDGES_BY_ID, wanted, take)
            return found

        return await self._asked(graph, run)

    async def edges(self, graph: str, *, after: str | None, limit: int) -> list[Edge]:
        """See ``GraphView.edges``."""

        def run(graph: _Graph) -> list[Edge]:
            found: list[Sequence[Edge]] = []

            def take(stretches: Sequence[Edge]) -> bool:
                found.append(stretches)
                return len(found) >= limit

            graph.edges(_ALL_EDGES, {"after": after or ""}, take)
            return [edge for stretches in found for edge in stretches]

        return await self._asked(graph, run)

    async def _asked(self, graph: str, run: Callable[[_Graph], list[T]]) -> list[T]:
        def ask(connection: Connection) -> list[T]:
            space = space_number(connection, self._place, graph)
            return [] if space is None else run(_Graph(connection, space))

        return await self._positions.read(ask)


class _Graph:
    """A graph in one transaction. Of long answers no more is fetched than is wanted."""

    def __init__(self, connection: Connection, space: int) -> None:
        self._connection = connection
        self._space = space

    def nodes(self, statement: str, values: Mapping[str, Any], limit: int) -> list[Node]:
        """The first nodes of an answer."""
        found: list[Node] = []
        with self._cursor(statement, values) as rows:
            while len(found) < limit and (batch := rows.fetchmany(min(_BATCH, limit - len(found)))):
                cells = self._cells(NODE, [row[0] for row in batch])
                nodes = (merge_node(label.decode(), text.decode(), cells.get(key, ())) for key, label, text in batch)
                found += (node for node in nodes if node is not None)
        return found

    def edges(self, statement: str, values: Mapping[str, Any], take: Callable[[Sequence[Edge]], bool]) -> None:
        """Gives the stretches of one edge after another.

        Args:
            take: says whether it has enough.
        """
        with self._cursor(statement, values) as rows:
            while batch := rows.fetchmany(_BATCH):
                cells = self._cells(EDGE, [row[0] for row in batch])
                for key, source, type_, target in batch:
                    stretches = merge_edge(source, type_.decode(), target, cells.get(key, ()))
                    if stretches and take(stretches):
                        return

    def _cursor(self, statement: str, values: Mapping[str, Any]) -> ServerCursor[tuple[Any, ...]]:
        cursor = self._connection.cursor(name="laser_graph", binary=True)
        return cursor.execute(statement, {**values, "space": self._space})

    def _cells(self, kind: int, ids: Sequence[str]) -> dict[str, list[Cell]]:
        cursor = self._connection.cursor(binary=True)
        found: dict[str, list[Cell]] = {}
        for key, field, at, part, off, value in cursor.execute(_CELLS, (list(ids), self._space, kind)):
            found.setdefault(key, []).append((field.decode(), at, part, off, value))
        return found
