"""Header blocks as the driver's header values, and back."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from apache_iggy import HeaderKey, HeaderValue

from laser.errors import CodecError, InvalidError
from laser.wire.blocks import Header, decode_block, encode_block

__all__ = ["UNREADABLE", "Headers", "block_of", "headers_of"]

Headers = dict[HeaderKey, HeaderValue]

UNREADABLE: Final = b"\xff"
"""A block that no decoder accepts: stands for headers that the driver cannot show, so that the record is reported."""

_INTEGERS: Final = {
    "Int8": (4, 1, True),
    "Int16": (5, 2, True),
    "Int32": (6, 4, True),
    "Int64": (7, 8, True),
    "Int128": (8, 16, True),
    "UnsignedInt8": (9, 1, False),
    "UnsignedInt16": (10, 2, False),
    "UnsignedInt32": (11, 4, False),
    "UnsignedInt64": (12, 8, False),
    "UnsignedInt128": (13, 16, False),
}


def _finite(form: str, data: bytes) -> float:
    number = float(struct.unpack(form, data)[0])
    if not math.isfinite(number):
        raise ValueError(f"a float is {number}; Iggy takes finite ones")
    return number


def _integer_packer(width: int, signed: bool) -> Callable[[Any], bytes]:
    return lambda value: int(value).to_bytes(width, "little", signed=signed)


def _integer_reader(signed: bool) -> Callable[[bytes], Any]:
    return lambda data: int.from_bytes(data, "little", signed=signed)


_Kind = tuple[str, Callable[[bytes], Any], Callable[[Any], bytes]]
"""Of a kind of header: its name in the driver, from bytes to Python, and from Python to bytes."""

_PLAIN: Final[dict[int, _Kind]] = {
    1: ("Raw", bytes, bytes),
    2: ("String", bytes.decode, str.encode),
    3: ("Bool", lambda data: data != b"\0", lambda value: b"\1" if value else b"\0"),
    14: ("Float32", lambda data: _finite("<f", data), lambda value: struct.pack("<f", value)),
    15: ("Float64", lambda data: _finite("<d", data), lambda value: struct.pack("<d", value)),
}
_NUMBERS: Final[dict[int, _Kind]] = {
    kind: (name, _integer_reader(signed), _integer_packer(width, signed))
    for name, (kind, width, signed) in _INTEGERS.items()
}
_KINDS: Final = _PLAIN | _NUMBERS
_MAKE_KEY: Final = {kind: (getattr(HeaderKey, name), read) for kind, (name, read, _) in _KINDS.items()}
_MAKE_VALUE: Final = {kind: (getattr(HeaderValue, name), read) for kind, (name, read, _) in _KINDS.items()}
_PACK: Final[dict[type, tuple[int, Callable[[Any], bytes]]]] = {
    getattr(side, name): (kind, pack) for side in (HeaderKey, HeaderValue) for kind, (name, _, pack) in _KINDS.items()
}


@lru_cache(maxsize=8192)
def headers_of(block: bytes) -> Headers | None:
    """The driver's form of a header block; ``None`` for an empty one. Not to be changed: it is shared.

    Raises:
        InvalidError: the block is damaged, or holds what the driver refuses: text that is not UTF-8, a float that is
            not finite.
    """
    if not block:
        return None
    headers: Headers = {}
    try:
        for header in decode_block(block):
            key, read_key = _MAKE_KEY[header.key_kind]
            value, read_value = _MAKE_VALUE[header.kind]
            headers[key(read_key(header.key))] = value(read_value(header.value))
    except (CodecError, ValueError) as error:
        raise InvalidError(f"headers: {error}", argument="headers") from error
    return headers


def block_of(headers: Headers) -> bytes:
    """The header block of the driver's headers, in their order."""
    entries = []
    for key, value in headers.items():
        key_kind, pack_key = _PACK[type(key)]
        kind, pack_value = _PACK[type(value)]
        # The driver's kinds all have this attribute; its stub declares it on each of them only.
        entries.append(Header(pack_key(key.value), kind, pack_value(value.value), key_kind))  # type: ignore[attr-defined]
    return encode_block(entries)
