"""The code in ``docs/graph.md`` runs and gives what it says."""

from __future__ import annotations

import pytest

from laser import limits
from tests.commands import ROOT
from tests.compaction.test_docs import run_page


def test_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    run_page("graph.md")
    assert capsys.readouterr().out.splitlines() == [
        "['Globex']",
        "['Acme']",
        "['Oslo', 'Acme', 'Alice'] ['located_in', 'works_at']",
    ]


def test_its_limits() -> None:
    depth, results, edges = limits.MAX_GRAPH_DEPTH, limits.MAX_GRAPH_RESULTS, limits.MAX_GRAPH_EDGES
    said = f"{depth} hops, {results:,} results, and {edges:,} edges"
    assert said in (ROOT / "docs" / "graph.md").read_text()
