"""Reading memory records: see ``memory``."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from typing import Any, Final

from laser.errors import CodecError, IdError
from laser.limits import MAX_HEADER_BYTES
from laser.model.ids import parse_conversation_id
from laser.model.memory import FactMark, Forgotten, MemoryChange, MemoryOwner, Remembered, Weighed
from laser.model.records import LogRecord
from laser.wire.blocks import STRING, decode_block
from laser.wire.cbor import decode_cbor
from laser.wire.memory import (
    APP_KEY,
    DURABLE_KEY,
    EXPIRES_KEY,
    FACT_KEY,
    NAMESPACE_KEY,
    NOTE_KEY,
    ORIGIN_KEY,
    PRUNED_KEY,
    SOURCES,
    USER_KEY,
    array_head,
)
from laser.wire.provenance import decode_provenance

__all__ = ["decode_memory"]

_TEXT_KEYS: Final = frozenset(
    {NAMESPACE_KEY, USER_KEY, APP_KEY, FACT_KEY, ORIGIN_KEY, EXPIRES_KEY, NOTE_KEY, DURABLE_KEY, PRUNED_KEY}
)
_MICROS: Final = re.compile(r"[0-9]{1,18}")
_SINGLE: Final = struct.Struct(">f")
# Members of what laser-sdk writes of an item's origin and producer: bits of a number, None for text.
_ORIGINS: Final[dict[str, dict[str, int | None]]] = {
    "Message": {"stream": 32, "topic": 32, "partition": 32, "offset": 64, "generation": 64, "conversation": None},
    "Kv": {"namespace": None, "key": None},
    "Memory": {"id": None},
}
_PRODUCER: Final[dict[str, int | None]] = {"name": None, "version": None}
_OPTIONAL: Final = frozenset({"generation", "conversation"})
# Each byte of a body as a CBOR number.
_PLAIN: Final = re.compile(
    rb"\xa1dItem\xa3bid\x78\x1a(?P<id>[0-7][0-9A-HJKMNP-TV-Z]{25})dkind"
    rb"(?:d(?=fact)|g(?=message|summary)|f(?=entity)|h(?=feedback)|i(?=procedure))"
    rb"(?P<kind>fact|message|summary|entity|feedback|procedure)dbody"
    rb"(?P<head>[\x80-\x97]|\x98.|\x99..|\x9a....)",
    re.DOTALL,
)


def decode_memory(record: LogRecord) -> MemoryChange | None:
    """What a record says; ``None`` for an item that laser-sdk keeps under a name, which no recall gives.

    Raises:
        CodecError, ProvenanceError: it is no memory record.
    """
    provenance = decode_provenance(record.headers)
    texts = _texts(record.headers)
    namespace = texts.get(NAMESPACE_KEY)
    if namespace is None:
        raise CodecError("memory: no agdx.mem.ns header")
    owner = MemoryOwner(
        namespace, provenance.conversation_id, provenance.agent, texts.get(USER_KEY), texts.get(APP_KEY)
    )
    plain = _plain_item(record.payload)
    if plain is not None:
        item_id, kind, body = plain
        at = (record.timestamp_micros, record.partition, record.offset)
        return Remembered(item_id, kind, body, owner, *at, _fact(texts), DURABLE_KEY in texts)
    value = decode_cbor(record.payload)
    if not isinstance(value, dict) or len(value) != 1:
        raise CodecError("memory: not a map of one key")
    [(name, fields)] = value.items()
    if not isinstance(fields, dict):
        raise CodecError("memory: the value of its key is not a map")
    place = (owner, record.timestamp_micros, record.partition, record.offset)
    if name == "Item":
        target, kind = _target(fields, "id"), _text(fields, "kind")
        body = _body(fields)
        if target is None:
            return None
        lineage = _lineage(fields)
        return Remembered(target, kind, body, *place, _fact(texts), DURABLE_KEY in texts, _sources(fields), lineage)
    target = _target(fields, "target") if name in ("Feedback", "Forget") else None
    if name == "Feedback":
        weight, within = _weight(fields), _within(fields)
        return None if target is None else Weighed(target, weight, within, *place, texts.get(NOTE_KEY))
    if name == "Forget":
        within = _within(fields)
        return None if target is None else Forgotten(target, within, *place, PRUNED_KEY in texts)
    raise CodecError(f"memory: unknown record {name[:32]!r}" if isinstance(name, str) else "memory: its key is no text")


def _plain_item(payload: bytes) -> tuple[str, str, bytes] | None:
    """Id, kind and body of an item of one line of text, in the very form in which it is written; ``None`` for others.

    Most records of a topic are such items, and a general decoder takes each byte of a body for a number.
    """
    match = _PLAIN.match(payload)
    if match is None:
        return None
    head, start = match["head"], match.end()
    body = payload[start + 1 :: 2]
    # A byte from 24 on takes two: a mark and itself. Text without line breaks has no other.
    if payload[start::2] != b"\x18" * len(body) or (body and min(body) < 24) or array_head(len(body)) != head:
        return None
    return match["id"].decode(), match["kind"].decode(), body


def _texts(block: bytes) -> dict[bytes, str]:
    found: dict[bytes, str] = {}
    for header in decode_block(block):
        if header.key in _TEXT_KEYS and header.key_kind == STRING and header.kind == STRING:
            try:
                found[header.key] = header.value.decode()
            except UnicodeDecodeError as error:
                raise CodecError(f"memory: header {header.key.decode()} is not UTF-8") from error
    return found


def _fact(texts: Mapping[bytes, str]) -> FactMark | None:
    key = texts.get(FACT_KEY)
    if key is None:
        return None
    expires = texts.get(EXPIRES_KEY)
    if expires is not None and not _MICROS.fullmatch(expires):
        raise CodecError("memory: laser.mem.expires is not microseconds")
    return FactMark(key, texts.get(ORIGIN_KEY, "engine"), None if expires is None else int(expires))


def _text(fields: Mapping[Any, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not 1 <= len(value.encode("utf-8", "surrogatepass")) <= MAX_HEADER_BYTES:
        raise CodecError(f"memory: {name} is not text of 1 to {MAX_HEADER_BYTES} bytes")
    return value


def _target(fields: Mapping[Any, Any], name: str) -> str | None:
    """The id of an item, ``None`` for a name."""
    text = _text(fields, name)
    try:
        return parse_conversation_id(text)  # the same form
    except IdError:
        return None


def _body(fields: Mapping[Any, Any]) -> bytes:
    value = fields.get("body")
    if isinstance(value, bytes):
        return value
    if not isinstance(value, list) or set(map(type, value)) - {int}:
        raise CodecError("memory: body is neither bytes nor an array of byte values")
    try:
        return bytes(value)
    except ValueError as error:
        raise CodecError("memory: body holds a number that is no byte") from error


def _sources(fields: Mapping[Any, Any]) -> tuple[str, ...]:
    value = fields.get(SOURCES, [])
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise CodecError(f"memory: {SOURCES} is not an array of ids")
    return tuple(value)


def _lineage(fields: Mapping[Any, Any]) -> dict[str, dict[str, Any]]:
    """Where an item came from and what made it, without members that laser-sdk does not know.

    Nothing else gets through: views keep it, and must be able to.
    """
    found: dict[str, dict[str, Any]] = {}
    origin, producer = fields.get("origin"), fields.get("producer")
    if origin is not None:
        if not isinstance(origin, dict) or len(origin) != 1:
            raise CodecError("memory: origin is not a map of one key")
        [(kind, value)] = origin.items()
        members = _ORIGINS.get(kind) if isinstance(kind, str) else None
        if members is None:
            raise CodecError("memory: origin is neither Message, Kv nor Memory")
        found["origin"] = {str(kind): _members("origin", value, members)}
    if producer is not None:
        found["producer"] = _members("producer", producer, _PRODUCER)
    return found


def _members(what: str, value: Any, members: Mapping[str, int | None]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CodecError(f"memory: the value of {what} is not a map")
    found: dict[str, Any] = {}
    for name, bits in members.items():
        member = value.get(name)
        if member is None and name in _OPTIONAL:
            continue
        if not (isinstance(member, str) if bits is None else type(member) is int and 0 <= member < 1 << bits):
            raise CodecError(f"memory: {name} of {what} is {'no text' if bits is None else 'no number that it can be'}")
        found[name] = member
    return found


def _weight(fields: Mapping[Any, Any]) -> float:
    value = fields.get("weight")
    if type(value) is not float:
        raise CodecError("memory: weight is not a float")
    try:
        single = float(_SINGLE.unpack(_SINGLE.pack(value))[0])
    except OverflowError:
        single = math.inf
    if not math.isfinite(single):
        raise CodecError("memory: weight is not a finite number of single precision")
    return single


def _within(fields: Mapping[Any, Any]) -> str | None:
    if fields.get("conversation") is None:
        return None
    try:
        return parse_conversation_id(_text(fields, "conversation"))
    except IdError as error:
        raise CodecError("memory: conversation is not a conversation id") from error
