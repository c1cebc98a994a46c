"""The checks of ``make survive`` in their short form, and what the table says."""

from __future__ import annotations

import pytest

from tests.commands import ROOT
from tests.survive.figures import Budget, Figures
from tests.survive.report import Entry, read_entries, render
from tests.survive.running import ORDER, known, run_check

_LOADS = {"load_conversations", "slow_consumer", "soak"}
_ON_IGGY = {name for name in ORDER if name.startswith("iggy_")} | {"restart_in_fold"} | _LOADS


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.iggy] if name in _ON_IGGY else []) for name in ORDER]
)
@pytest.mark.timeout(600)
def test_a_promise_is_kept(name: str) -> None:
    entry = run_check(name, Budget(), seed=1)
    if entry.skipped:
        pytest.skip(entry.skipped)
    assert entry.broken == []
    assert entry.tried
    assert entry.found


def test_every_check_is_in_the_table() -> None:
    assert set(ORDER) == known()


def test_the_page_shows_the_rows_beside_it() -> None:
    rows = read_entries(ROOT / "docs" / "reliability.json")
    assert set(rows) == set(ORDER)
    assert render(rows) in (ROOT / "docs" / "reliability.md").read_text()
    assert [entry.check for entry in rows.values() if entry.broken] == []


def test_a_promise_that_is_not_kept_is_told() -> None:
    figures = Figures("3 kills", {"lost": 2, "twice": 0}).must_be_zero("lost", "twice")
    assert figures.broken == ["lost: 2"]
    row = render({"x": Entry("x", "Nothing is lost", "3 kills", figures.found, figures.broken)})
    assert "lost **2**" in row
    assert "**not kept: lost: 2**" in row
