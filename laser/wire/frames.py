"""Frames: how content that the log cannot hold as it is goes onto it.

The broker refuses an empty payload. Empty content is stored as one zero byte with a header that says so, the same
on every engine, so that a log can be copied between them.
"""

from __future__ import annotations

from typing import Final

from laser.errors import CodecError
from laser.wire.blocks import STRING, Header, decode_block

__all__ = ["EMPTY_FRAME", "EMPTY_PAYLOAD", "unframe"]

_FRAME_KEY: Final = b"laser.frame"

EMPTY_FRAME: Final = Header(_FRAME_KEY, STRING, b"empty")
"""The header of a record whose content is empty."""

EMPTY_PAYLOAD: Final = b"\0"
"""The payload of a record whose content is empty."""


def unframe(block: bytes, payload: bytes) -> bytes:
    """The content of a record.

    Raises:
        CodecError: the record has a frame that this version does not know.
    """
    if _FRAME_KEY not in block:
        return payload
    for header in decode_block(block):
        if header.key == _FRAME_KEY and header.key_kind == STRING:
            if header != EMPTY_FRAME or payload != EMPTY_PAYLOAD:
                raise CodecError(f"laser.frame: unknown frame {header.value[:32]!r}; a newer laser may read it")
            return b""
    return payload
