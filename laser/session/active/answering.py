"""Which calls of a context have no result where a provider wants one, and which have more than one. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from laser.session.active.entries import MODEL_KINDS, ContextEntry

__all__ = ["late_results", "unanswered"]


def late_results(entries: Sequence[ContextEntry]) -> frozenset[int]:
    """The ids of results that come behind an interim one of the same call."""
    waiting: set[str | None] = set()
    late: set[int] = set()
    for held in entries:
        call_id = held.entry.call_id
        if held.kind == "tool_call":
            waiting.discard(call_id)
        elif held.kind == "tool_result":
            if call_id in waiting:
                late.add(held.id)
            if held.entry.interim:
                waiting.add(call_id)
            else:
                waiting.discard(call_id)
    return frozenset(late)


def unanswered(entries: Sequence[ContextEntry]) -> dict[int, list[str]]:
    """By the id of the entry that ends a turn of the model, but for the last one, its calls without any result."""
    open_calls: dict[str, int] = {}
    ends: dict[int, int] = {}
    turn, before, last = 0, False, 0
    for held in entries:
        is_model = held.kind in MODEL_KINDS
        turn += is_model and not before
        if is_model:
            ends[turn] = held.id
        if held.kind == "tool_call" and held.entry.call_id is not None:
            open_calls[held.entry.call_id] = turn
        elif held.kind == "tool_result":
            open_calls.pop(held.entry.call_id or "", None)
        if held.kind != "tool_result":
            last = turn if is_model else 0
        before = is_model
    found: dict[int, list[str]] = {}
    for call_id, place in open_calls.items():
        if place != last:
            found.setdefault(ends[place], []).append(call_id)
    return found
