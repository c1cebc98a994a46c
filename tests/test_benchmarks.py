"""The benchmarks in a tiny size: that they run, compare what is equal, and say what they measured."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import anyio
import msgspec
import pytest

from benchmarks import report, tables
from benchmarks.bench import TINY, Bench
from benchmarks.facts import conversations_file
from benchmarks.figures import LASER, RAW, SDK, Line, Result, make_line
from benchmarks.fresh import is_installed
from benchmarks.measuring import DifferError, Measured, Side, compare, largest_gap
from benchmarks.questions import read_questions
from benchmarks.subjects import SUBJECTS
from benchmarks.targets import TARGETS, Target, judge
from laser.testing.finding import OpenIggy
from tests.commands import run_python

Measure = Callable[[str], list[Line]]

_QUESTIONS = Path(__file__).parent / "data" / "questions.json"


@pytest.fixture(scope="module", params=["embedded", "iggy"])
def measure(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Measure:
    """Runs a subject on one engine, once however often it is asked for."""
    url = None
    if request.param == "iggy":
        server: OpenIggy = request.getfixturevalue("iggy")
        url = server.url
    bench = Bench(TINY, tmp_path_factory.mktemp("bench"), url, engines=[request.param], questions=_QUESTIONS)
    return cache(lambda name: anyio.run(SUBJECTS[name], bench))


@pytest.mark.parametrize("name", SUBJECTS)
def test_subject(measure: Measure, name: str, tmp_path: Path) -> None:
    lines = measure(name)
    assert all(figure.median > 0 for line in lines for figure in line.sides.values())
    assert all(LASER in line.sides for line in lines)
    result = Result(name, _ABOUT, lines, {})
    report.write_result(result, tmp_path)
    assert report.read_results(tmp_path) == [result]
    text = tables.report_text([result])
    assert all(line.title in text for line in lines)


def test_every_target_is_measured(measure: Measure, request: pytest.FixtureRequest) -> None:
    """Each target names a line that a subject makes, with the parameters that it asks for."""
    engine = request.node.callspec.params["measure"]
    lines = [line for name in SUBJECTS for line in measure(name)]
    sides = {side for line in lines for side in line.sides}
    for target in TARGETS:
        if target.engine in (engine, "process") and (not target.against or SDK in sides or SDK not in target.against):
            shrunk = msgspec.structs.replace(target, where={})
            if target.line in ("recall.hybrid", "recall.halves") and not is_installed("onnxruntime"):
                continue
            if target.line == "facts.kept" and conversations_file() is None:
                continue
            assert judge(lines, [shrunk])[0].value is not None, target
            assert any(line.name == target.line and line.parameters.keys() >= set(target.where) for line in lines)


@pytest.mark.iggy
@pytest.mark.peer
def test_peers(iggy: OpenIggy, tmp_path: Path) -> None:
    """On a server both other clients are there, and a missing one is named with the reason."""
    bench = Bench(TINY, tmp_path, iggy.url, engines=["iggy"])
    lines = anyio.run(SUBJECTS["folds"], bench)
    first = next(line for line in lines if line.name == "fold.first")
    assert RAW in first.ratios
    assert (SDK in first.ratios) != ("laser-sdk" in bench.skipped)


def test_recall_without_questions(tmp_path: Path) -> None:
    """Where the file is not, the subject says so and measures nothing."""
    bench = Bench(TINY, tmp_path, None)
    assert anyio.run(SUBJECTS["recall"], bench) == []
    assert "--questions FILE" in bench.skipped["recall"]


def test_questions_of_another_form(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text('[{"id": "x"}]')
    with pytest.raises(ValueError, match=r"other\.json is not a list of conversations"):
        read_questions(path)


def test_sides_take_turns() -> None:
    calls: list[str] = []

    async def call(name: str) -> str:
        calls.append(name)
        return "the same"

    async def before() -> None:
        calls.append("-")

    sides = {name: Side(partial(call, name)) for name in "ab"}
    samples = anyio.run(partial(compare, sides, 3, before=before, times=2, warm_up=1))
    assert "".join(calls) == "-ab" + "ab" + "-aabb" + "-bbaa" + "-aabb"
    assert {name: len(values) for name, values in samples.items()} == {"a": 3, "b": 3}


def test_different_data() -> None:
    """Nothing is measured when a side does other work than the first."""
    calls: list[int] = []

    async def call(value: int) -> int:
        calls.append(value)
        return value

    with pytest.raises(DifferError, match="one gave 1, two gave 2"):
        anyio.run(compare, {"one": Side(partial(call, 1)), "two": Side(partial(call, 2))}, 5)
    assert calls == [1, 2]


def test_measured_by_the_side() -> None:
    async def call() -> Measured:
        return Measured(0.25, ["facts"])

    samples = anyio.run(compare, {"one": Side(call), "two": Side(call, lambda result: result.facts)}, 2)
    assert samples == {"one": [0.25, 0.25], "two": [0.25, 0.25]}


def test_largest_gap() -> None:
    """A call that holds the loop for 50 ms is seen; one that waits is not."""
    import time

    async def hold() -> None:
        time.sleep(0.05)  # noqa: ASYNC251 - what is to be found

    assert 0.05 <= anyio.run(largest_gap, hold) < 5


def test_ratios() -> None:
    """Above 1 laser needs less; the ratio of neighbours does not see a machine that gets slower."""
    line = make_line("a.b", "work", "iggy", {LASER: [1.0, 2.0, 8.0], SDK: [2.0, 4.0, 16.0]}, work=10, n=5)
    assert (line.sides[LASER].median, line.sides[SDK].worst) == (2_000, 16_000)
    assert (line.ratios[SDK].medians, line.ratios[SDK].pairs) == (2, 2)
    assert line.per_second() == 5
    assert line.parameters == {"n": 5}


def test_verdicts() -> None:
    line = make_line("a.b", "work", "iggy", {LASER: [0.010], SDK: [0.025]}, work=1, records=7)
    faster, slower, growth, worst, rate, absent = judge(
        [line],
        [
            Target("a.b", "iggy", "faster", 2, "", SDK),
            Target("a.b", "iggy", "faster", 5, "", SDK),
            Target("a.b", "iggy", "growth", 0.5, "", SDK, {"records": 7}),
            Target("a.b", "iggy", "worst", 20, ""),
            Target("a.b", "iggy", "per_second", 200, ""),
            Target("a.b", "iggy", "faster", 1, "", SDK, {"records": 8}),
        ],
    )
    assert (faster.value, faster.margin, faster.reached) == (2.5, 1.25, True)
    assert (slower.margin, slower.reached) == (0.5, False)
    assert (growth.value, growth.margin) == (0.4, 1.25)
    assert (worst.value, worst.margin, worst.reached) == (10, 2, True)
    assert (rate.value, rate.reached) == (100, False)
    assert (absent.value, absent.reached) == (None, False)


def test_readme() -> None:
    """The README shows the figures that are in ``benchmarks/results``."""
    text = report.README.read_text()
    assert text == report.put_figures(text, report.read_results(report.RESULTS))


def test_readme_text() -> None:
    """What a run measured, in the README's words."""
    line = make_line("fetch.unchanged", "warm fetch", "iggy", {LASER: [0.0005], SDK: [0.016]}, payload_bytes=256)
    text = report.put_figures(report.README.read_text(), [Result("fetch", _ABOUT, [line], {})])
    assert "| warm fetch | 0.5 ms | 16 ms |  | 32 (32) |" in text
    assert "an AMD thing, 2 cores" in text
    assert "iggy 0.9.0 (durability `process`)" in text
    with pytest.raises(ValueError, match="figures"):
        report.put_figures("a README without marks", [])


