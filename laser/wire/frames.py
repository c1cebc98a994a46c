"""Frames: how content that the log cannot hold as it is goes onto it.

The broker refuses an empty payload. Empty content is stored as one zero byte with a header that says so, the same
on every engine, so that a log can be copied between them. Content that is kept elsewhere leaves a reference
(``laser.wire.content``).
"""

from __future__ import annotations

from typing import Final

from laser.errors import CodecError
from laser.wire.blocks import STRING, Header, decode_block

__all__ = ["CONTENT_FRAME", "EMPTY_FRAME", "EMPTY_PAYLOAD", "is_reference", "unframe"]

_FRAME_KEY: Final = b"laser.frame"

EMPTY_FRAME: Final = Header(_FRAME_KEY, STRING, b"empty")
"""The header of a record whose content is empty."""

CONTENT_FRAME: Final = Header(_FRAME_KEY, STRING, b"content")
"""The header of a record that refers to content that is kept elsewhere."""

EMPTY_PAYLOAD: Final = b"\0"
"""The payload of a record whose content is empty."""


def unframe(block: bytes, payload: bytes) -> bytes:
    """The content of a record; of one that refers to content, the reference.

    Raises:
        CodecError: the record has a frame that this version does not know.
    """
    frame = _frame(block)
    if frame is None or frame == CONTENT_FRAME:
        return payload
    if frame != EMPTY_FRAME or payload != EMPTY_PAYLOAD:
        raise CodecError(f"laser.frame: unknown frame {frame.value[:32]!r}; a newer laser may read it")
    return b""


def is_reference(block: bytes) -> bool:
    """Whether the record's payload is a reference to content.

    Raises:
        CodecError: the block cannot be read.
    """
    return _frame(block) == CONTENT_FRAME


def _frame(block: bytes) -> Header | None:
    if _FRAME_KEY not in block:
        return None
    for header in decode_block(block):
        if header.key == _FRAME_KEY and header.key_kind == STRING:
            return header
    return None
