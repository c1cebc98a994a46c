"""The pages of a session's compactions: the next request, what was done so far, and the tree of summaries."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

import laser as ls
from laser.compaction.compaction import Compaction
from laser.compaction.inputs import ContextObservation, PreparedRequest
from laser.compaction.lcm.pages import FoldInfo
from laser.inspector.layout import block, facts, moment, page, table, tokens
from laser.inspector.markup import Markup, tag
from laser.inspector.room import Room, number_of, session_of
from laser.limits import MAX_LCM_PAGE
from laser.prompt.notes import NativeNote, read_notes

__all__ = ["compaction_page", "fold_page", "model_form", "preview"]

_ROWS: Final = 50
_MAX_NODES: Final = 2_000
_MAX_STEPS: Final = 500
_DEEPEST: Final = 12
_LINE: Final = 160


async def compaction_page(room: Room, request: Request) -> bytes:
    """Sections of the next request, the history of compactions, and summaries as a tree."""
    chosen = session_of(request)
    handle = room.compaction(chosen)
    found = await preview(handle, request)
    steps = await handle.steps()
    rows = [
        (
            moment(step.at_micros),
            step.strategy or "none",
            step.kind,
            tokens(step.before) if step.before else "-",
            tokens(step.after) if step.after else "-",
            step.reason,
        )
        for step in reversed(steps[-_MAX_STEPS:])
    ]
    gone = len(steps) - len(rows)
    nodes, more = await _nodes(handle)
    native = (await read_notes(room.laser, room.laser.context(chosen))).native
    return page(
        room.links,
        "compaction",
        model_form(room, request, chosen, "compaction"),
        tag("h2", "the next request, estimated tokens"),
        tag("p", found, class_="note") if isinstance(found, str) else _request(found.observation),
        tag("h2", f"history ({len(steps)})"),
        table(("when", "strategy", "what", "tokens before", "after", "why"), rows, numbers=(3, 4)),
        tag("p", f"… {gone:,} earlier ones", class_="dim") if gone else None,
        None if native is None else _native(native),
        tag("h2", f"summaries of lcm ({len(nodes)}{'+' if more else ''})"),
        _tree(room, chosen, nodes),
        tag("p", f"… more than {_MAX_NODES:,}; laser lcm list has all", class_="dim") if more else None,
        session=chosen,
        tab="compaction",
    )


async def fold_page(room: Room, request: Request) -> bytes:
    """A summary, and the messages that it stands for."""
    chosen = session_of(request)
    node = int(request.path_params["node"])
    tools = room.compaction(chosen).lcm
    fold = await tools.describe(node)
    limit = number_of(request, "limit", _ROWS, 1, MAX_LCM_PAGE) or _ROWS
    rows = await tools.expand(node, after=request.query_params.get("after") or None, limit=limit)
    more = None
    if rows.next is not None:
        size = None if limit == _ROWS else limit
        more = tag("a", "on", href=room.links.to("s", chosen, "lcm", node, after=rows.next, limit=size))
    parts = [
        tag(
            "article",
            tag(
                "header",
                tag("b", row.role or "message"),
                tag("code", f"row {row.seq}{'' if row.whole else f', from character {row.start:,}'}", class_="dim"),
            ),
            block(row.text, whole=True),
        )
        for row in rows.rows
    ]
    return page(
        room.links,
        f"summary {node}",
        facts(
            ("level", fold.level),
            ("part of", None if fold.parent is None else _link(room, chosen, fold.parent)),
            ("made of", [(_link(room, chosen, child), " ") for child in fold.children] or None),
            ("stands for", f"{fold.rows:,} messages, rows {_spans(fold)}, {tokens(fold.tokens)} tokens"),
            ("summary", "none shorter than its source could be had" if fold.pointer else None),
        ),
        block(fold.text, whole=True),
        tag("h2", "messages"),
        parts or tag("p", "none", class_="dim"),
        tag("div", more, class_="pages"),
        session=chosen,
        tab="compaction",
    )


async def preview(handle: Compaction, request: Request) -> PreparedRequest | str:
    """The next request for the model that the query describes; why it cannot be shown where it cannot."""
    window = number_of(request, "window", None, 1, 10**12)
    provider = request.query_params.get("provider", "").strip() or None
    images = {"yes": True, "no": False}.get(request.query_params.get("images", ""))
    try:
        return await handle.preview(window=window, provider=provider, images=images)
    except (ls.NotFoundError, ls.ConfigError, ls.CompactionError) as error:
        # A strategy of the program's own, drawing without Pillow: the rest of the page can be shown all the same.
        return str(error)


def model_form(room: Room, request: Request, session: str, tab: str) -> Markup:
    """Asks for what is known of the model: its window, its provider, whether it reads images."""
    query = request.query_params
    chosen = query.get("images", "")
    options = [
        tag("option", label, value=value, selected=value == chosen)
        for value, label in (("", "unknown"), ("yes", "yes"), ("no", "no"))
    ]
    window = tag("input", name="window", value=query.get("window", ""), size=9, inputmode="numeric")
    return tag(
        "form",
        tag("label", "window of the model, tokens", window),
        tag("label", "provider", tag("input", name="provider", value=query.get("provider", ""), size=16)),
        tag("label", "reads images", tag("select", options, name="images")),
        tag("button", "show", type="submit"),
        action=room.links.to("s", session, tab),
        method="get",
    )


def _request(seen: ContextObservation) -> list[Markup]:
    about = facts(
        ("strategy", seen.strategy or "none"),
        ("status", seen.status.replace("_", " ")),
        ("note", seen.note or None),
        ("window", "unknown" if seen.window is None else f"{seen.window:,}"),
        ("compacted from", None if seen.trigger is None else f"{seen.trigger:,}"),
        ("tokens", f"{seen.tokens:,} of {seen.full_tokens:,} with every message"),
        ("over the window", "yes" if seen.over_window else None),
        ("messages", f"{seen.rows:,}, of which summaries stand for {seen.covered:,}"),
    )
    rows = [
        (one.kind, one.inputs, tokens(one.tokens), "-" if one.first is None else f"{one.first}-{one.last}")
        for one in seen.sections
    ]
    return [about, table(("section", "inputs", "tokens", "rows"), rows, numbers=(1, 2))]


def _native(note: NativeNote) -> list[Markup]:
    """Opaque state of a provider, which prompts for its own model show in the place of the summaries."""
    model = note.model
    return [
        tag("h2", "opaque state of a provider"),
        facts(
            ("for", f"{model.provider_id}, {model.api_kind}, {model.model}"),
            ("stands for", f"{note.messages:,} messages, the last one at {note.partition}:{note.offset}"),
            ("made", f"{note.runs:,} times"),
        ),
    ]


async def _nodes(handle: Compaction) -> tuple[dict[int, FoldInfo], bool]:
    found: dict[int, FoldInfo] = {}
    after: int | None = 0
    while after is not None:
        if len(found) >= _MAX_NODES:
            return found, True
        listed = await handle.lcm.list(after=after, limit=200)
        found.update((fold.number, fold) for fold in listed.folds)
        after = listed.next
    return found, False


def _tree(room: Room, session: str, nodes: dict[int, FoldInfo]) -> Markup:
    """Parents before their children, each level further in. A list, because a log may hold any depth."""
    tops = sorted((fold for fold in nodes.values() if fold.parent not in nodes), key=_place, reverse=True)
    waiting = [(fold, 0) for fold in tops]
    lines: list[Markup] = []
    while waiting:
        fold, depth = waiting.pop()
        first = next(iter(fold.text.splitlines()), "")
        made = f"of {len(fold.children)} summaries" if fold.children else "of messages"
        about = f" {made}, rows {_spans(fold)}, {tokens(fold.tokens)} tokens: "
        words = [tag("span", about, class_="dim"), first[:_LINE], "…" if len(first) > _LINE else None]
        lines.append(tag("li", _link(room, session, fold.number), words, class_=f"d{min(depth, _DEEPEST)}"))
        below = sorted((nodes[child] for child in fold.children if child in nodes), key=_place, reverse=True)
        waiting += [(child, depth + 1) for child in below]
    return tag("ul", lines, class_="tree") if lines else tag("p", "none", class_="dim")


def _link(room: Room, session: str, node: int) -> Markup:
    return tag("a", f"summary {node}", href=room.links.to("s", session, "lcm", node))


def _spans(fold: FoldInfo) -> str:
    return ", ".join(f"{first}-{last}" for first, last in fold.spans)


def _place(fold: FoldInfo) -> tuple[int, int]:
    return (fold.spans[0][0] if fold.spans else 0), fold.number
