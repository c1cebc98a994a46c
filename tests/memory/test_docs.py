"""The code in ``docs/memory.md`` runs and gives what it says."""

from __future__ import annotations

import pytest

from tests.compaction.test_docs import run_page


def test_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    run_page("memory.md")
    assert capsys.readouterr().out.splitlines() == [
        "['Ann: I only drink green tea']",
        "1.0 ['feedback', 'keyword', 'recency']",
        "window ['aisle', 'window']",
        "[]",
    ]
