"""Provenance as record headers, byte for byte as laser-sdk 0.8 writes them."""

from __future__ import annotations

import math
import re
import struct
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from laser.errors import CodecError, IdError, LimitError, ProvenanceError
from laser.limits import HEADER_FRAMING_BYTES, MAX_HEADER_BYTES, MAX_PROVENANCE_BYTES
from laser.model.ids import parse_conversation_id
from laser.model.provenance import Provenance
from laser.wire.blocks import FLOAT64, STRING, UINT64, Header, decode_block, encode_block

__all__ = [
    "CONVERSATION_KEY",
    "EVERYONE",
    "MAX_CACHED_BLOCK",
    "decode_provenance",
    "encode_provenance",
    "read_conversations",
]

EVERYONE: Final = "*"
"""The target of a record that is for everybody."""

CONVERSATION_KEY: Final = b"gen_ai.conversation.id"
_PARENT_KEY: Final = b"agdx.parent_conv"
_ROOT_KEY: Final = b"agdx.root_conv"

# Header key -> field, in the order of the keys: that is the order in which blocks hold them.
_TARGET_KEY: Final = b"agdx.to"
_TEXT: Final = {
    b"agdx.corr": "correlation_id",
    b"agdx.idem": "idempotency_key",
    _TARGET_KEY: "target_agent_id",
    b"gen_ai.agent.id": "agent",
}
_IDS: Final = {
    _PARENT_KEY: "parent_conversation_id",
    _ROOT_KEY: "root_conversation_id",
    CONVERSATION_KEY: "conversation_id",
}
_UNSIGNED: Final = {
    b"agdx.deadline": "deadline_micros",
    b"agdx.fence": "fence_token",
    b"gen_ai.usage.input_tokens": "input_tokens",
    b"gen_ai.usage.output_tokens": "output_tokens",
}
_NUMBERS: Final = (*_UNSIGNED.values(), "cost_usd")
_CAUSE_KEY: Final = b"agdx.cause"
_COST_KEY: Final = b"agdx.cost"
_FIELDS: Final = sorted(
    [*_TEXT.items(), *_IDS.items(), *_UNSIGNED.items(), (_CAUSE_KEY, "causal_parent"), (_COST_KEY, "cost_usd")]
)

# Blocks of other writers can be 100 kB each; kept by the thousand they would fill the memory.
MAX_CACHED_BLOCK: Final = 2 * MAX_PROVENANCE_BYTES

_U64: Final = struct.Struct("<Q")
_F64: Final = struct.Struct("<d")
_MAX_U64: Final = 2**64 - 1
_MAX_F64: Final = sys.float_info.max
_MAX_U32: Final = 2**32 - 1
# At most 20 digits: int() of longer text takes quadratic time, and u64 has no more.
_NUMBER: Final = re.compile(r"[0-9]{1,20}")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_POSITION: Final = re.compile(r"(0|[1-9][0-9]{0,9}):(0|[1-9][0-9]{0,19})")


def encode_provenance(provenance: Provenance, extra: tuple[Header, ...] = ()) -> bytes:
    """The header block of a provenance, entries in the order of their keys.

    Args:
        provenance: fields that are ``None`` are left out.
        extra: further headers, counted with the rest.

    Raises:
        IdError: a conversation id of another form.
        ProvenanceError: an empty text, a control character, text that UTF-8 cannot hold, a number that is not
            unsigned 64 bits, a cost that is not finite.
        LimitError: a text over ``MAX_HEADER_BYTES``, or all headers over ``MAX_PROVENANCE_BYTES``.
    """
    # True, 1 and 1.0 are one key to a cache, and so are 0.0 and -0.0: with numbers there is none. They differ from
    # record to record anyway.
    for field in _NUMBERS:
        if getattr(provenance, field) is not None:
            return _encode(provenance, extra)
    try:
        return _encode_cached(provenance, extra)
    except TypeError:
        # A list where text belongs cannot be a key of the cache; encoding it names the field.
        return _encode(provenance, extra)


def _encode(provenance: Provenance, extra: tuple[Header, ...]) -> bytes:
    headers = list(extra)
    for key, field in _FIELDS:
        value = getattr(provenance, field)
        if value is None:
            continue
        if key in _UNSIGNED:
            headers.append(Header(key, UINT64, _pack_unsigned(field, value)))
        elif key == _COST_KEY:
            headers.append(Header(key, FLOAT64, _pack_cost(value)))
        elif key in _IDS:
            headers.append(Header(key, STRING, _pack_id(field, value)))
        elif key == _CAUSE_KEY:
            headers.append(Header(key, STRING, _pack_position(field, value)))
        else:
            headers.append(Header(key, STRING, _pack_text(field, value)))
    size = sum(len(header.key) + len(header.value) + HEADER_FRAMING_BYTES for header in headers)
    if size > MAX_PROVENANCE_BYTES:
        raise LimitError(
            f"provenance: its headers take {size} bytes, allowed are {MAX_PROVENANCE_BYTES}",
            argument="provenance",
            size=size,
            limit=MAX_PROVENANCE_BYTES,
        )
    headers.sort(key=_header_key)
    return encode_block(headers)


_encode_cached = lru_cache(maxsize=4096)(_encode)


def decode_provenance(block: bytes) -> Provenance:
    """The provenance in a header block. Unknown headers are ignored.

    Numbers are read as UnsignedInt64 or, from older writers, as decimal text.

    Raises:
        ProvenanceError: the block is damaged, a known header has a value that it cannot have, or there is no
            conversation id.
    """
    return _decode_cached(block) if len(block) <= MAX_CACHED_BLOCK else _decode(block)


