"""Strict CBOR: definite lengths, no tags, no duplicate keys, nothing after the end, bounded depth."""

from __future__ import annotations

from io import BytesIO
from typing import Any, Final, NoReturn

import cbor2

from laser.errors import CodecError

__all__ = ["decode_cbor", "encode_cbor"]

_MAX_DEPTH: Final = 64
_LEAVES: Final = frozenset({int, float, str, bytes, bool, type(None)})
_CONTAINERS: Final = frozenset({dict, list})

# The tags that cbor2 decodes by itself. Several are traps in data from outside: 4 and 5 make numbers whose int()
# never ends, 28 and 29 cyclic values, 35 regular expressions. None of laser's formats uses a tag.
_BUILT_IN_TAGS: Final = (
    0,
    1,
    2,
    3,
    4,
    5,
    25,
    28,
    29,
    30,
    35,
    36,
    37,
    52,
    54,
    100,
    256,
    258,
    260,
    261,
    1004,
    43000,
    55799,
)


def encode_cbor(value: object) -> bytes:
    """The CBOR bytes of plain data, map keys in insertion order."""
    return cbor2.dumps(value)


def decode_cbor(data: bytes) -> Any:
    """The one value that the bytes hold.

    Raises:
        CodecError: anything that is not one complete, plain, definite-length CBOR value.
    """
    decoder = cbor2.CBORDecoder(
        BytesIO(data),
        tag_hook=_refuse_unknown_tag,
        semantic_decoders=_REFUSE_BUILT_IN,
        max_depth=_MAX_DEPTH,
        allow_indefinite=False,
        allow_duplicate_keys=False,
        strict_hashable_types=True,
    )
    try:
        value = decoder.decode()
        extra = _has_more(decoder)
    except (cbor2.CBORError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise CodecError(f"not strict CBOR: {type(error).__name__}: {str(error)[:200]}") from error
    if extra:
        raise CodecError("not strict CBOR: bytes follow the value")
    if not _is_plain(value):
        raise CodecError("not strict CBOR: holds a simple value that is no boolean and no null")
    return value


def _is_plain(value: object) -> bool:
    # "undefined" and numbered simple values come as types of cbor2's own, which must not leave this module.
    stack: list[Any] = [(value,)]
    while stack:
        values = stack.pop()
        kinds = set(map(type, values)) - _LEAVES
        if not kinds <= _CONTAINERS:
            return False
        if kinds:
            stack.extend(item.values() if type(item) is dict else item for item in values if type(item) in _CONTAINERS)
    return True


def _has_more(decoder: cbor2.CBORDecoder) -> bool:
    try:
        return bool(decoder.read(1))
    except cbor2.CBORDecodeEOF:
        return False


def _refuse_unknown_tag(tag: cbor2.CBORTag, *_: object) -> NoReturn:
    raise cbor2.CBORDecodeError("tags are refused")


def _refuse_tag(*_: object) -> NoReturn:
    raise cbor2.CBORDecodeError("tags are refused")


_REFUSE_BUILT_IN: Final = dict.fromkeys(_BUILT_IN_TAGS, _refuse_tag)
