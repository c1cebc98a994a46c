"""Planted bugs: each is put into the running code, and the tests of this folder see it."""

from __future__ import annotations

import inspect
import struct
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple

import anyio
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import laser as ls
from laser.engines.sqlite.views import memory_keyword, memory_names, memory_writing, open_sqlite_views
from laser.memory import fold, forgetting
from laser.model.memory import FactMark
from laser.wire import memory as wire
from laser.wire import memory_reading
from tests.memory import test_facts, test_folding, test_forgetting, test_records, test_scopes
from tests.memory.making import changes
from tests.properties import examples


class Plant(NamedTuple):
    """A bug: in which module, the text before and after, and the tests that have to see it."""

    module: ModuleType
    old: str
    new: str
    seen_by: Callable[[], object]


def _property(test: Any, *strategies: st.SearchStrategy[Any]) -> Callable[[], object]:
    """A property test that ends with its first counterexample: making it small takes long."""
    few = settings(examples(60), phases=[Phase.generate], report_multiple_bugs=False)
    found: Callable[[], object] = few(given(*strategies)(test.hypothesis.inner_test))
    return found


_SEED = st.integers(0, 2**32)
ORDER = _property(
    test_folding.test_order_does_not_matter_and_retention_leaves_what_a_fresh_fold_finds,
    changes(),
    _SEED,
    st.tuples(st.integers(0, 8), st.integers(0, 8)),
)
SCORES = _property(
    test_folding.test_what_others_remember_moves_no_score, changes(), st.sampled_from(["u1", "u10"]), _SEED
)


def _run(test: Callable[..., Any], *arguments: Any) -> Callable[[], object]:
    async def run() -> None:
        async with ls.Laser.connect("memory:") as client:
            await test(client, *arguments)

    return lambda: anyio.run(run)


def _run_view(test: Callable[..., Any], *arguments: Any) -> Callable[[], object]:
    async def run() -> None:
        views = await open_sqlite_views(None, timeout=10)
        try:
            await test(views.memory("s", "agent.memory"), *arguments)
        finally:
            await views.aclose()

    return lambda: anyio.run(run)


SUMS = _run_view(test_folding.test_feedback_is_summed_exactly)
RETENTION = _run_view(test_folding.test_what_retention_takes_counts_no_more)
GONE = _run_view(test_folding.test_forgets_that_are_gone)
PRUNED = _run_view(test_folding.test_pruning_leaves_the_summary, False, True)
SUMMARY = _run(test_forgetting.test_a_summary_goes_with_what_it_was_made_of)
ONE = _run(test_forgetting.test_in_one_conversation)
CELLS = _run(test_scopes.test_cells_of_facts)
CLEAR = _run(test_scopes.test_j4_clearing_one_user)
WRITES = _run(test_scopes.test_every_write, {"user": "u1"}, {"user": "u10"})
READS = _run(test_scopes.test_every_read, {"user": "u1"}, {"user": "u10"})
FACTS = _run(test_facts.test_a_new_value_replaces_the_old_one)


def ROUND_TRIP() -> None:
    """One item of each size of header, with all that a header can say."""
    for size in (0, 23, 24, 255, 256, 65_536):
        test_records.test_items_round_trip.hypothesis.inner_test(
            "fact", bytes(size), "a", "u", "p", FactMark("k", "operator", 5), True, [], True
        )


