"""The page of a session's prompts: how each came about."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

from laser.inspector.chart import chart
from laser.inspector.layout import page, table, tokens
from laser.inspector.markup import Markup, tag
from laser.inspector.room import Room, number_of, session_of
from laser.prompt.builder import read_traces
from laser.prompt.trace import PromptTrace

__all__ = ["prompts_page"]

_RECORDS: Final = 200


async def prompts_page(room: Room, request: Request) -> bytes:
    """Traces of the newest builds as a chart over turns, and as a table."""
    chosen = session_of(request)
    last = number_of(request, "last", _RECORDS, 1, 2_000) or _RECORDS
    traces = await read_traces(room.laser.context(chosen), last)
    if not traces:
        empty = "No prompts: laser.prompt.PromptBuilder records them as it builds."
        return page(room.links, "prompts", tag("p", empty, class_="dim"), session=chosen, tab="prompts")
    form = tag(
        "form",
        tag("label", "newest audit records", tag("input", name="last", value=last, size=6, inputmode="numeric")),
        tag("button", "show", type="submit"),
        action=room.links.to("s", chosen, "prompts"),
        method="get",
    )
    warnings = [tag("p", warning, class_="note") for warning in traces[-1].warnings]
    return page(
        room.links,
        f"prompts of {len(traces)} turns",
        form,
        chart(traces),
        warnings,
        tag("h2", "turns, newest first"),
        _table(traces),
        tag("h2", "providers of the newest turn"),
        _providers(traces[-1]),
        session=chosen,
        tab="prompts",
    )


def _table(traces: list[PromptTrace]) -> Markup:
    rows = [
        (
            number,
            tag("code", trace.turn[-6:], title=trace.turn),
            trace.agent or "-",
            f"{trace.budget.used:,}",
            f"{trace.budget.available:,}",
            f"{trace.stable_tokens:,}",
            ", ".join(f"{one.category} {one.tokens:,}" for one in trace.categories) or "-",
            ", ".join(f"{one.category} {one.fragments}: {one.reason}" for one in trace.evicted) or "-",
            trace.invalidated or "-",
            _usage(trace),
            f"{trace.milliseconds:.1f}",
        )
        for number, trace in reversed(list(enumerate(traces, 1)))
    ]
    columns = (
        "", "turn", "agent", "used", "of", "stable", "estimated by category", "evicted", "prefix broke at",
        "counted by the provider", "ms",
    )  # fmt: skip
    return table(columns, rows, numbers=(0, 3, 4, 5, 10))


def _usage(trace: PromptTrace) -> str:
    usage = trace.usage
    if usage is None:
        return "-"
    parts = (
        ("in", usage.input_tokens),
        ("out", usage.output_tokens),
        ("cache read", usage.cache_read_tokens),
        ("cache write", usage.cache_write_tokens),
    )
    return ", ".join(f"{name} {tokens(count)}" for name, count in parts if count is not None) or "-"


def _providers(trace: PromptTrace) -> Markup:
    rows = [
        (one.name, one.status.replace("_", " "), one.fragments, f"{one.milliseconds:.1f}", one.reason or "-")
        for one in trace.providers
    ]
    return table(("provider", "status", "fragments", "ms", "why"), rows, numbers=(2, 3))
