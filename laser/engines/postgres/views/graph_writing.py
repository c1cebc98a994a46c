"""Writes to the graph view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from laser.engines._graph_cells import ASSERTED, EDGE, NODE, edge_cells, node_cells
from laser.engines.postgres.driver import Connection
from laser.engines.postgres.views.positions import Place
from laser.model.graph_change import GraphChange

__all__ = ["forget_all", "space_number", "trim_records", "write_changes"]

_PLACE: Final = "SELECT id FROM laser.graph_places WHERE stream = %s AND topic = %s"
_MAKE_PLACE: Final = "INSERT INTO laser.graph_places (stream, topic) VALUES (%s, %s) ON CONFLICT DO NOTHING"
_SPACE: Final = """
SELECT s.id FROM laser.graph_spaces s JOIN laser.graph_places p ON p.id = s.place
WHERE p.stream = %s AND p.topic = %s AND s.graph = %s
"""
_SPACES: Final = "SELECT graph, id FROM laser.graph_spaces WHERE place = %s AND graph = ANY(%s::bytea[])"
_MAKE_SPACES: Final = """
INSERT INTO laser.graph_spaces (place, graph) SELECT %s, unnest(%s::bytea[]) ON CONFLICT DO NOTHING
"""
_NODES: Final = """
INSERT INTO laser.graph_nodes (space, id, label, value)
SELECT * FROM unnest(%s::bigint[], %s::text[], %s::bytea[], %s::bytea[]) ON CONFLICT DO NOTHING RETURNING space, id
"""
_EDGES: Final = """
INSERT INTO laser.graph_edges (space, id, source, type, target)
SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::bytea[], %s::text[]) ON CONFLICT DO NOTHING
RETURNING space, id
"""
_CELLS: Final = """
INSERT INTO laser.graph_cells (place, space, kind, id, field, part, off, at, value)
SELECT %s, k.* FROM unnest(%s::bigint[], %s::int[], %s::text[], %s::bytea[], %s::int[], %s::bigint[], %s::bigint[],
    %s::bytea[]) AS k
