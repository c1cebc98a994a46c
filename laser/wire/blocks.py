"""Header blocks: the bytes in which Apache Iggy stores a record's headers.

A block is a run of entries: key kind (u8), key length (u32 little-endian), key, value kind (u8), value length (u32
little-endian), value. Every engine of laser stores headers in this form, so one decoder serves them all.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import msgspec

from laser.errors import CodecError, LimitError
from laser.limits import MAX_HEADER_BYTES

__all__ = ["BOOL", "FLOAT64", "STRING", "UINT32", "UINT64", "Header", "decode_block", "encode_block"]

RAW: Final = 1
STRING: Final = 2
BOOL: Final = 3
UINT32: Final = 11
UINT64: Final = 12
FLOAT64: Final = 15

_WIDTHS: Final = {3: 1, 4: 1, 5: 2, 6: 4, 7: 8, 8: 16, 9: 1, 10: 2, 11: 4, 12: 8, 13: 16, 14: 4, 15: 8}
_PREFIX: Final = struct.Struct("<BI")


class Header(msgspec.Struct, frozen=True, gc=False):
    """One entry of a block: kinds as Iggy numbers them (1 raw, 2 string, 3 bool, 4 to 13 integers, 14 and 15 floats).

    Attributes:
        key, value: raw bytes, numbers little-endian.
    """

    key: bytes
    kind: int
    value: bytes
    key_kind: int = STRING


def encode_block(headers: Iterable[Header]) -> bytes:
    """The block of the given headers, in the given order.

    Raises:
        LimitError: a key or value that is empty or over ``MAX_HEADER_BYTES``.
    """
    parts: list[bytes] = []
    for header in headers:
        for name, data in (("key", header.key), ("value", header.value)):
            if not 1 <= len(data) <= MAX_HEADER_BYTES:
                raise LimitError(
                    f"header {header.key[:64]!r}: its {name} has {len(data)} bytes, allowed are 1 to 255",
                    argument="headers",
                    size=len(data),
                    limit=MAX_HEADER_BYTES,
                )
        parts += (
            _PREFIX.pack(header.key_kind, len(header.key)),
            header.key,
            _PREFIX.pack(header.kind, len(header.value)),
            header.value,
        )
    return b"".join(parts)


def decode_block(block: bytes) -> list[Header]:
    """The headers of a block, in stored order.

    Raises:
        CodecError: the block is cut short, has an unknown kind, a length that its kind does not allow, or one key
            twice.
    """
    return list(_decode(block))


# Readers of different headers come one after the other with the same block.
@lru_cache(maxsize=2)
def _decode(block: bytes) -> tuple[Header, ...]:
    headers: list[Header] = []
    seen: set[tuple[int, bytes]] = set()
    at, size = 0, len(block)
    while at < size:
        key_kind, key, at = _field(block, at, size)
        kind, value, at = _field(block, at, size)
        if (key_kind, key) in seen:
            raise CodecError(f"header block: key {key[:64]!r} stands twice")
        seen.add((key_kind, key))
        headers.append(Header(key, kind, value, key_kind))
    return tuple(headers)


def _field(block: bytes, at: int, size: int) -> tuple[int, bytes, int]:
    if size - at < 5:
        raise CodecError(f"header block: cut short at byte {at} of {size}")
    kind, length = _PREFIX.unpack_from(block, at)
    at += 5
    if not 1 <= length <= MAX_HEADER_BYTES or length > size - at:
        raise CodecError(f"header block: length {length} at byte {at} of {size} is not possible")
    width = _WIDTHS.get(kind)
    if width is None:
        if kind not in (RAW, STRING):
            raise CodecError(f"header block: unknown kind {kind} at byte {at - 5}")
    elif width != length:
        raise CodecError(f"header block: kind {kind} takes {width} bytes, found {length}")
    return kind, block[at : at + length], at + length
