"""The page of all sessions, and the one of a single session."""

from __future__ import annotations

from typing import Any, Final, cast

import orjson
from starlette.requests import Request

import laser as ls
from laser.inspector.layout import block, facts, moment, page, table, tokens
from laser.inspector.markup import Markup, tag
from laser.inspector.room import Room, number_of, session_of
from laser.session.lifecycle import SESSION_STATES

__all__ = ["session_page", "sessions_page"]

_RUNS: Final = 20


async def sessions_page(room: Room, request: Request) -> bytes:
    """Sessions, newest first."""
    state = request.query_params.get("state") or None
    limit = number_of(request, "limit", 100, 1, 10_000) or 100
    # The client refuses a state that it does not know.
    found = await room.laser.sessions().list(state=cast("ls.SessionState | None", state), limit=limit)
    rows = [
        (
            tag("a", tag("code", status.id), href=room.links.to("s", status.id)),
            status.state,
            moment(status.started_at_micros),
            moment(status.finished_at_micros),
            status.agent or "-",
            status.label or "-",
        )
        for status in found
    ]
    states = [
        tag("option", name, value="" if name == "all" else name, selected=name == (state or "all"))
        for name in ("all", *SESSION_STATES)
    ]
    forms = [
        tag(
            "form",
            tag("label", "state", tag("select", states, name="state")),
            tag("label", "newest", tag("input", name="limit", value=limit, size=6, inputmode="numeric")),
            tag("button", "show", type="submit"),
            action=room.links.to(),
            method="get",
        ),
        tag(
            "form",
            tag("label", "a conversation, by its id or @KEY", tag("input", name="id", size=30)),
            tag("button", "open", type="submit"),
            action=room.links.to("open"),
            method="get",
        ),
    ]
    end = tag("p", "There may be older ones: show more.", class_="dim") if len(found) == limit else None
    columns = ("session", "state", "started", "finished", "agent", "label")
    return page(room.links, f"sessions of stream {room.laser.stream}", forms, table(columns, rows), end)


async def session_page(room: Room, request: Request) -> bytes:
    """How a session stands, its children and its runs."""
    chosen = session_of(request)
    try:
        session = await room.laser.sessions().open(chosen)
    except ls.NotFoundError as error:
        # Conversations that are no sessions can still be compacted, and prompted for.
        note = tag("p", str(error), class_="note")
        return page(room.links, "conversation", note, session=chosen, tab="session")
    status = await session.status()
    children = await room.laser.sessions().list(parent=chosen)
    about = facts(
        ("state", status.state),
        ("label", status.label),
        ("agent", status.agent),
        ("parent", _link(room, status.parent)),
        ("root", _link(room, status.root)),
        ("fork of", _origin(room, status)),
        ("started", moment(status.started_at_micros)),
        ("finished", None if status.finished_at_micros is None else moment(status.finished_at_micros)),
        ("error", None if status.error is None else block(_text(status.error))),
    )
    shown = [(_link(room, child.id), child.state, child.label or "-") for child in children]
    return page(
        room.links,
        "session",
        about,
        tag("h2", "runs"),
        await _runs(session),
        tag("h2", "children"),
        table(("session", "state", "label"), shown),
        session=chosen,
        tab="session",
    )


async def _runs(session: ls.Session) -> Markup:
    try:
        runs = await session.runs(limit=_RUNS)
    except ls.RetentionGapError as error:
        return tag("p", str(error), class_="note")
    rows = [
        (
            tag("code", run.id),
            run.state,
            moment(run.started_at_micros),
            moment(run.finished_at_micros),
            len(run.turns),
            ", ".join(f"{name} {tokens(count)}" for name, count in run.usage.items()) or "-",
        )
        for run in runs
    ]
    columns = ("run", "state", "started", "finished", "turns", "tokens that the provider counted")
    return table(columns, rows, numbers=(4,))


def _link(room: Room, session: str | None) -> Markup | None:
    return None if session is None else tag("a", tag("code", session), href=room.links.to("s", session))


def _origin(room: Room, status: ls.SessionStatus) -> Any:
    if status.origin is None:
        return None
    return _link(room, status.origin.session), f", {status.origin.messages:,} messages"


def _text(error: Any) -> str:
    return error if isinstance(error, str) else orjson.dumps(error, option=orjson.OPT_INDENT_2).decode()
