"""What laser is meant to reach, as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

from benchmarks.figures import FIRST, LASER, RAW, SDK, SDK_SINGLY, SMALLEST, Line

__all__ = ["TARGETS", "Target", "Verdict", "judge"]

Measure = Literal["faster", "growth", "median", "worst", "per_second", "least"]


class Target(msgspec.Struct, frozen=True):
    """A bound of one figure.

    Attributes:
        line, engine: which line. measure: which figure of it:

            - ``faster``: how many times laser is as fast as ``against``, another side.
            - ``growth``: how many times the figure of ``against`` laser's is.
            - ``median``, ``worst``: of laser, in the line's unit. ``per_second``: laser's records a second.
            - ``least``: the median where more is better.
        bound: at least that much for ``faster``, ``per_second`` and ``least``, at most for the others.
        work: for people. where: parameters that the line must have; those that a quick run makes smaller are not here.
    """

    line: str
    engine: str
    measure: Measure
    bound: float
    work: str
    against: str = ""
    where: Mapping[str, int | str] = {}

    @property
    def at_least(self) -> bool:
        """Whether more is better."""
        return self.measure in ("faster", "per_second", "least")


class Verdict(msgspec.Struct, frozen=True):
    """A target and what was measured; ``line`` and ``value`` are ``None`` where nothing was."""

    target: Target
    line: Line | None
    value: float | None

    @property
    def margin(self) -> float | None:
        """How many times better than the bound; below 1 it is not reached."""
        if self.value is None:
            return None
        return self.value / self.target.bound if self.target.at_least else self.target.bound / self.value

    @property
    def reached(self) -> bool:
        """Whether it was measured and the bound is kept."""
        return self.margin is not None and self.margin >= 1


_256: Final = {"payload_bytes": 256}
_FIRST_5: Final[Mapping[str, int | str]] = {"of": "all", "first": 5}

TARGETS: Final = (
    # On Iggy, beside laser-sdk and the raw client.
    Target("fetch.unchanged", "iggy", "faster", 30, "warm `fetch(n=50)`, nothing new", SDK),
    Target("fetch.ten_new", "iggy", "faster", 15, "warm `fetch(n=50)`, 10 new records since", SDK),
    Target("fetch.first_busy", "iggy", "faster", 2, "first `fetch(n=50)` of a process, busy conversation", SDK),
    Target("fetch.first_quiet", "iggy", "faster", 1, "first `fetch(n=50)` of a process, quiet conversation", SDK),
    Target("append.batch", "iggy", "faster", 20, "`append_many` of 1,000, by record", SDK_SINGLY),
    Target("append.batch", "iggy", "faster", 0.8, "`append_many` of 1,000", RAW),
    Target("append.one", "iggy", "faster", 0.9, "`append`, one by one", SDK, _256),
    Target("append.one", "iggy", "faster", 0.9, "`append`, one by one", RAW, _256),
    Target("fold.first", "iggy", "faster", 1, "full fold, first time in a process", SDK),
    Target("fold.again", "iggy", "faster", 3, "full fold, second time in a process", SDK),
    Target("fold.checkpoint", "iggy", "faster", 1, "`state(from_checkpoint=…)`, 1 new record", SDK),
    Target("snapshot.topic", "iggy", "faster", 1, "`state_with(TopicSnapshotStore)`, 1 new record", SDK),
    # On this machine alone.
    Target("scale.fetch", "embedded", "growth", 1.5, "`fetch(n=50)` at 10^7 records, of its time at 10^4", SMALLEST,
           {"records": 10_000_000}),
    Target("scale.fetch", "embedded", "growth", 1.5, "`fetch(n=50)` at 400,000 records, of its time at 10^4", SMALLEST,
           {"records": 400_000}),
    Target("fetch.newest", "embedded", "median", 0.4, "`fetch(n=50)` at 400,000 records", "", _256),
    Target("append.one", "embedded", "per_second", 8_000, "`append`, one by one", "", _256),
    Target("append.batch", "embedded", "per_second", 100_000, "`append_many` of 1,000"),
    Target("memory.fold", "embedded", "median", 150, "resident memory of a fold of 10^7 records", "",
           {"records": 10_000_000}),
    Target("memory_view.keyword", "embedded", "median", 5, "`search` for 10 of 100,000 items", "", {"items": 100_000}),
    Target("memory_view.hybrid", "embedded", "median", 20, "hybrid recall of 10 of 100,000 items, without the embedder",
           "", {"items": 100_000}),
    Target("memory_view.catch_up", "embedded", "per_second", 20_000, "records folded into memory's view", "",
           {"items": 100_000}),
    # Long sessions.
    Target("compaction.plan", "process", "median", 20, "planning over 10,000 messages", "", {"messages": 10_000}),
    Target("compaction.frames", "process", "median", 1_000, "30 pictures of text", "", {"frames": 30}),
    Target("compaction.prepare", "embedded", "median", 20, "`prepare` over 10,000 messages", "", {"messages": 10_000}),
    Target("compaction.grep", "embedded", "median", 100, "`lcm_grep` over 100,000 rows, one holds it", "",
           {"rows": 100_000, "hits": "rare"}),
    Target("compaction.grep", "embedded", "median", 100, "`lcm_grep` over 100,000 rows, none holds it", "",
           {"rows": 100_000, "hits": "absent"}),
    # What is found, in the questions of ``benchmarks.questions``.
    Target("recall.search", "process", "least", 52, "answers in the first 5 of `search`", "", _FIRST_5),
    Target("recall.hybrid", "process", "least", 60, "answers in the first 5 of hybrid recall", "", _FIRST_5),
    Target("recall.halves", "process", "least", 1, "hybrid recall beside its better half, where it is the least",
           "", {"first": 5}),
    Target("recall.halves", "process", "least", 1, "the same in the first 10", "", {"first": 10}),
    # Prompts.
    Target("facts.kept", "process", "least", 97, "values of tool calls still in a history of 2,000 tokens", "",
           {"tokens": 2_000}),
    Target("prompts.build", "process", "median", 5, "a prompt of 12 providers and 200 messages, without I/O"),
    # Active contexts.
    Target("active.replay", "embedded", "per_second", 50_000, "events of an active context, replayed"),
    Target("active.read", "embedded", "growth", 1.5, "`Session.read()` after 10^5 events, of that after 10^4", SMALLEST,
           {"events": 100_000}),
    # Workspaces.
    Target("workspace.again", "embedded", "growth", 0.1, "another snapshot of 10,000 files, of the first", FIRST,
           {"files": 10_000}),
    # Of the process.
    Target("import.laser", "process", "median", 80, "`import laser`"),
    Target("loop.fetch", "embedded", "worst", 20, "longest pause of the event loop, fetch of 100,000 records"),
    Target("loop.fold", "embedded", "worst", 20, "longest pause of the event loop, fold of 100,000 records"),
    Target("loop.fetch", "iggy", "worst", 20, "longest pause of the event loop, fetch of 100,000 records"),
    Target("loop.fold", "iggy", "worst", 20, "longest pause of the event loop, fold of 100,000 records"),
)  # fmt: skip


def judge(lines: Iterable[Line], targets: Iterable[Target] = TARGETS) -> list[Verdict]:
    """Every target with what was measured of it."""
    known = list(lines)
    return [_judge(target, known) for target in targets]


def _judge(target: Target, lines: Iterable[Line]) -> Verdict:
    for line in lines:
        if line.name != target.line or line.engine != target.engine:
            continue
        if all(line.parameters.get(name) == value for name, value in target.where.items()):
            value = _value(target, line)
            if value is not None:
                return Verdict(target, line, value)
    return Verdict(target, None, None)


def _value(target: Target, line: Line) -> float | None:
    if target.measure == "per_second":
        return line.per_second()
    if target.measure in ("median", "worst", "least"):
        figure = line.sides[LASER]
        return figure.worst if target.measure == "worst" else figure.median
    ratio = line.ratios.get(target.against)
    if ratio is None:
        return None
    return ratio.medians if target.measure == "faster" else 1 / ratio.medians
