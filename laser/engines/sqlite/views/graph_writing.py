"""The tables of the graph view, and what is written to them."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Final

from laser.engines._graph_cells import ASSERTED, EDGE, NODE, edge_cells, node_cells
from laser.engines.sqlite.views.positions import Place
from laser.model.graph_change import GraphChange

__all__ = ["GRAPH_SCHEMA", "forget_all", "trim_records", "write_changes"]

GRAPH_SCHEMA: Final = """
CREATE TABLE graph_places (
    id INTEGER PRIMARY KEY,
    stream TEXT NOT NULL,
    topic TEXT NOT NULL,
    UNIQUE (stream, topic)
);
CREATE TABLE graph_spaces (
    id INTEGER PRIMARY KEY,
    place INTEGER NOT NULL,
    graph TEXT NOT NULL,
    UNIQUE (place, graph)
);
CREATE TABLE graph_nodes (
    space INTEGER NOT NULL,
    id TEXT NOT NULL,
    label TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (space, id)
) WITHOUT ROWID;
CREATE INDEX graph_nodes_by_label ON graph_nodes (space, label, id);
CREATE INDEX graph_nodes_by_value ON graph_nodes (space, value, id);
CREATE TABLE graph_edges (
    space INTEGER NOT NULL,
    id TEXT NOT NULL,
    source TEXT NOT NULL,
    type TEXT NOT NULL,
    target TEXT NOT NULL,
    PRIMARY KEY (space, id)
) WITHOUT ROWID;
CREATE INDEX graph_edges_out ON graph_edges (space, source, type, id);
CREATE INDEX graph_edges_in ON graph_edges (space, target, type, id);
CREATE TABLE graph_cells (
    place INTEGER NOT NULL,
    space INTEGER NOT NULL,
    kind INTEGER NOT NULL, -- 0 a node's, 1 an edge's
    id TEXT NOT NULL,
    field TEXT NOT NULL,
    partition INTEGER NOT NULL,
    "offset" INTEGER NOT NULL,
    timestamp INTEGER NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (space, kind, id, field, partition, "offset")
) WITHOUT ROWID;
CREATE INDEX graph_cells_by_record ON graph_cells (place, partition, "offset");
"""

_PLACE: Final = "SELECT id FROM graph_places WHERE stream = ? AND topic = ?"
_OLDER: Final = """
DELETE FROM graph_cells WHERE space = ? AND kind = ? AND id = ? AND field = ? AND partition = ?
AND "offset" < ? AND timestamp <= ?
"""
_OLDER_STRETCHES: Final = """
DELETE FROM graph_cells WHERE space = ? AND kind = ? AND id = ? AND field >= 'v' AND field < 'w' AND partition = ?
AND "offset" < ? AND timestamp <= ?
"""
_TOUCHED: Final = """
SELECT DISTINCT space, kind, id FROM graph_cells WHERE place = ? AND partition = ? AND "offset" < ?
"""
_NODE_GONE: Final = """
DELETE FROM graph_nodes WHERE space = ?1 AND id = ?3
AND NOT EXISTS (SELECT 1 FROM graph_cells WHERE space = ?1 AND kind = ?2 AND id = ?3)
"""
_EDGE_GONE: Final = """
DELETE FROM graph_edges WHERE space = ?1 AND id = ?3
AND NOT EXISTS (SELECT 1 FROM graph_cells WHERE space = ?1 AND kind = ?2 AND id = ?3)
"""


def write_changes(connection: sqlite3.Connection, place: Place, changes: Sequence[GraphChange]) -> None:
    """Adds what records say."""
    if not changes:
        return
    number = _place_number(connection, place)
    spaces = {name: _space_number(connection, number, name) for name in {change.write.graph for change in changes}}
    nodes: dict[tuple[int, str], tuple[str, str]] = {}
    edges: dict[tuple[int, str], tuple[str, str, str]] = {}
    cells: list[tuple[Any, ...]] = []
    for change in changes:
        space, record = spaces[change.write.graph], (change.partition, change.offset, change.timestamp_micros)
        for node in change.write.nodes:
            key = node.id
            nodes[space, key] = (node.label, node.value)
            cells += ((number, space, NODE, key, field, *record, value) for field, value in node_cells(change, node))
        for fact in change.write.edges:
            key = fact.id
            edges[space, key] = (fact.source, fact.type, fact.target)
            cells += ((number, space, EDGE, key, field, *record, value) for field, value in edge_cells(change, fact))
    connection.executemany(
        "INSERT OR IGNORE INTO graph_nodes VALUES (?, ?, ?, ?)", [(*key, *entry) for key, entry in nodes.items()]
    )
    connection.executemany(
        "INSERT OR IGNORE INTO graph_edges VALUES (?, ?, ?, ?, ?)", [(*key, *entry) for key, entry in edges.items()]
    )
    connection.executemany("INSERT OR REPLACE INTO graph_cells VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", cells)
    # A later record of the same partition that is not older says it again, and is taken by retention later: what it
    # replaces can never be asked for.
    connection.executemany(_OLDER, [cell[1:8] for cell in cells])
    asserted = [cell for cell in cells if cell[2] == EDGE and cell[4] == ASSERTED]
    connection.executemany(_OLDER_STRETCHES, [(*cell[1:4], *cell[5:8]) for cell in asserted])


def trim_records(connection: sqlite3.Connection, place: Place, firsts: Mapping[int, int]) -> None:
    """Takes back what records below the first offset of each partition said."""
    row = connection.execute(_PLACE, place).fetchone()
    if row is None:
        return
    touched: set[tuple[int, int, str]] = set()
    for partition, first in firsts.items():
        which = (row[0], partition, first)
        found = connection.execute(_TOUCHED, which).fetchall()
        if found:
            touched.update(found)
            connection.execute('DELETE FROM graph_cells WHERE place = ? AND partition = ? AND "offset" < ?', which)
    connection.executemany(_NODE_GONE, [element for element in touched if element[1] == NODE])
    connection.executemany(_EDGE_GONE, [element for element in touched if element[1] == EDGE])


def forget_all(connection: sqlite3.Connection, place: Place) -> None:
    """Takes everything of a topic back."""
    row = connection.execute(_PLACE, place).fetchone()
    if row is None:
        return
    for statement in (
        "DELETE FROM graph_nodes WHERE space IN (SELECT id FROM graph_spaces WHERE place = ?)",
        "DELETE FROM graph_edges WHERE space IN (SELECT id FROM graph_spaces WHERE place = ?)",
        "DELETE FROM graph_cells WHERE place = ?",
        "DELETE FROM graph_spaces WHERE place = ?",
        "DELETE FROM graph_places WHERE id = ?",
    ):
        connection.execute(statement, row)


def _place_number(connection: sqlite3.Connection, place: Place) -> int:
    connection.execute("INSERT OR IGNORE INTO graph_places (stream, topic) VALUES (?, ?)", place)
    return int(connection.execute(_PLACE, place).fetchone()[0])


def _space_number(connection: sqlite3.Connection, place: int, graph: str) -> int:
    connection.execute("INSERT OR IGNORE INTO graph_spaces (place, graph) VALUES (?, ?)", (place, graph))
    row = connection.execute("SELECT id FROM graph_spaces WHERE place = ? AND graph = ?", (place, graph)).fetchone()
    return int(row[0])
