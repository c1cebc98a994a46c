"""A record as a row: its place and its checksum."""

from __future__ import annotations

from typing import Final
from zlib import crc32

__all__ = ["OFFSET_MASK", "checksum", "position"]

_OFFSET_BITS: Final = 40
OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1
"""The bits of a row id that are the offset; those above are the partition's key. 2**40 records a partition."""


def position(key: int, offset: int) -> int:
    """The row id of a record."""
    return key << _OFFSET_BITS | offset


def checksum(pos: int, ts: int, record_id: bytes, headers: bytes, payload: bytes) -> int:
    """Ties a record's bytes to its place and time."""
    return crc32(payload, crc32(headers, crc32(record_id, (pos ^ ts) & 0xFFFFFFFF)))
