"""Cursors of transcripts in addresses: they name every partition of a topic, so they are packed."""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Final

from laser.errors import InvalidError

__all__ = ["pack", "unpack"]

_MOST: Final = 1_000_000


def pack(cursor: str | None) -> str | None:
    """A cursor for an address."""
    return None if cursor is None else base64.urlsafe_b64encode(zlib.compress(cursor.encode(), 9)).decode()


def unpack(text: str | None, argument: str) -> str | None:
    """The cursor of an address; ``None`` for none.

    Raises:
        InvalidError: it was not made by ``pack``.
    """
    if not text:
        return None
    try:
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(base64.b64decode(text.encode(), b"-_", validate=True), _MOST)
        if not unpacking.eof:
            raise ValueError("too long, or cut short")
        return data.decode()
    except (ValueError, binascii.Error, zlib.error) as error:
        raise InvalidError(f"{argument}: not a cursor of these pages; follow their links", argument=argument) from error