def _decode(block: bytes) -> Provenance:
    fields: dict[str, str | int | float] = {}
    for header in _headers(block):
        key = header.key
        if header.key_kind != STRING:
            continue
        if key in _TEXT:
            text = _read_text(header)
            # A record for everybody has no target, as laser-sdk reads it.
            if key != _TARGET_KEY or text != EVERYONE:
                fields[_TEXT[key]] = text
        elif key in _IDS:
            fields[_IDS[key]] = _read_id(header)
        elif key in _UNSIGNED:
            fields[_UNSIGNED[key]] = _read_unsigned(header)
        elif key == _CAUSE_KEY:
            fields["causal_parent"] = _read_position(header)
        elif key == _COST_KEY:
            fields["cost_usd"] = _read_cost(header)
    if "conversation_id" not in fields:
        raise ProvenanceError("no gen_ai.conversation.id header", header=CONVERSATION_KEY.decode())
    return Provenance(**fields)  # type: ignore[arg-type]


_decode_cached = lru_cache(maxsize=8192)(_decode)


def read_conversations(headers: Iterable[Header]) -> dict[str, str]:
    """The conversation fields that can be read from headers, by name; the others are left out."""
    found: dict[str, str] = {}
    for header in headers:
        field = _IDS.get(header.key)
        if field is not None and header.key_kind == STRING:
            try:
                found[field] = _read_id(header)
            except ProvenanceError:
                continue
    return found


def _header_key(header: Header) -> bytes:
    return header.key


def _headers(block: bytes) -> list[Header]:
    if not block:
        raise ProvenanceError("no headers")
    try:
        return decode_block(block)
    except CodecError as error:
        raise ProvenanceError(str(error)) from error


def _pack_text(field: str, value: str) -> bytes:
    if not isinstance(value, str):
        raise ProvenanceError(f"{field}: expected text, got {type(value).__name__}", header=field)
    try:
        data = value.encode()
    except UnicodeEncodeError as error:
        raise ProvenanceError(f"{field}: holds a lone surrogate, which UTF-8 cannot", header=field) from error
    if not data:
        raise ProvenanceError(f"{field}: is empty; leave it out instead", header=field)
    if len(data) > MAX_HEADER_BYTES:
        raise LimitError(
            f"{field}: has {len(data)} bytes, allowed are {MAX_HEADER_BYTES}",
            argument=field,
            size=len(data),
            limit=MAX_HEADER_BYTES,
        )
    if _has_control(value):
        raise ProvenanceError(f"{field}: holds a control character", header=field)
    return data


def _pack_id(field: str, value: str) -> bytes:
    try:
        return parse_conversation_id(value).encode()
    except IdError as error:
        raise IdError(str(error).replace("conversation_id", field, 1), argument=field) from error


def _pack_position(field: str, value: str) -> bytes:
    data = _pack_text(field, value)
    if not _is_position(value):
        raise ProvenanceError(f"{field}: {value!r} is not partition:offset, as in ContextMessage.id", header=field)
    return data


def _pack_unsigned(field: str, value: int) -> bytes:
    if type(value) is not int or not 0 <= value <= _MAX_U64:
        raise ProvenanceError(f"{field}: {value!r} is not a whole number from 0 to 2**64 - 1", header=field)
    return _U64.pack(value)


def _pack_cost(value: float) -> bytes:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MAX_F64:
        raise ProvenanceError(f"cost_usd: {value!r:.40} is not a finite number", header="cost_usd")
    return _F64.pack(value)


def _has_control(text: str) -> bool:
    # isprintable() is a fast filter with false alarms (separators, unassigned characters).
    return not text.isprintable() and any(char < " " or "\x7f" <= char <= "\x9f" for char in text)


def _name(header: Header) -> str:
    return header.key.decode("ascii", "replace")


def _read_text(header: Header) -> str:
    if header.kind != STRING:
        raise ProvenanceError(f"{_name(header)}: kind {header.kind} is not text", header=_name(header))
    try:
        text = header.value.decode()
    except UnicodeDecodeError as error:
        raise ProvenanceError(f"{_name(header)}: not UTF-8", header=_name(header)) from error
    if _has_control(text):
        raise ProvenanceError(f"{_name(header)}: holds a control character", header=_name(header))
    return text


def _read_id(header: Header) -> str:
    try:
        return parse_conversation_id(_read_text(header))
    except IdError as error:
        raise ProvenanceError(f"{_name(header)}: not a conversation id", header=_name(header)) from error


def _read_position(header: Header) -> str:
    text = _read_text(header)
    if not _is_position(text):
        raise ProvenanceError(f"{_name(header)}: not partition:offset", header=_name(header))
    return text


def _is_position(text: str) -> bool:
    match = _POSITION.fullmatch(text)
    return match is not None and int(match[1]) <= _MAX_U32 and int(match[2]) <= _MAX_U64


def _read_unsigned(header: Header) -> int:
    if header.kind == UINT64:
        return int(_U64.unpack(header.value)[0])
    text = _read_text(header)
    if not _NUMBER.fullmatch(text) or int(text) > _MAX_U64:
        raise ProvenanceError(f"{_name(header)}: not an unsigned 64-bit number", header=_name(header))
    return int(text)


def _read_cost(header: Header) -> float:
    if header.kind == FLOAT64:
        value = float(_F64.unpack(header.value)[0])
    else:
        text = _read_text(header)
        # float() alone would also take blanks, underscores and digits of other scripts.
        if not _DECIMAL.fullmatch(text):
            raise ProvenanceError(f"{_name(header)}: not a number", header=_name(header))
        value = float(text)
    if not math.isfinite(value):
        raise ProvenanceError(f"{_name(header)}: not finite", header=_name(header))
    return value
