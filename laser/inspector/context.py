"""The page of a session's active context: what its next model call will consume."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request

import laser as ls
from laser.inspector.layout import block, facts, page, table, tokens
from laser.inspector.markup import Markup, tag
from laser.inspector.room import Room, session_of
from laser.session.active.entries import ENTRY_KINDS

__all__ = ["context_page"]


async def context_page(room: Room, request: Request) -> bytes:
    """Entries by section, tokens by category as estimated, and apart from them what the provider counted."""
    chosen = session_of(request)
    whole = request.query_params.get("whole") == "1"
    state = (await (await room.laser.sessions().open(chosen)).read()).context
    instructions = [held for held in state.entries if held.kind == "instruction"]
    rest = [held for held in state.entries if held.kind != "instruction"]
    run = None if state.run is None else f"{state.run.id}: {state.run.state}, {state.run.turns} turns"
    pending = None if state.pending is None else f"{state.pending.request}, of revision {state.pending.revision}"
    other = room.links.to("s", chosen, "context", whole=None if whole else 1)
    return page(
        room.links,
        "context",
        facts(
            ("revision", state.revision),
            ("run", run),
            ("compaction under way", pending),
            ("inputs that wait", len(state.steering) or None),
        ),
        tag("h2", "estimated tokens"),
        _estimated(state),
        tag("h2", "tokens that the provider counted"),
        _measured(state),
        tag("div", tag("a", "cut long texts" if whole else "whole texts", href=other), class_="pages"),
        tag("h2", f"instructions ({len(instructions)})"),
        [_entry(held, whole) for held in instructions] or _none(),
        tag("h2", f"conversation ({len(rest)})"),
        [_entry(held, whole) for held in rest] or _none(),
        session=chosen,
        tab="context",
    )


def _estimated(state: ls.ActiveState) -> Markup:
    rows: list[Sequence[object]] = []
    for kind in ENTRY_KINDS:
        entries = [held for held in state.entries if held.kind == kind]
        if entries:
            counts = [held.entry.tokens for held in entries if held.entry.tokens is not None]
            rows.append((kind, len(entries), tokens(sum(counts) if counts else None), len(entries) - len(counts) or ""))
    rows.append(("all", len(state.entries), tokens(state.tokens), ""))
    rows.append(("of these may be compacted", "", tokens(ls.compactable_tokens(state.entries)), ""))
    return table(("category", "entries", "tokens", "without an estimate"), rows, numbers=(1, 2, 3))


def _measured(state: ls.ActiveState) -> Markup:
    usage = {} if state.run is None else state.run.usage
    if not usage:
        return tag("p", "Nothing yet: no turn was finished with its usage.", class_="dim")
    return table(
        ("over the turns of the last run", "tokens"), [(name, f"{n:,}") for name, n in usage.items()], numbers=(1,)
    )


def _entry(held: ls.ContextEntry, whole: bool) -> Markup:
    entry = held.entry
    marks = [
        *([f"key {entry.key}"] if entry.key is not None else []),
        *([f"from {entry.source}"] if entry.source is not None else []),
        *([f"origin {entry.origin}"] if entry.origin is not None else []),
        *([f"{entry.api} native"] if entry.api is not None else []),
        *(["superseded"] if held.superseded else []),
        *([f"goes with run {held.run}"] if held.run is not None else []),
        f"about {tokens(entry.tokens)} tokens",
    ]
    text = held.text if entry.ref is None else f"content {entry.ref.digest} ({entry.ref.media_type})"
    head = tag("header", tag("b", held.kind), tag("span", f"[{held.id}]"), tag("span", ", ".join(marks), class_="dim"))
    return tag("article", head, block(text, whole=whole))


def _none() -> Markup:
    return tag("p", "none", class_="dim")
