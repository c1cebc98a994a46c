"""What a benchmark measured: lines of figures, one figure a side, and how the sides compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

import msgspec

__all__ = [
    "FIRST", "FTS", "LANGGRAPH", "LASER", "LASER_MEMORY", "LASER_POWER", "NEWEST_FIRST", "OPENAI", "PLAIN", "RAW",
    "SDK", "SDK_SINGLY", "SEARCH", "SEMANTIC", "SMALLEST", "Figure", "Line", "Ratio", "Result", "make_line",
]  # fmt: skip

LASER: Final = "laser"
"""The side that the others are compared with."""

LASER_MEMORY: Final = "laser, durability memory"
LASER_POWER: Final = "laser, durability power"
SDK: Final = "laser-sdk"
SDK_SINGLY: Final = "laser-sdk, one by one"
RAW: Final = "apache-iggy"
OPENAI: Final = "openai-agents"
LANGGRAPH: Final = "langgraph"
NEWEST_FIRST: Final = "newest first"
PLAIN: Final = "plain SQLite or file"
FIRST: Final = "the first time"
SMALLEST: Final = "smallest log"
FTS: Final = "plain FTS5"
SEARCH: Final = "laser, keywords alone"
SEMANTIC: Final = "laser, meaning alone"


class Figure(msgspec.Struct, frozen=True):
    """One side of a line, in the line's unit; less is better, but for a unit of ``%`` or ``×``.

    Attributes:
        samples: how many were taken. low, high: a tenth of them lies below, and above. worst: the highest.
    """

    samples: int
    median: float
    low: float
    high: float
    worst: float


class Ratio(msgspec.Struct, frozen=True):
    """How many times another side's figure is laser's: above 1 laser needs less.

    Attributes:
        medians: of the two medians. pairs: the median of the ratios of samples taken next to each other, which a
            drift of the machine does not move.
    """

    medians: float
    pairs: float


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One kind of work.

    Attributes:
        name: stable, ``subject.work``. title: for people. engine: ``iggy``, ``embedded`` or ``process``.
        unit: ``ms``, ``MB``, ``%`` or ``×``.
        sides: figures by who did the work. ratios: by the other side, where ``LASER`` is one.
        work: records that one sample wrote or read, where a rate makes sense.
        parameters: sizes that the work was done with.
    """

    name: str
    title: str
    engine: str
    unit: str
    sides: dict[str, Figure]
    ratios: dict[str, Ratio] = {}
    work: int = 0
    parameters: dict[str, int | str] = {}

    def per_second(self, side: str = LASER) -> float:
        """Records a second; the unit must be ms."""
        return self.work / self.sides[side].median * 1e3


class Result(msgspec.Struct, frozen=True):
    """One subject's file.

    Attributes:
        about: versions, machine, durability, command. lines: the figures.
        skipped: what could not be measured, with the reason.
    """

    subject: str
    about: dict[str, Any]
    lines: list[Line]
    skipped: dict[str, str]


def make_line(
    name: str,
    title: str,
    engine: str,
    samples: Mapping[str, Sequence[float]],
    *,
    unit: str = "ms",
    scale: float = 1e3,
    work: int = 0,
    **parameters: int | str,
) -> Line:
    """A line from samples by side.

    Args:
        samples: in turns, so that those of one index were taken next to each other; by default seconds.
        scale: what a sample is multiplied with to be in ``unit``.
    """
    sides = {side: _figure([value * scale for value in values]) for side, values in samples.items()}
    ours = samples.get(LASER)
    ratios = {}
    if ours is not None:
        for side, values in samples.items():
            if side != LASER:
                pairs = median(other / own for other, own in zip(values, ours, strict=True))
                ratios[side] = Ratio(_round(median(values) / median(ours)), _round(pairs))
    return Line(name, title, engine, unit, sides, ratios, work, parameters)


def _figure(values: Sequence[float]) -> Figure:
    ordered = sorted(values)
    last = len(ordered) - 1
    return Figure(
        len(ordered),
        _round(median(ordered)),
        _round(ordered[last // 10]),
        _round(ordered[last - last // 10]),
        _round(ordered[-1]),
    )


def _round(value: float) -> float:
    """Four digits: what comes after them is noise, and makes files differ for nothing."""
    return float(f"{value:.4g}")
