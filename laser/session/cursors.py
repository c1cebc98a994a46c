"""Cursors of a transcript: where an older page ends, and where what is new begins."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import orjson

from laser.errors import CodecError, InvalidError
from laser.model.checkpoint import Checkpoint

__all__ = ["OlderCursor", "parse_cursor", "parse_live"]

_VERSION: Final = 1


class OlderCursor(msgspec.Struct, frozen=True):
    """Where an older page ends: the offset before which each partition goes on, and those with messages of the
    conversation so far."""

    conversation: str
    live: str
    before: dict[str, int]
    seen: tuple[int, ...]
    version: int = _VERSION

    @property
    def bounds(self) -> dict[int, int]:
        """``before`` by partition."""
        return {int(partition): offset for partition, offset in self.before.items()}

    def text(self) -> str:
        """The cursor as users get it."""
        return orjson.dumps(msgspec.to_builtins(self)).decode()


def parse_live(text: str, argument: str) -> Checkpoint:
    """The cursor in ``TranscriptPage.live``.

    Raises:
        InvalidError: it is none.
    """
    try:
        return Checkpoint.from_json(text)
    except CodecError as error:
        raise InvalidError(
            f"{argument}: not a cursor of a transcript: {str(error)[:200]}", argument=argument
        ) from error


def parse_cursor(text: str, conversation: str) -> OlderCursor:
    """The cursor in ``TranscriptPage.older``.

    Raises:
        InvalidError: it is none, or of another conversation.
    """
    try:
        value: Any = orjson.loads(text)
        cursor = msgspec.convert(value, OlderCursor)
        bounds = {int(partition): offset for partition, offset in cursor.before.items()}
    except (ValueError, TypeError, msgspec.ValidationError) as error:
        raise InvalidError(
            f"before: not a cursor of a transcript, take TranscriptPage.older: {str(error)[:200]}", argument="before"
        ) from error
    if cursor.version != _VERSION or any(offset < 0 or partition < 0 for partition, offset in bounds.items()):
        raise InvalidError("before: a cursor of another version, or damaged", argument="before")
    if cursor.conversation != conversation:
        raise InvalidError(f"before: a cursor of session {cursor.conversation:.40}", argument="before")
    return cursor
