"""The page of a session's transcript."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

import laser as ls
from laser.compaction.text import payload_text
from laser.inspector.cursors import pack, unpack
from laser.inspector.layout import block, moment, page
from laser.inspector.markup import Markup, tag
from laser.inspector.room import Room, number_of, session_of
from laser.model.chat import chat_facts

__all__ = ["transcript_page"]

_PAGE: Final = 50


async def transcript_page(room: Room, request: Request) -> bytes:
    """Messages, oldest first: the newest page, the one before a cursor, or what came after one."""
    chosen = session_of(request)
    limit = number_of(request, "limit", _PAGE, 1, 1_000) or _PAGE
    whole = request.query_params.get("whole") == "1"
    before, after = (unpack(request.query_params.get(name), name) for name in ("before", "after"))
    session = await room.laser.sessions().open(chosen)
    found = await session.transcript(limit=limit, before=before, after=after)
    size = None if limit == _PAGE else limit
    to = room.links.to
    shown = {"limit": size, "whole": 1 if whole else None}

    def link(label: str, **query: object) -> Markup:
        return tag("a", label, href=to("s", chosen, "transcript", **{**shown, **query}))

    pages = [link("older", before=pack(found.older))] if found.older is not None else []
    pages += [link("newest")] if before is not None or after is not None else []
    # An older page has the place where what is new begins, not where it ends itself.
    pages += [link("what came since", after=pack(found.live))] if before is None else []
    same = {name: request.query_params.get(name) for name in ("before", "after")}
    pages.append(link("cut long texts" if whole else "whole texts", **{**same, "whole": None if whole else 1}))
    body = [_message(message, whole) for message in found.messages]
    empty = tag("p", "Nothing new." if after is not None else "No messages.", class_="dim")
    skipped = [
        tag("p", f"{one.topic} {one.partition}:{one.offset} cannot be read: {one.reason}", class_="note")
        for one in found.skipped
    ]
    steps = tag("div", pages, class_="pages")
    return page(
        room.links, "transcript", steps, skipped, body or empty, steps if body else None, session=chosen,
        tab="transcript",
    )  # fmt: skip


def _message(message: ls.ContextMessage, whole: bool) -> Markup:
    if message.content is not None:
        kept = message.content
        role = None
        text = f"[{kept.ref.media_type}, {kept.size:,} bytes kept as content] {kept.preview}".rstrip()
    else:
        role = chat_facts(message.payload).role
        text = payload_text(message.payload)
    head = tag(
        "header",
        tag("b", role or "message"),
        tag("span", message.provenance.agent or "(no agent)"),
        tag("span", moment(message.timestamp_micros), class_="dim"),
        tag("code", message.id, class_="dim"),
    )
    return tag("article", head, block(text, whole=whole))
