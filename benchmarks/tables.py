"""Figures as Markdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from benchmarks.figures import (
    FTS,
    LANGGRAPH,
    LASER,
    LASER_MEMORY,
    LASER_POWER,
    OPENAI,
    RAW,
    SDK,
    SEARCH,
    SEMANTIC,
    Line,
    Result,
)
from benchmarks.targets import Measure, Target, Verdict, judge

__all__ = ["readme_text", "report_text"]

_SUFFIX: Final[Mapping[Measure, str]] = {"faster": "×", "growth": "×", "per_second": "/s"}
# Rows of the README: line, engine, and which of several lines of that name.
_ON_IGGY: Final = (
    "fetch.unchanged", "fetch.ten_new", "fetch.first_busy", "fetch.first_quiet", "fold.first", "fold.again",
    "fold.checkpoint", "snapshot.topic", "append.one", "append.tasks", "append.batch",
)  # fmt: skip
_BY_DURABILITY: Final = ("durability.one", "durability.tasks", "durability.batch")
_ON_ONE_MACHINE: Final = (
    "fetch.newest", "fold.first", "append.one", "append.batch", "chats.newest", "chats.append", "memory_view.keyword",
    "memory_view.hybrid", "memory_view.catch_up",
)  # fmt: skip
_SHOWN_DEPTH: Final = 5


def report_text(results: Sequence[Result]) -> str:
    """Everything: what was measured on, the targets, and every line of each subject."""
    parts = ["# Figures", _about(results), "## Targets", _targets(judge(_lines(results)))]
    for result in results:
        parts += [f"## {result.subject}", *_subject(result.lines)]
    parts += _skipped(results)
    return "\n\n".join(parts) + "\n"


def readme_text(results: Sequence[Result]) -> str:
    """The figures that the README shows, with the command that measures them."""
    if not results:
        return "No figures yet: `make bench` measures them."
    lines = _lines(results)
    parts = [
        f"{_about(results)} Medians; payloads of 256 bytes, 4 partitions, 50 conversations. `make bench` measures on "
        "your machine, `make bench-quick` in two minutes; "
        "[all figures](benchmarks/results/README.md), by payload and size."
    ]
    rows = [
        [line.title, *(_figure(line, side) for side in (LASER, SDK, RAW)), _ratio(line, SDK)]
        for line in _chosen(lines, "iggy", _ON_IGGY)
    ]
    if rows:
        parts.append(_table(["on one Iggy server", "laser", "laser-sdk", "raw client", "× laser-sdk"], rows))
    rows = [
        [line.title, *(_figure(line, side) for side in (LASER, OPENAI, LANGGRAPH))]
        for line in _chosen(lines, "embedded", _ON_ONE_MACHINE)
    ]
    if rows:
        parts.append(_table(["on one machine, without a server", "laser", "openai-agents", "langgraph"], rows))
    rows = [
        [f"{line.title}, {where}", *(_figure(line, side) for side in (LASER_MEMORY, LASER, LASER_POWER))]
        for engine, where in (("iggy", "on one Iggy server"), ("embedded", "without a server"))
        for line in _chosen(lines, engine, _BY_DURABILITY)
    ]
    if rows:
        parts.append(_table(["by durability", "`memory`", "`process`", "`power`"], rows))
    rows = [
        [str(line.parameters["of"]), *(_figure(line, side) for side in (LASER, SEARCH, SEMANTIC, FTS))]
        for line in lines
        if line.name == "recall.hybrid" and line.parameters["first"] == _SHOWN_DEPTH
        and not str(line.parameters["of"]).startswith("conversation")
    ]  # fmt: skip
    if rows:
        head = [f"answers among the first {_SHOWN_DEPTH} recalled", "hybrid", "keywords", "meaning", "plain FTS5"]
        parts.append(_table(head, rows))
    return "\n\n".join(parts)


def _lines(results: Iterable[Result]) -> list[Line]:
    return [line for result in results for line in result.lines]


def _chosen(lines: Sequence[Line], engine: str, names: Sequence[str]) -> list[Line]:
    """The lines of these names; of several sizes that of 256 bytes, and of several lengths the last."""
    found = {
        line.name: line for line in lines if line.engine == engine and line.parameters.get("payload_bytes", 256) == 256
    }
    return [found[name] for name in names if name in found]


def _about(results: Sequence[Result]) -> str:
    """A paragraph; several where results come from different machines or versions."""
    subjects: defaultdict[str, list[str]] = defaultdict(list)
    for result in results:
        subjects[_about_one(result.about)].append(result.subject)
    if len(subjects) == 1:
        return next(iter(subjects))
    return "\n\n".join(f"{', '.join(names)}: {text}" for text, names in subjects.items())


def _about_one(about: dict[str, Any]) -> str:
    program, machine = about["program"], about["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in program["packages"].items())
    engines = ", ".join(
        f"{name} {engine['version']} (durability `{engine['durability']}`)" for name, engine in about["engines"].items()
    )
    return (
        f"laser {program['laser']} at {program['commit']}; {engines}; {packages}; {program['python']}; "
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}."
    )


def _targets(verdicts: Iterable[Verdict]) -> str:
    rows = [
        [
            verdict.target.work,
            verdict.target.engine,
            _bound(verdict.target),
            "" if verdict.value is None else _number(verdict.value) + _unit(verdict.target, verdict.line),
            _outcome(verdict),
        ]
        for verdict in verdicts
    ]
    return _table(["work", "engine", "bound", "measured", "reached"], rows)


def _bound(target: Target) -> str:
    sign = "≥" if target.at_least else "≤"
    value = f"{sign} {_number(target.bound)}{_unit(target, None)}"
    return f"{value} {target.against}" if target.against else value


def _unit(target: Target, line: Line | None) -> str:
    if target.measure in ("median", "worst"):
        return f" {line.unit}" if line is not None else (" MB" if target.line.startswith("memory.") else " ms")
    if target.measure == "least":
        return "×" if target.line == "recall.halves" else " %"
    return _SUFFIX[target.measure]


def _outcome(verdict: Verdict) -> str:
    if verdict.margin is None:
        return "not measured"
    said = "yes" if verdict.reached else "**no**"
    records = verdict.line.parameters.get("records") if verdict.line is not None else None
    at = f", at {records:,} records" if isinstance(records, int) else ""
    return f"{said}: {_number(verdict.margin)} × the bound{at}"


def _subject(lines: Sequence[Line]) -> list[str]:
    """A table for each run of lines that have the same sides and engine."""
    tables = []
    for (engine, sides, compared), group in groupby(
        lines, lambda line: (line.engine, tuple(line.sides), bool(line.ratios))
    ):
        others = [side for side in sides if side != LASER] if compared else []
        head = [f"work ({engine})", "with", *sides, *(f"× {side}" for side in others)]
        rows = [
            [
                line.title,
                ", ".join(f"{name} {_value(value)}" for name, value in line.parameters.items()),
                *(_figure(line, side) for side in sides),
                *(_ratio(line, side) for side in others),
            ]
            for line in group
        ]
        tables.append(_table(head, rows))
    return tables


def _skipped(results: Sequence[Result]) -> list[str]:
    skipped = {name: reason for result in results for name, reason in result.skipped.items()}
    if not skipped:
        return []
    return ["## Not measured", "\n".join(f"- {name}: {reason}" for name, reason in skipped.items())]


def _figure(line: Line, side: str) -> str:
    figure = line.sides.get(side)
    if figure is None:
        return ""
    if line.work:
        return f"{_number(line.per_second(side))}/s"
    return f"{_number(figure.median)} {line.unit}"


def _ratio(line: Line, side: str) -> str:
    """The ratio of the medians, and in brackets that of neighbours."""
    ratio = line.ratios.get(side)
    return "" if ratio is None else f"{_number(ratio.medians)} ({_number(ratio.pairs)})"


def _value(value: int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else value


def _number(value: float) -> str:
    """Three digits, and no fraction from 100 on."""
    if value >= 100:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
