"""Memory records, byte for byte as laser-sdk 0.8 writes them on ``agent.memory``.

The payload is a CBOR map of one key: ``Item``, ``Feedback`` or ``Forget``. Headers say whose it is. What laser adds
(a fact's key, origin and end, a note) are headers of its own, which laser-sdk passes over.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from laser.errors import CodecError, IdError, InvalidError, ProvenanceError
from laser.limits import MAX_HEADER_BYTES
from laser.model.ids import derive_content_id, parse_conversation_id
from laser.model.memory import (
    MEMORY_KINDS,
    FactMark,
    Forgotten,
    MemoryChange,
    MemoryKind,
    MemoryOwner,
    Remembered,
    Weighed,
)
from laser.model.provenance import Provenance
from laser.model.records import LogRecord
from laser.wire.blocks import STRING, Header, decode_block
from laser.wire.cbor import decode_cbor, encode_cbor
from laser.wire.provenance import decode_provenance, encode_provenance

__all__ = [
    "content_id",
    "decode_memory",
    "encode_feedback",
    "encode_forget",
    "encode_item",
    "memory_headers",
    "wire_namespace",
]

_NAMESPACE_KEY: Final = b"agdx.mem.ns"
_USER_KEY: Final = b"agdx.mem.user"
_APP_KEY: Final = b"agdx.mem.app"
_FACT_KEY: Final = b"laser.mem.key"
_ORIGIN_KEY: Final = b"laser.mem.origin"
_EXPIRES_KEY: Final = b"laser.mem.expires"
_NOTE_KEY: Final = b"laser.mem.note"
_DURABLE_KEY: Final = b"laser.mem.durable"
_PRUNED_KEY: Final = b"laser.mem.pruned"
# An array of ids, after what laser-sdk knows of an item; it passes over what it does not know.
_SOURCES: Final = "laser.sources"
_TEXT_KEYS: Final = frozenset(
    {_NAMESPACE_KEY, _USER_KEY, _APP_KEY, _FACT_KEY, _ORIGIN_KEY, _EXPIRES_KEY, _NOTE_KEY, _DURABLE_KEY, _PRUNED_KEY}
)

_MICROS: Final = re.compile(r"[0-9]{1,18}")
_HALF: Final = struct.Struct(">e")
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
_NUMBERS: Final = tuple(bytes([byte]) if byte < 24 else bytes([0x18, byte]) for byte in range(256))


def wire_namespace(stream: str, namespace: str) -> str:
    """A namespace as it stands in a record's header."""
    return f"stream:{stream}/{namespace}"


def encode_item(
    item_id: str,
    kind: MemoryKind,
    body: bytes,
    lineage: Mapping[str, Any] | None = None,
    sources: Sequence[str] = (),
) -> bytes:
    """The payload of an item.

    Args:
        lineage: ``origin`` and ``producer``, where there are any. sources: of a summary, the ids that it stands for.
    """
    head = {"id": item_id, "kind": kind}
    fields = b"".join(encode_cbor(name) + encode_cbor(value) for name, value in head.items())
    more = dict(lineage or {}) | ({_SOURCES: list(sources)} if sources else {})
    numbers = _array_head(len(body)) + b"".join([_NUMBERS[byte] for byte in body])
    rest = b"".join(encode_cbor(name) + encode_cbor(value) for name, value in more.items())
    return b"\xa1" + encode_cbor("Item") + bytes([0xA3 + len(more)]) + fields + encode_cbor("body") + numbers + rest


def content_id(
    kind: MemoryKind, body: bytes, *, agent: str | None = None, user: str | None = None, app: str | None = None
) -> str:
    """The id of an item that is remembered by its content: the same for the same owner, kind and body.

    The conversation is no part of it (the format of laser-sdk 0.8, whose stream is always empty here).
    """
    owner = b"".join((name or "").encode() + b"\0" for name in ("", agent, user, app))
    return derive_content_id(owner + bytes([1 + MEMORY_KINDS.index(kind)]) + body)


def encode_feedback(target: str, weight: float, within: str | None) -> bytes:
    """The payload of feedback.

    Raises:
        InvalidError: the weight is not a finite number that a single-precision float can hold.
    """
    fields = encode_cbor("target") + encode_cbor(target) + encode_cbor("weight") + _pack_weight(weight)
    if within is None:
        return b"\xa1" + encode_cbor("Feedback") + b"\xa2" + fields
    return b"\xa1" + encode_cbor("Feedback") + b"\xa3" + fields + encode_cbor("conversation") + encode_cbor(within)


def encode_forget(target: str, within: str | None) -> bytes:
    """The payload of a forget."""
    fields = {"target": target} if within is None else {"target": target, "conversation": within}
    return encode_cbor({"Forget": fields})