@pytest.mark.parametrize("hidden", ["numpy", "matplotlib", "laser_sdk"])
def test_help_needs_no_extra(hidden: str, tmp_path: Path) -> None:
    script = f"import sys; sys.modules[{hidden!r}] = None; from benchmarks.__main__ import main; main()"
    done = run_python("-c", script, "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Measures laser beside others." in done.stdout


def test_an_absent_extra_is_named(tmp_path: Path) -> None:
    script = (
        "from benchmarks.subjects import SUBJECTS; from benchmarks.__main__ import main\n"
        "async def absent(bench): import numpy_that_is_not_there\n"
        "SUBJECTS['append'] = absent; main()"
    )
    places = ("--engine", "embedded", "--quick", "--directory", str(tmp_path), "--out", str(tmp_path / "out"))
    done = run_python("-c", script, "append", *places, cwd=tmp_path)
    assert done.returncode == 1
    said = "benchmarks: numpy_that_is_not_there is not installed; make bench-quick sets everything up by itself"
    assert said in done.stderr.splitlines()


def test_command_line(tmp_path: Path) -> None:
    done = run_python("-m", "benchmarks", "nonsense", cwd=tmp_path)
    assert done.returncode == 2
    assert "no such benchmark: nonsense" in done.stderr


_ABOUT = {
    "command": "python -m benchmarks",
    "program": {"laser": "0.1.0", "commit": "abc", "python": "CPython 3.11", "sqlite": "3", "packages": {}},
    "engines": {"iggy": {"version": "0.9.0", "durability": "process"}},
    "machine": {"system": "Linux", "cpu": "an AMD thing", "cores": 2, "memory_gib": 8, "load": [0, 0, 0]},
}