PLANTS = {
    "a forget of one conversation takes all": Plant(fold, "tomb.within in (None, conversation)", "True", ONE),
    "the latest of an item counts": Plant(
        memory_writing, '"ORDER BY at, part, off",', '"ORDER BY at DESC, part, off",', ORDER
    ),
    "feedback of other conversations counts": Plant(
        memory_writing, "in feedback if within in (None, conv)", "in feedback", ORDER
    ),
    "feedback is added up as it comes": Plant(memory_writing, "math.fsum(weights)", "sum(weights)", SUMS),
    "a summary outlives its sources": Plant(memory_writing, "if not change.pruned:", "if False:", SUMMARY),
    "pruning a message takes its summary": Plant(memory_writing, "target = ? AND NOT pruned", "target = ?", PRUNED),
    "what retention took is not settled": Plant(
        memory_writing, "        self._touch((ns, item_id))\n", "        pass\n", RETENTION
    ),
    "retention leaves feedback": Plant(
        memory_writing, '("DELETE FROM memory_feedback WHERE place = ? AND part', '("SELECT ?, ?, ? --', RETENTION
    ),
    "retention of a forget goes unseen": Plant(
        memory_writing, "SET hides = 1 WHERE ns = ? AND target", "SET hides = 0 WHERE ns = ? AND target", GONE
    ),
    "retention of a summary's forget goes unseen": Plant(
        memory_writing, "SET hides = 1 WHERE ns = ? AND NOT", "SET hides = 0 WHERE ns = ? AND NOT", GONE
    ),
    "every forget that goes folds anew": Plant(
        memory_writing, "if not any(where == part and at > off", "if not any(False and at > off", GONE
    ),
    "a replaced value is shown": Plant(memory_writing, "_REPLACED if (user, app) in seen else _FIRST", "_FIRST", FACTS),
    "an item that goes stays in the index": Plant(
        memory_writing, "        if before >= _SHOWN:\n            self._unindex(row)\n", "", ORDER
    ),
    "across conversations every copy is shown": Plant(
        memory_keyword, '"state >= 2" if self.within_one else "state = 3"', '"state >= 2"', ORDER
    ),
    "neighbours of other owners come between": Plant(
        memory_keyword,
        'return " AND ".join(f"{table}.{condition}" for condition in self._conditions)',
        "return \" AND \".join(f\"({table}.{c} OR '{table}' = 'n')\" for c in self._conditions)",
        SCORES,
    ),
    "words are counted in everybody's items": Plant(
        memory_keyword, "_COUNT, scope.having(scope.word(word)))", "_COUNT, scope.word(word))", SCORES
    ),
    "sizes are of everybody's items": Plant(
        memory_keyword,
        "mean = max(1.0, sum(sizes.values()) / max(1, len(sizes)))",
        'mean = connection.execute("SELECT 1 + avg(size) FROM memory_items").fetchone()[0]',
        SCORES,
    ),
    "the user is not looked at": Plant(memory_names, '("user", USER, owner.user),', "", READS),
    "one look clears": Plant(forgetting, "        if not found:", "        if seen or not found:", CLEAR),
    "a forget asks not whose it is": Plant(forgetting, "    elif owner.sees(found.owner):", "    else:", WRITES),
    "the end of a fact is not written": Plant(wire, '(EXPIRES_KEY, "expires", expires),', "", ROUND_TRIP),
    "a body's length ends at a byte": Plant(wire, '(1 << 8, ">BB")', '(1 << 9, ">BB")', ROUND_TRIP),
    "everybody is the engine": Plant(memory_reading, 'texts.get(ORIGIN_KEY, "engine")', '"engine"', FACTS),
}


@contextmanager
def planted(plant: Plant) -> Iterator[None]:
    """Puts a bug into a module, and into everybody who imported from it."""
    source = inspect.getsource(plant.module)
    assert source.count(plant.old) == 1, "the text to break is not there once"
    broken = types.ModuleType(plant.module.__name__)
    broken.__dict__.update(__file__=plant.module.__file__)
    sys.modules[plant.module.__name__], kept = broken, plant.module
    try:
        exec(compile(source.replace(plant.old, plant.new), str(plant.module.__file__), "exec"), broken.__dict__)
    finally:
        sys.modules[plant.module.__name__] = kept
    with pytest.MonkeyPatch.context() as patch:
        for name, new in vars(broken).items():
            old = vars(plant.module).get(name)
            if isinstance(old, type) and old.__module__ == plant.module.__name__:
                for member, value in vars(new).items():
                    if inspect.isfunction(value):
                        patch.setattr(old, member, value)
            elif inspect.isfunction(old) and old.__module__ == plant.module.__name__:
                for user in list(sys.modules.values()):
                    if vars(user).get(name) is old:
                        patch.setattr(user, name, new)
        yield


@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS.keys())
def test_a_planted_bug_is_seen(plant: Plant) -> None:
    with planted(plant), pytest.raises((AssertionError, ls.LaserError, struct.error, pytest.fail.Exception)):
        plant.seen_by()


@pytest.mark.parametrize(
    "seen_by", [SUMS, RETENTION, GONE, PRUNED, SUMMARY, ONE, ROUND_TRIP, CELLS, CLEAR, WRITES, READS, FACTS]
)
def test_nothing_is_seen_without_one(seen_by: Callable[[], object]) -> None:
    seen_by()
