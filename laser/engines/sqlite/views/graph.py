"""The read view of graphs on SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from laser.engines._graph_cells import holds, merge_edge, merge_node
from laser.engines.sqlite.views.database import ViewDatabase
from laser.engines.sqlite.views.graph_writing import forget_all, trim_records, write_changes
from laser.engines.sqlite.views.positions import Positions
from laser.model.graph import Edge, Node
from laser.model.graph_change import GraphChange
from laser.model.graph_walks import Direction

__all__ = ["SqliteGraphView"]

_SPACE: Final = """
SELECT graph_spaces.id FROM graph_spaces JOIN graph_places ON graph_places.id = graph_spaces.place
WHERE stream = ? AND topic = ? AND graph = ?
"""
# CROSS JOIN: nodes and edges come first, so that their cells stand together. INDEXED BY: without statistics the planner
# would rather walk a whole graph in the order of ids than sort. The plus signs: "id > ?" is for the first table alone,
# or for each of its rows all cells above it would be looked through.
_NODE_COLUMNS: Final = """
SELECT n.id, n.label, n.value, c.field, c.timestamp, c.partition, c."offset", c.value FROM graph_nodes n
"""
_NODE_CELLS: Final = """
CROSS JOIN graph_cells c ON c.space = n.space AND c.kind = 0 AND c.id = +n.id WHERE n.space = ?
"""
_NODE: Final = f"{_NODE_COLUMNS} {_NODE_CELLS} AND n.id = ?"
_BY_LABEL: Final = f"{_NODE_COLUMNS} INDEXED BY graph_nodes_by_label {_NODE_CELLS}"
_BY_VALUE: Final = f"{_NODE_COLUMNS} INDEXED BY graph_nodes_by_value {_NODE_CELLS}"
# By whether a label and a value are wanted.
_FIND: Final = {
    (False, False): f"{_NODE_COLUMNS} {_NODE_CELLS} AND n.id > ? ORDER BY n.id",
    (True, False): f"{_BY_LABEL} AND n.id > ? AND n.label = ? ORDER BY n.id",
    (False, True): f"{_BY_VALUE} AND n.id > ? AND n.value = ? ORDER BY n.id",
    (True, True): f"{_BY_VALUE} AND n.id > ? AND n.label = ? AND n.value = ? ORDER BY n.id",
}
_EDGE_COLUMNS: Final = """
SELECT e.id, e.source, e.type, e.target, c.field, c.timestamp, c.partition, c."offset", c.value FROM graph_edges e
"""
_EDGE_CELLS: Final = """
CROSS JOIN graph_cells c ON c.space = e.space AND c.kind = 1 AND c.id = +e.id WHERE e.space = ?
"""
_BOTH_THERE: Final = """
AND EXISTS (SELECT 1 FROM graph_nodes WHERE space = e.space AND id = e.source)
AND EXISTS (SELECT 1 FROM graph_nodes WHERE space = e.space AND id = e.target)
"""
_EDGE: Final = f"{_EDGE_COLUMNS} {_EDGE_CELLS} AND e.id = ?"
_ALL_EDGES: Final = f"{_EDGE_COLUMNS} {_EDGE_CELLS} AND e.id > ? {_BOTH_THERE} ORDER BY e.id"
_OUT: Final = f"{_EDGE_COLUMNS} INDEXED BY graph_edges_out {_EDGE_CELLS} AND e.source = ?"
_IN: Final = f"{_EDGE_COLUMNS} INDEXED BY graph_edges_in {_EDGE_CELLS} AND e.target = ?"
# By direction: at either end of an edge, of any type and of one type.
_AT_SOURCE: Final = (
    f"{_OUT} {_BOTH_THERE} ORDER BY e.type, e.id",
    f"{_OUT} AND e.type = ? {_BOTH_THERE} ORDER BY e.id",
)
_AT_TARGET: Final = (
    f"{_IN} {_BOTH_THERE} ORDER BY e.type, e.id",
    f"{_IN} AND e.type = ? {_BOTH_THERE} ORDER BY e.id",
)
_AT: Final[dict[Direction, tuple[tuple[str, str], ...]]] = {
    "out": (_AT_SOURCE,),
    "in": (_AT_TARGET,),
    "both": (_AT_SOURCE, _AT_TARGET),
}


class SqliteGraphView:
    """The graphs of one topic. See ``GraphView``."""

    def __init__(self, database: ViewDatabase, stream: str, topic: str) -> None:
        self._database = database
        self._place = (stream, topic)
        self._positions = Positions(database, "graph", self._place)

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

        def run(connection: sqlite3.Connection) -> list[Node]:
            space = self._space(connection, graph)
            found: list[Node] = []
            for key in sorted(set(ids)) if space is not None else ():
                found += _nodes(connection.execute(_NODE, (space, key)))
            return found

        return await self._database.read(run)

    async def find(
        self, graph: str, *, label: str | None, value: str | None, after: str | None, limit: int
    ) -> list[Node]:
        """See ``GraphView.find``."""

        def run(connection: sqlite3.Connection) -> list[Node]:
            space = self._space(connection, graph)
            if space is None:
                return []
            values = [space, after or "", *filter(None, (label, value))]
            rows = connection.execute(_FIND[label is not None, value is not None], values)
            return list(_first(_nodes(rows), limit))

        return await self._database.read(run)

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

        def run(connection: sqlite3.Connection) -> list[Edge]:
            found: dict[tuple[str, str, str], Edge] = {}
            space = self._space(connection, graph)
            for rows in self._at(connection, space, ids, direction, types) if space is not None else ():
                for stretches in _stretches(rows):
                    holding = [edge for edge in stretches if holds(edge, as_of, now)]
                    if holding:
                        edge = holding[-1]
                        found.setdefault((edge.source, edge.type, edge.target), edge)
                    if len(found) >= limit:
                        return list(found.values())
            return list(found.values())

        return await self._database.read(run)

    async def stretches(self, graph: str, ids: Sequence[str], *, as_of: int | None, now: int | None) -> list[Edge]:
        """See ``GraphView.stretches``."""

        def run(connection: sqlite3.Connection) -> list[Edge]:
            space = self._space(connection, graph)
            found: list[Edge] = []
            for key in sorted(set(ids)) if space is not None else ():
                rows = connection.execute(_EDGE, (space, key))
                for stretches in _stretches(rows):
                    found += (edge for edge in stretches if now is None or holds(edge, as_of, now))
            return found

        return await self._database.read(run)

    async def edges(self, graph: str, *, after: str | None, limit: int) -> list[Edge]:
        """See ``GraphView.edges``."""

        def run(connection: sqlite3.Connection) -> list[Edge]:
            space = self._space(connection, graph)
            if space is None:
                return []
            rows = connection.execute(_ALL_EDGES, (space, after or ""))
            return [edge for stretches in _first(_stretches(rows), limit) for edge in stretches]

        return await self._database.read(run)

    def _space(self, connection: sqlite3.Connection, graph: str) -> int | None:
        row = connection.execute(_SPACE, (*self._place, graph)).fetchone()
        return None if row is None else int(row[0])

    def _at(
        self,
        connection: sqlite3.Connection,
        space: int,
        ids: Sequence[str],
        direction: Direction,
        types: Sequence[str] | None,
    ) -> Iterator[Iterable[tuple[Any, ...]]]:
        for key in dict.fromkeys(ids):
            for of_any, of_one in _AT[direction]:
                if types is None:
                    yield connection.execute(of_any, (space, key))
                for name in dict.fromkeys(types or ()):
                    yield connection.execute(of_one, (space, key, name))


def _nodes(rows: Iterable[tuple[Any, ...]]) -> Iterator[Node]:
    for (_, label, value), group in groupby(rows, itemgetter(0, 1, 2)):
        node = merge_node(label, value, (row[3:] for row in group))
        if node is not None:
            yield node


def _stretches(rows: Iterable[tuple[Any, ...]]) -> Iterator[list[Edge]]:
    for (_, source, type_, target), group in groupby(rows, itemgetter(0, 1, 2, 3)):
        stretches = merge_edge(source, type_, target, (row[4:] for row in group))
        if stretches:
            yield stretches


def _first(values: Iterator[Any], count: int) -> Iterator[Any]:
    for _, value in zip(range(count), values, strict=False):
        yield value
