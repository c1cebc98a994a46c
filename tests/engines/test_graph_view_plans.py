"""The graph view's queries find their rows through indexes, however large a graph is."""

from __future__ import annotations

import sqlite3

import pytest

from laser.engines.sqlite.views import graph
from laser.engines.sqlite.views.graph_writing import GRAPH_SCHEMA

_QUERIES = {
    "node": graph._NODE,
    "edge": graph._EDGE,
    "edges": graph._ALL_EDGES,
    **{f"find {wanted}": query for wanted, query in graph._FIND.items()},
    **{f"{end} {typed}": graph._AT[end][0][typed] for end in ("out", "in") for typed in (0, 1)},  # type: ignore[index]
}


@pytest.mark.parametrize("name", _QUERIES)
def test_plan(name: str) -> None:
    query = _QUERIES[name]
    connection = sqlite3.connect(":memory:")
    connection.executescript(GRAPH_SCHEMA)
    rows = connection.execute(f"EXPLAIN QUERY PLAN {query}", ["x"] * query.count("?")).fetchall()
    steps = [row[3] for row in rows if not row[3].startswith("CORRELATED")]
    assert len(steps) >= 2
    assert all(step.startswith("SEARCH ") for step in steps), steps
    assert "SEARCH c USING PRIMARY KEY (space=? AND kind=? AND id=?)" in steps
    first = {"out": "source=?", "in": "target=?"}.get(name.split()[0], "id")
    assert first in steps[0]
    connection.close()
