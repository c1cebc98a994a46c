"""Memory records, byte for byte as laser-sdk 0.8 writes them on ``agent.memory``.

The payload is a CBOR map of one key: ``Item``, ``Feedback`` or ``Forget``. Headers say whose it is. What laser adds
(a fact's key, origin and end, a note) are headers of its own, which laser-sdk passes over. Here they are written;
``memory_reading`` reads them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from laser.errors import InvalidError, ProvenanceError
from laser.limits import MAX_HEADER_BYTES
from laser.model.ids import derive_content_id
from laser.model.memory import MEMORY_KINDS, FactMark, MemoryKind, MemoryOwner
from laser.model.provenance import Provenance
from laser.wire.blocks import STRING, Header
from laser.wire.cbor import encode_cbor
from laser.wire.provenance import encode_provenance

__all__ = [
    "APP_KEY",
    "DURABLE_KEY",
    "EXPIRES_KEY",
    "FACT_KEY",
    "NAMESPACE_KEY",
    "NOTE_KEY",
    "ORIGIN_KEY",
    "PRUNED_KEY",
    "SOURCES",
    "USER_KEY",
    "array_head",
    "content_id",
    "encode_feedback",
    "encode_forget",
    "encode_item",
    "memory_headers",
    "wire_namespace",
]

NAMESPACE_KEY: Final = b"agdx.mem.ns"
USER_KEY: Final = b"agdx.mem.user"
APP_KEY: Final = b"agdx.mem.app"
FACT_KEY: Final = b"laser.mem.key"
ORIGIN_KEY: Final = b"laser.mem.origin"
EXPIRES_KEY: Final = b"laser.mem.expires"
NOTE_KEY: Final = b"laser.mem.note"
DURABLE_KEY: Final = b"laser.mem.durable"
PRUNED_KEY: Final = b"laser.mem.pruned"
# An array of ids, after what laser-sdk knows of an item; it passes over what it does not know.
SOURCES: Final = "laser.sources"

_HALF: Final = struct.Struct(">e")
_SINGLE: Final = struct.Struct(">f")
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
    more = dict(lineage or {}) | ({SOURCES: list(sources)} if sources else {})
    numbers = array_head(len(body)) + b"".join([_NUMBERS[byte] for byte in body])
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
        (NAMESPACE_KEY, "namespace", owner.namespace),
        (USER_KEY, "user", owner.user),
        (APP_KEY, "app", owner.app),
        (NOTE_KEY, "note", note),
        (DURABLE_KEY, "durable", "1" if durable else None),
        (PRUNED_KEY, "pruned", "1" if pruned else None),
    ]
    if fact is not None:
        expires = None if fact.expires_at_micros is None else str(fact.expires_at_micros)
        texts += [
            (FACT_KEY, "key", fact.key),
            (ORIGIN_KEY, "origin", fact.origin),
            (EXPIRES_KEY, "expires", expires),
        ]
    extra = tuple(Header(key, STRING, _pack_text(name, text)) for key, name, text in texts if text is not None)
    provenance = Provenance(conversation_id=owner.conversation or "", agent=owner.agent, idempotency_key=record_key)
    try:
        return encode_provenance(provenance, extra)
    except ProvenanceError as error:
        raise InvalidError(str(error), argument=error.header) from error


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


def array_head(length: int) -> bytes:
    """The head of a CBOR array."""
    for limit, form in ((24, None), (1 << 8, ">BB"), (1 << 16, ">BH"), (1 << 32, ">BI")):
        if length < limit:
            if form is None:
                return bytes([0x80 | length])
            return struct.pack(form, {">BB": 0x98, ">BH": 0x99, ">BI": 0x9A}[form], length)
    raise InvalidError("body: is too long", argument="body")
