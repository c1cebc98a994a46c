"""Bytes of the commands that the driver cannot send as this engine needs them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

__all__ = ["CREATE_TOPIC_COMMAND", "Option", "bool_option", "create_topic_body", "u32_option", "u64_option"]

CREATE_TOPIC_COMMAND: Final = 302

_BY_NAME: Final = 2
_KEY_KIND: Final = 2
_BOOL, _U32, _U64 = 3, 11, 12

Option = tuple[str, int, bytes]
"""Key, kind of the value (as header blocks number kinds), and the value."""


def bool_option(key: str, value: bool) -> Option:
    """An option that is true or false."""
    return key, _BOOL, b"\1" if value else b"\0"


def u32_option(key: str, value: int) -> Option:
    """An option of unsigned 32 bits."""
    return key, _U32, struct.pack("<I", value)


def u64_option(key: str, value: int) -> Option:
    """An option of unsigned 64 bits."""
    return key, _U64, struct.pack("<Q", value)


def create_topic_body(stream: str, topic: str, partitions: int, options: Iterable[Option]) -> bytes:
    """The body of ``CREATE_TOPIC_COMMAND``: the stream by its name, then partitions, name and options.

    The driver's own ``create_topic`` always sends keys that a server of 0.9.0-edge.5 refuses.
    """
    in_stream, name = stream.encode(), topic.encode()
    parts = [bytes([_BY_NAME, len(in_stream)]), in_stream, struct.pack("<I", partitions), bytes([len(name)]), name]
    for key, kind, value in options:
        data = key.encode()
        parts += (struct.pack("<BI", _KEY_KIND, len(data)), data, struct.pack("<BI", kind, len(value)), value)
    return b"".join(parts)
