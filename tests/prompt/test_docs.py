"""The code in ``docs/prompts.md`` runs and gives what it says."""

from __future__ import annotations

import pytest

from tests.compaction.test_docs import run_page


def test_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    run_page("prompts.md")
    assert capsys.readouterr().out.splitlines() == ["40 21", "rolling 40"]
