"""Figures as pictures. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.figures import LASER, SDK, Line, Result

__all__ = ["draw_plots"]


def draw_plots(results: Sequence[Result], directory: Path) -> list[Path]:
    """Draws what the results have figures for, and returns the files.

    Raises:
        ImportError: matplotlib is not installed.
    """
    import_module("matplotlib").use("Agg")
    lines = [line for result in results for line in result.lines]
    drawn = []
    scales = [line for line in lines if line.name == "scale.fetch"]
    if len(scales) > 1:
        drawn.append(_draw_scale(scales, directory / "fetch_by_records.png"))
    beside = [line for line in lines if SDK in line.ratios and _is_speed(line)]
    if beside:
        drawn.append(_draw_ratios(beside, directory / "beside_laser_sdk.png"))
    return drawn


def _draw_scale(lines: Sequence[Line], path: Path) -> Path:
    figure, axes = _new_plot(7, 4)
    records = [line.parameters["records"] for line in lines]
    ours = [line.sides[LASER] for line in lines]
    axes.plot(records, [one.median for one in ours], marker="o", label="median")
    axes.fill_between(records, [one.low for one in ours], [one.high for one in ours], alpha=0.2, label="10 % to 90 %")
    axes.set(xscale="log", ylim=(0, None), xlabel="records in the log", ylabel="ms", title="embedded: fetch(n=50)")
    axes.legend()
    return _save(figure, path)


def _draw_ratios(lines: Sequence[Line], path: Path) -> Path:
    figure, axes = _new_plot(8, 1.2 + 0.32 * len(lines))
    names = [line.title.replace("`", "") for line in lines]
    ratios = [line.ratios[SDK].medians for line in lines]
    bars = axes.barh(names, ratios, left=0, color=["#4878a8" if ratio >= 1 else "#b85450" for ratio in ratios])
    axes.bar_label(bars, [f"{ratio:.3g}" for ratio in ratios], padding=3)
    axes.axvline(1, color="black", linewidth=1)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set(xscale="log", xlabel="times as fast as laser-sdk", title="on one Iggy server")
    return _save(figure, path)


def _is_speed(line: Line) -> bool:
    """Whether a line says how long work took on the server, with the payload that all of it was measured with."""
    if line.engine != "iggy" or line.unit != "ms" or line.name == "fetch.payload":
        return False
    return not line.name.startswith("loop.") and line.parameters.get("payload_bytes") == 256


def _new_plot(width: float, height: float) -> Any:
    pyplot: Any = import_module("matplotlib.pyplot")
    figure, axes = pyplot.subplots(figsize=(width, height), layout="constrained")
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    return figure, axes


def _save(figure: Any, path: Path) -> Path:
    # Without the date and version that files carry otherwise: the same figures give the same file.
    figure.savefig(path, dpi=110, metadata={"Software": None})
    import_module("matplotlib.pyplot").close(figure)
    return path