ON CONFLICT DO NOTHING
"""
# OFFSET 0 makes the server look each row up by an index. Left to itself it reads whole tables while it has no
# statistics of them, which is when most is written. The position is held, so rows stay where they are.
_OLDER: Final = """
DELETE FROM laser.graph_cells WHERE ctid = ANY(ARRAY(
    SELECT c.ctid
    FROM unnest(%s::bigint[], %s::int[], %s::text[], %s::bytea[], %s::int[], %s::bigint[], %s::bigint[])
        AS k(space, kind, id, field, part, off, at)
    CROSS JOIN LATERAL (
        SELECT ctid FROM laser.graph_cells WHERE space = k.space AND kind = k.kind AND id = k.id AND field = k.field
        AND part = k.part AND off < k.off AND at <= k.at OFFSET 0
    ) c
))
"""
_OLDER_STRETCHES: Final = """
DELETE FROM laser.graph_cells WHERE ctid = ANY(ARRAY(
    SELECT c.ctid
    FROM unnest(%s::bigint[], %s::int[], %s::text[], %s::int[], %s::bigint[], %s::bigint[])
        AS k(space, kind, id, part, off, at)
    CROSS JOIN LATERAL (
        SELECT ctid FROM laser.graph_cells WHERE space = k.space AND kind = k.kind AND id = k.id
        AND field >= 'v'::bytea AND field < 'w'::bytea AND part = k.part AND off < k.off AND at <= k.at OFFSET 0
    ) c
))
"""
_DROP: Final = """
DELETE FROM laser.graph_cells WHERE place = %s AND part = %s AND off < %s RETURNING space, kind, id
"""
_GONE: Final = """
DELETE FROM laser.{table} WHERE ctid = ANY(ARRAY(
    SELECT e.ctid FROM unnest(%s::bigint[], %s::text[]) AS k(space, id)
    CROSS JOIN LATERAL (SELECT ctid FROM laser.{table} WHERE space = k.space AND id = k.id OFFSET 0) e
    WHERE (SELECT true FROM laser.graph_cells c WHERE c.space = k.space AND c.kind = %s AND c.id = k.id LIMIT 1) IS NULL
))
"""
_TABLES: Final = ((NODE, _GONE.format(table="graph_nodes")), (EDGE, _GONE.format(table="graph_edges")))
# Of rows at once: a statement's values stand in memory, here and there.
_BATCH: Final = 10_000


def space_number(connection: Connection, place: Place, graph: str) -> int | None:
    """The number of a graph; ``None`` for one that is not known."""
    row = connection.execute(_SPACE, (*_encoded(place), graph.encode())).fetchone()
    return None if row is None else int(row[0])


def write_changes(connection: Connection, place: Place, changes: Sequence[GraphChange]) -> None:
    """Adds what records say."""
    if not changes:
        return
    number = _make_place(connection, place)
    spaces = _make_spaces(connection, number, {change.write.graph for change in changes})
    nodes: list[tuple[Any, ...]] = []
    edges: list[tuple[Any, ...]] = []
    cells: list[tuple[Any, ...]] = []
    for change in changes:
        space, record = spaces[change.write.graph], (change.partition, change.offset, change.timestamp_micros)
        for node in change.write.nodes:
            key = node.id
            nodes.append((space, key, node.label.encode(), node.value.encode()))
            cells += ((space, NODE, key, field.encode(), *record, value) for field, value in node_cells(change, node))
        for fact in change.write.edges:
            key = fact.id
            edges.append((space, key, fact.source, fact.type.encode(), fact.target))
            cells += ((space, EDGE, key, field.encode(), *record, value) for field, value in edge_cells(change, fact))
    new = {(space, NODE, key) for space, key in _put(connection, _NODES, nodes)}
    new |= {(space, EDGE, key) for space, key in _put(connection, _EDGES, edges)}
    _put(connection, _CELLS, cells, number)
    # A later record of the same partition that is not older says it again, and is taken by retention later: what it
    # replaces can never be asked for. Of what only one record ever spoke there is nothing to replace.
    said = Counter((entry[0], kind, entry[1]) for kind, entries in ((NODE, nodes), (EDGE, edges)) for entry in entries)
    again = [cell for cell in cells if cell[:3] not in new or said[cell[:3]] > 1]
    _put(connection, _OLDER, [cell[:7] for cell in again])
    asserted = [cell for cell in again if cell[1] == EDGE and cell[3] == ASSERTED.encode()]
    _put(connection, _OLDER_STRETCHES, [(*cell[:3], *cell[4:7]) for cell in asserted])


def trim_records(connection: Connection, place: Place, firsts: Mapping[int, int]) -> None:
    """Takes back what records below the first offset of each partition said."""
    row = connection.execute(_PLACE, _encoded(place)).fetchone()
    if row is None:
        return
    touched: set[tuple[int, int, str]] = set()
    for partition, first in firsts.items():
        if first > 0:
            touched.update(connection.execute(_DROP, (row[0], partition, first)))
    for kind, statement in _TABLES:
        gone = sorted((space, key) for space, of_kind, key in touched if of_kind == kind)
        if gone:
            connection.execute(statement, ([space for space, _ in gone], [key for _, key in gone], kind))


def forget_all(connection: Connection, place: Place) -> None:
    """Takes everything of a topic back."""
    row = connection.execute(_PLACE, _encoded(place)).fetchone()
    if row is None:
        return
    for statement in (
        "DELETE FROM laser.graph_nodes n USING laser.graph_spaces s WHERE s.place = %s AND n.space = s.id",
        "DELETE FROM laser.graph_edges e USING laser.graph_spaces s WHERE s.place = %s AND e.space = s.id",
        "DELETE FROM laser.graph_cells WHERE place = %s",
        "DELETE FROM laser.graph_spaces WHERE place = %s",
        "DELETE FROM laser.graph_places WHERE id = %s",
    ):
        connection.execute(statement, row)


def _encoded(place: Place) -> tuple[bytes, bytes]:
    return place[0].encode(), place[1].encode()


def _make_place(connection: Connection, place: Place) -> int:
    row = connection.execute(_PLACE, _encoded(place)).fetchone()
    if row is None:
        connection.execute(_MAKE_PLACE, _encoded(place))
        row = connection.execute(_PLACE, _encoded(place)).fetchone()
    assert row is not None
    return int(row[0])


def _make_spaces(connection: Connection, place: int, graphs: Iterable[str]) -> dict[str, int]:
    names = sorted(graph.encode() for graph in graphs)
    found = connection.execute(_SPACES, (place, names)).fetchall()
    if len(found) < len(names):
        connection.execute(_MAKE_SPACES, (place, names))
        found = connection.execute(_SPACES, (place, names)).fetchall()
    return {name.decode(): number for name, number in found}


def _put(connection: Connection, statement: str, rows: Sequence[tuple[Any, ...]], *first: Any) -> list[Any]:
    """Runs a statement that takes rows as one list a column, and returns what it returns."""
    found: list[Any] = []
    for start in range(0, len(rows), _BATCH):
        columns = [list(column) for column in zip(*rows[start : start + _BATCH], strict=True)]
        cursor = connection.execute(statement, (*first, *columns))
        found += cursor.fetchall() if cursor.description else ()
    return found