def memory_headers(
    owner: MemoryOwner,
    record_key: str,
    *,
    fact: FactMark | None = None,
    note: str | None = None,
    durable: bool = False,
    pruned: bool = False,
) -> bytes:
    """The header block of a memory record.

    Args:
        owner: with its conversation. record_key: the item's id, or a fresh ULID.

    Raises:
        InvalidError, LimitError: a name that a header cannot hold, or all headers over ``MAX_PROVENANCE_BYTES``.
    """
    texts: list[tuple[bytes, str, str | None]] = [
        (_NAMESPACE_KEY, "namespace", owner.namespace),
        (_USER_KEY, "user", owner.user),
        (_APP_KEY, "app", owner.app),
        (_NOTE_KEY, "note", note),
        (_DURABLE_KEY, "durable", "1" if durable else None),
        (_PRUNED_KEY, "pruned", "1" if pruned else None),
    ]
    if fact is not None:
        expires = None if fact.expires_at_micros is None else str(fact.expires_at_micros)
        texts += [
            (_FACT_KEY, "key", fact.key),
            (_ORIGIN_KEY, "origin", fact.origin),
            (_EXPIRES_KEY, "expires", expires),
        ]
    extra = tuple(Header(key, STRING, _pack_text(name, text)) for key, name, text in texts if text is not None)
    provenance = Provenance(conversation_id=owner.conversation or "", agent=owner.agent, idempotency_key=record_key)
    try:
        return encode_provenance(provenance, extra)
    except ProvenanceError as error:
        raise InvalidError(str(error), argument=error.header) from error


def decode_memory(record: LogRecord) -> MemoryChange | None:
    """What a record says; ``None`` for an item that laser-sdk keeps under a name, which no recall gives.

    Raises:
        CodecError, ProvenanceError: it is no memory record.
    """
    provenance = decode_provenance(record.headers)
    texts = _texts(record.headers)
    namespace = texts.get(_NAMESPACE_KEY)
    if namespace is None:
        raise CodecError("memory: no agdx.mem.ns header")
    owner = MemoryOwner(
        namespace, provenance.conversation_id, provenance.agent, texts.get(_USER_KEY), texts.get(_APP_KEY)
    )
    plain = _plain_item(record.payload)
    if plain is not None:
        item_id, kind, body = plain
        at = (record.timestamp_micros, record.partition, record.offset)
        return Remembered(item_id, kind, body, owner, *at, _fact(texts), _DURABLE_KEY in texts)
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
        return Remembered(target, kind, body, *place, _fact(texts), _DURABLE_KEY in texts, _sources(fields), lineage)
    target = _target(fields, "target") if name in ("Feedback", "Forget") else None
    if name == "Feedback":
        weight, within = _weight(fields), _within(fields)
        return None if target is None else Weighed(target, weight, within, *place, texts.get(_NOTE_KEY))
    if name == "Forget":
        within = _within(fields)
        return None if target is None else Forgotten(target, within, *place, _PRUNED_KEY in texts)
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
    if payload[start::2] != b"\x18" * len(body) or (body and min(body) < 24) or _array_head(len(body)) != head:
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
    key = texts.get(_FACT_KEY)
    if key is None:
        return None
    expires = texts.get(_EXPIRES_KEY)
    if expires is not None and not _MICROS.fullmatch(expires):
        raise CodecError("memory: laser.mem.expires is not microseconds")
    return FactMark(key, texts.get(_ORIGIN_KEY, "engine"), None if expires is None else int(expires))


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
    value = fields.get(_SOURCES, [])
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise CodecError(f"memory: {_SOURCES} is not an array of ids")
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


def _pack_text(name: str, text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise InvalidError(f"{name}: holds a lone surrogate, which UTF-8 cannot", argument=name) from error
    if not 1 <= len(data) <= MAX_HEADER_BYTES:
        raise InvalidError(f"{name}: has {len(data)} bytes, allowed are 1 to {MAX_HEADER_BYTES}", argument=name)
    if any(char < " " or "\x7f" <= char <= "\x9f" for char in text):
        raise InvalidError(f"{name}: holds a control character", argument=name)
    return data


def _pack_weight(weight: float) -> bytes:
    """The smallest float that holds a single-precision weight."""
    try:
        single = _SINGLE.unpack(_SINGLE.pack(weight))[0]
    except (OverflowError, struct.error) as error:
        raise InvalidError(f"weight: {weight!r} is too large", argument="weight") from error
    if not math.isfinite(single):
        raise InvalidError(f"weight: {weight!r} is not a finite number", argument="weight")
    try:
        half = _HALF.pack(single)
    except OverflowError:
        return b"\xfa" + _SINGLE.pack(single)
    return b"\xf9" + half if _HALF.unpack(half)[0] == single else b"\xfa" + _SINGLE.pack(single)


def _array_head(length: int) -> bytes:
    for limit, form in ((24, None), (1 << 8, ">BB"), (1 << 16, ">BH"), (1 << 32, ">BI")):
        if length < limit:
            if form is None:
                return bytes([0x80 | length])
            return struct.pack(form, {">BB": 0x98, ">BH": 0x99, ">BI": 0x9A}[form], length)
    raise InvalidError("body: is too long", argument="body")
