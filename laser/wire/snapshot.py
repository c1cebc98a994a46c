"""Snapshots as CBOR: laser-sdk's seven named fields in its order, then one member of laser's own."""

from __future__ import annotations

from typing import Any, Final

from laser.errors import CodecError, InvalidError
from laser.limits import MAX_OFFSET
from laser.model.ids import parse_conversation_id, ulid_bytes, ulid_text
from laser.model.snapshot import Folded, Snapshot
from laser.wire.cbor import decode_cbor, encode_cbor

__all__ = ["decode_snapshot", "encode_snapshot"]

_OWN: Final = "laser"
_MAX_U32: Final = 2**32 - 1
_MAX_U128: Final = 2**128 - 1
_ID_BYTES: Final = 16


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """The CBOR bytes of a snapshot. One that has only what laser-sdk knows gives laser-sdk's very bytes.

    Raises:
        InvalidError: an empty stream or fold name, a number out of its range, a state that is no bytes.
    """
    if not isinstance(snapshot.state, bytes):
        raise InvalidError(
            f"snapshot: state is {type(snapshot.state).__name__}, it must be bytes that hold JSON; "
            "snapshot_from_checkpoint makes them",
            argument="snapshot",
        )
    fields: dict[str, Any] = {
        "stream": _named(snapshot.stream, "stream"),
        "stream_id": _ranged(snapshot.stream_id, _MAX_U32, "stream_id"),
        "stream_created_at_micros": _ranged(snapshot.stream_created_at_micros, MAX_OFFSET, "stream_created_at_micros"),
        "conversation": ulid_bytes(parse_conversation_id(snapshot.conversation)),
        "fold": _named(snapshot.fold, "fold"),
        "as_of": [
            [
                _ranged(part.topic_id, _MAX_U32, "as_of topic_id"),
                _ranged(part.topic_created_at_micros, MAX_OFFSET, "as_of topic_created_at_micros"),
                _ranged(part.partition, _MAX_U32, "as_of partition"),
                _ranged(part.offset, MAX_OFFSET, "as_of offset"),
            ]
            for part in snapshot.as_of
        ],
        "state": snapshot.state,
    }
    own = _own(snapshot)
    if own:
        fields[_OWN] = own
    return encode_cbor(fields)


def decode_snapshot(data: bytes) -> Snapshot:
    """The snapshot in CBOR bytes. Fields that are not known are ignored.

    Raises:
        CodecError: not strict CBOR, bytes after the end, a missing field, a wrong type, an empty stream or fold.
    """
    fields = decode_cbor(data)
    if not isinstance(fields, dict):
        raise CodecError("snapshot: not a map")
    stream = _text(fields, "stream")
    conversation = _field(fields, "conversation")
    if not isinstance(conversation, bytes) or len(conversation) != _ID_BYTES:
        raise CodecError("snapshot: conversation is not 16 bytes")
    state = _field(fields, "state")
    if not isinstance(state, bytes):
        raise CodecError("snapshot: state is not bytes")
    own = fields.get(_OWN, {})
    if not isinstance(own, dict):
        raise CodecError("snapshot: laser is not a map")
    saved_at = own.get("saved_at")
    return Snapshot(
        stream=stream,
        stream_id=_number(_field(fields, "stream_id"), _MAX_U32, "stream_id"),
        stream_created_at_micros=_number(
            _field(fields, "stream_created_at_micros"), MAX_OFFSET, "stream_created_at_micros"
        ),
        conversation=ulid_text(int.from_bytes(conversation, "big")),
        fold=_text(fields, "fold"),
        as_of=_as_of(_field(fields, "as_of"), own.get("ids")),
        state=state,
        version=_number(own.get("version", 1), _MAX_U32, "laser.version"),
        saved_at_micros=None if saved_at is None else _number(saved_at, MAX_OFFSET, "laser.saved_at"),
    )


def _own(snapshot: Snapshot) -> dict[str, Any]:
    own: dict[str, Any] = {}
    if snapshot.version != 1:
        own["version"] = _ranged(snapshot.version, _MAX_U32, "version")
    if any(part.last_id is not None for part in snapshot.as_of):
        own["ids"] = [
            None
            if part.last_id is None
            else _ranged(part.last_id, _MAX_U128, "as_of last_id").to_bytes(_ID_BYTES, "big")
            for part in snapshot.as_of
        ]
    if snapshot.saved_at_micros is not None:
        own["saved_at"] = _ranged(snapshot.saved_at_micros, MAX_OFFSET, "saved_at_micros")
    return own


def _as_of(raw: object, ids: object) -> tuple[Folded, ...]:
    if not isinstance(raw, list):
        raise CodecError("snapshot: as_of is not an array")
    if ids is None:
        ids = [None] * len(raw)
    if not isinstance(ids, list) or len(ids) != len(raw):
        raise CodecError("snapshot: laser.ids does not fit as_of")
    parts: list[Folded] = []
    for place, (part, last_id) in enumerate(zip(raw, ids, strict=True)):
        name = f"as_of[{place}]"
        if not isinstance(part, list) or len(part) != 4:
            raise CodecError(f"snapshot: {name} is not an array of 4")
        if last_id is not None and (not isinstance(last_id, bytes) or len(last_id) != _ID_BYTES):
            raise CodecError(f"snapshot: laser.ids[{place}] is not 16 bytes")
        parts.append(
            Folded(
                _number(part[0], _MAX_U32, name),
                _number(part[1], MAX_OFFSET, name),
                _number(part[2], _MAX_U32, name),
                _number(part[3], MAX_OFFSET, name),
                None if last_id is None else int.from_bytes(last_id, "big"),
            )
        )
    return tuple(parts)


def _field(fields: dict[Any, Any], name: str) -> object:
    if name not in fields:
        raise CodecError(f"snapshot: no field {name}")
    value: object = fields[name]
    return value


def _text(fields: dict[Any, Any], name: str) -> str:
    value = _field(fields, name)
    if not isinstance(value, str) or not value:
        raise CodecError(f"snapshot: {name} is not a text with something in it")
    return value


def _number(value: object, limit: int, name: str) -> int:
    if type(value) is not int or not 0 <= value <= limit:
        raise CodecError(f"snapshot: {name} is not a whole number from 0 to {limit}")
    return value


def _ranged(value: int, limit: int, name: str) -> int:
    if type(value) is not int or not 0 <= value <= limit:
        raise InvalidError(f"snapshot: {name} {value!r} is not a whole number from 0 to {limit}", argument="snapshot")
    return value


def _named(value: str, name: str) -> str:
    try:
        if isinstance(value, str) and value.encode():
            return value
    except UnicodeEncodeError:
        pass
    raise InvalidError(f"snapshot: {name} {value!r} is not a name that UTF-8 can hold", argument="snapshot")
