"""Content that a session holds because entries of its active context refer to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from laser.content.content import Content, check_content
from laser.errors import InvalidError
from laser.limits import MAX_ENTRY_BYTES
from laser.model.content import ContentRef
from laser.session.active.entries import NewEntry

__all__ = ["hold_for", "keep_large", "session_holder"]

_TEXT: Final = "text/plain"
_JSON: Final = "application/json"


def session_holder(session: str) -> str:
    """The name under which a session holds content that entries of its active context refer to."""
    return f"session:{session}"


async def hold_for(content: Content | None, session: str, refs: Sequence[ContentRef]) -> None:
    """Holds for a fork what its copies are about to refer to.

    Raises:
        InvalidError: there is something to hold, and no content was given.
    """
    if not refs:
        return
    if content is None:
        raise InvalidError(
            "content: the session refers to content; give laser.content(tenant), so that the fork holds it too",
            argument="content",
        )
    check_content(content, "content")
    await content.hold(session_holder(session), refs)


async def keep_large(content: Content, session: str, entries: Sequence[NewEntry]) -> list[NewEntry]:
    """Puts what is too large to stand in an event into content that the session holds, and refers to it."""
    check_content(content, "content")
    kept: list[NewEntry] = []
    for entry in entries:
        if entry.payload is not None and len(entry.payload) > MAX_ENTRY_BYTES:
            media_type = entry.media_type or (_TEXT if entry.api is None else _JSON)
            ref = await content.put(entry.payload, media_type=media_type)
            await content.hold(session_holder(session), [ref])
            entry = msgspec.structs.replace(entry, payload=None, ref=ref)
        kept.append(entry)
    return kept
