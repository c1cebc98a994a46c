"""Content references on the log: a record whose payload says where the content is.

Such a record has the header ``laser.frame`` = ``content``. Its payload is a JSON object in UTF-8, at most
``MAX_ENTRY_BYTES`` bytes:

====================  ====================================================================================
``v``                 1
``digest``            SHA-256 of the content, 64 lower-case hexadecimal digits
``media_type``        such as ``text/plain``
``provider_kind``     optional text
``size``              bytes of the content
``tokens``            optional number, an estimate
``kind``, ``source``  what it is to the conversation, and what put it there
``entry_id``          its name within the conversation
``preview``           optional text, the beginning of the content
``origin``            optional text, for display
``made_from``         optional object of ``digest``, ``media_type`` and ``provider_kind``
====================  ====================================================================================

The record names no tenant: whoever resolves it says in whose content to look.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from laser.errors import CodecError, InvalidError
from laser.model.content import ContentEntry, ContentRef

__all__ = ["MAX_ENTRY_BYTES", "decode_entry", "encode_entry"]

MAX_ENTRY_BYTES: Final = 16_384
"""Bytes of a reference on the log. All its texts at their limits, with every character escaped, take less."""

_VERSION: Final = 1


class _Ref(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    digest: str
    media_type: str
    provider_kind: str | None = None


class _Entry(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    v: int
    digest: str
    media_type: str
    size: int
    kind: str
    source: str
    entry_id: str
    provider_kind: str | None = None
    tokens: int | None = None
    preview: str = ""
    origin: str | None = None
    made_from: _Ref | None = None


_decoder: Final = msgspec.json.Decoder(_Entry)


def encode_entry(entry: ContentEntry) -> bytes:
    """The payload of a record that refers to content."""
    ref, made_from = entry.ref, entry.provenance_ref
    return msgspec.json.encode(
        _Entry(
            _VERSION,
            ref.digest,
            ref.media_type,
            entry.size,
            entry.kind,
            entry.source,
            entry.entry_id,
            ref.provider_kind,
            entry.tokens,
            entry.preview,
            entry.origin,
            None if made_from is None else _Ref(made_from.digest, made_from.media_type, made_from.provider_kind),
        )
    )


def decode_entry(payload: bytes) -> ContentEntry:
    """The entry in a payload.

    Raises:
        CodecError: the bytes are no entry, or one of a newer format.
    """
    if len(payload) > MAX_ENTRY_BYTES:
        raise CodecError(f"content reference: has {len(payload)} bytes, allowed are {MAX_ENTRY_BYTES}")
    try:
        raw = _decoder.decode(payload)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise CodecError(f"content reference: {_newer(payload) or str(error)[:200]}") from error
    if raw.v != _VERSION:
        raise CodecError(f"content reference: {_newer(payload)}")
    made_from = raw.made_from
    try:
        return ContentEntry(
            ContentRef(raw.digest, raw.media_type, raw.provider_kind),
            raw.size,
            raw.tokens,
            raw.kind,
            raw.source,
            raw.entry_id,
            raw.preview,
            raw.origin,
            None if made_from is None else ContentRef(made_from.digest, made_from.media_type, made_from.provider_kind),
        )
    except InvalidError as error:
        raise CodecError(f"content reference: {error}") from error


def _newer(payload: bytes) -> str | None:
    """What to say of a reference whose version is another one."""
    try:
        found: Any = msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    version = found.get("v") if type(found) is dict else None
    return None if version == _VERSION else f"version {version!r:.20} is not known; a newer laser may read it"
