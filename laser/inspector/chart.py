"""A chart of prompts over turns, as SVG: what each was made of, its room, and what the provider counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from laser.inspector.markup import Markup, tag
from laser.inspector.style import COLOURS
from laser.prompt.trace import PromptTrace

__all__ = ["chart"]

_WIDTH: Final = 960
_HEIGHT: Final = 300
_LEFT: Final = 62
_BOTTOM: Final = 28
_TOP: Final = 14
_STEPS: Final = 4


def chart(traces: Sequence[PromptTrace]) -> Markup:
    """One bar a turn, oldest first, of the tokens of its categories, with the budget's room as a line.

    A ring is the input as the provider counted it, a dot what of it was read from the cache, and a red triangle a turn
    whose stable prefix was not that of the turn before.
    """
    names = list(dict.fromkeys(one.category for trace in traces for one in trace.categories))
    most = max([1, *(_top(trace) for trace in traces)])
    width = (_WIDTH - _LEFT) / max(1, len(traces))
    shapes = [_axis(most)]
    room: list[str] = []
    for place, trace in enumerate(traces):
        left = _LEFT + place * width
        shapes += _bar(trace, names, most, left, width)
        y = _y(trace.budget.available, most)
        room += [f"{left:.1f},{y:.1f}", f"{left + width:.1f},{y:.1f}"]
        shapes += _marks(trace, most, left, width)
        if place % max(1, len(traces) // 12) == 0:
            middle = f"{left + width / 2:.1f}"
            shapes.append(tag("text", place + 1, x=middle, y=_HEIGHT - 9, text_anchor="middle"))
    shapes.append(tag("polyline", points=" ".join(room), class_="room"))
    label = f"tokens of the prompts of {len(traces)} turns, by category"
    drawn = tag("svg", shapes, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", aria_label=label)
    return tag("div", drawn, _legend(names))


def _bar(trace: PromptTrace, names: Sequence[str], most: int, left: float, width: float) -> list[Markup]:
    low = 0
    found: list[Markup] = []
    for one in trace.categories:
        height = max(0, one.tokens)
        top = _y(low + height, most)
        said = tag("title", f"{trace.turn[-6:]}: {one.category}, {one.layer}, {one.tokens:,} tokens")
        found.append(
            tag(
                "rect",
                said,
                x=f"{left + width * 0.1:.1f}",
                y=f"{top:.1f}",
                width=f"{width * 0.8:.1f}",
                height=f"{_y(low, most) - top:.1f}",
                class_=_colour(names.index(one.category)),
            )
        )
        low += height
    return found


def _marks(trace: PromptTrace, most: int, left: float, width: float) -> list[Markup]:
    middle = left + width / 2
    found: list[Markup] = []
    usage = trace.usage
    for kind, count, said in (
        ("measured", None if usage is None else usage.input_tokens, "input as the provider counted it"),
        ("cached", None if usage is None else usage.cache_read_tokens, "read from the provider's cache"),
    ):
        if count is not None:
            title = tag("title", f"{trace.turn[-6:]}: {count:,} tokens {said}")
            place = {"cx": f"{middle:.1f}", "cy": f"{_y(max(0, count), most):.1f}"}
            found.append(tag("circle", title, r=4 if kind == "measured" else 2.5, class_=kind, **place))
    if trace.invalidated is not None:
        title = tag("title", f"{trace.turn[-6:]}: the stable prefix changed, first in {trace.invalidated}")
        points = f"{middle - 5:.1f},2 {middle + 5:.1f},2 {middle:.1f},11"
        found.append(tag("polygon", title, points=points, class_="broke"))
    return found


def _axis(most: int) -> Markup:
    lines: list[Markup] = []
    for step in range(_STEPS + 1):
        value = most * step // _STEPS
        y = f"{_y(value, most):.1f}"
        lines.append(tag("line", x1=_LEFT, x2=_WIDTH, y1=y, y2=y, class_="axis"))
        lines.append(tag("text", f"{value:,}", x=_LEFT - 6, y=y, text_anchor="end", dominant_baseline="middle"))
    return tag("g", lines)


def _legend(names: Sequence[str]) -> Markup:
    box = {"x": 0, "y": 0, "width": 16, "height": 16}
    shown = [(tag("rect", class_=_colour(place), **box), name) for place, name in enumerate(names)]
    shown += [
        (tag("polyline", points="0,8 16,8", class_="room"), "left by the budget"),
        (tag("circle", cx=8, cy=8, r=6, class_="measured"), "input, counted by the provider"),
        (tag("circle", cx=8, cy=8, r=4, class_="cached"), "of it from the cache"),
        (tag("polygon", points="2,3 14,3 8,14", class_="broke"), "stable prefix changed"),
    ]
    return tag("p", [tag("span", tag("svg", one, viewBox="0 0 16 16"), name) for one, name in shown], class_="legend")


def _top(trace: PromptTrace) -> int:
    usage = trace.usage
    counted = [] if usage is None else [usage.input_tokens or 0, usage.cache_read_tokens or 0]
    return max(sum(max(0, one.tokens) for one in trace.categories), trace.budget.available, *counted, 1)


def _y(tokens: int, most: int) -> float:
    room = _HEIGHT - _BOTTOM - _TOP
    return _HEIGHT - _BOTTOM - room * min(1.0, max(0, tokens) / most)


def _colour(place: int) -> str:
    return f"k{place % COLOURS}"
