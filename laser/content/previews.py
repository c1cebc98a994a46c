"""What an entry says of content by itself: the beginning of a text, for people, and what it costs a model."""

from __future__ import annotations

import re
from typing import Final

from laser.model.content import ContentEntry, ContentRef
from laser.ports.estimator import estimate_tokens

__all__ = ["PREVIEW_BYTES", "describe", "is_text", "preview_of"]

PREVIEW_BYTES: Final = 256
"""Bytes of content that a preview shows, where nobody gives another one."""

_TEXT: Final = re.compile(r"text/|application/(json|xml|yaml|x-ndjson|javascript)\b|[^;]*\+(json|xml)\b", re.IGNORECASE)


def is_text(media_type: str) -> bool:
    """Whether bytes of this type are for people to read."""
    return _TEXT.match(media_type) is not None


def preview_of(data: bytes) -> str:
    """The beginning of a text; nothing of bytes that are none."""
    head = data[:PREVIEW_BYTES]
    try:
        return head.decode()
    except UnicodeDecodeError as error:
        # The cut may have gone through a character.
        if error.start < len(head) - 3 or error.reason not in ("unexpected end of data",):
            return ""
        return head[: error.start].decode()


def describe(ref: ContentRef, data: bytes, entry_id: str) -> ContentEntry:
    """The entry of an appended payload. One that is text counts as text, whatever its type."""
    preview = preview_of(data)
    tokens = estimate_tokens(data) if preview else None
    return ContentEntry(ref, len(data), tokens, "message", "append", entry_id, preview)
