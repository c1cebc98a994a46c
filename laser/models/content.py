"""What a user or a tool gives a model: text, images, files; and the bytes in which an entry holds them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
import orjson

from laser.errors import CodecError, InvalidError

__all__ = [
    "CONTENT_TYPE",
    "TEXT_TYPE",
    "ContentPart",
    "FilePart",
    "ImagePart",
    "TextPart",
    "data_url",
    "decode_content",
    "encode_content",
]

TEXT_TYPE: Final = "text/plain"
"""Media type of a payload that is UTF-8 text."""

CONTENT_TYPE: Final = "application/vnd.laser.content+json"
"""Media type of a payload that ``encode_content`` made."""


class TextPart(msgspec.Struct, frozen=True, gc=False):
    """A text."""

    text: str


class ImagePart(msgspec.Struct, frozen=True, gc=False):
    """An image: by address, or its bytes with their media type.

    Attributes:
        url: an address that the provider can read. data: the bytes. media_type: of the bytes, such as ``image/png``.
        detail: how closely OpenAI's models look; other APIs do not have it.
    """

    url: str | None = None
    data: bytes | None = None
    media_type: str | None = None
    detail: Literal["auto", "low", "high", "original"] | None = None


class FilePart(msgspec.Struct, frozen=True, gc=False):
    """A file: by the provider's id, by address, or its bytes with their media type.

    Attributes:
        file_id: of a file that the provider keeps. url: an address that it can read. data: the bytes. media_type: of
            the bytes, such as ``application/pdf``. name: shown to the model.
    """

    file_id: str | None = None
    url: str | None = None
    data: bytes | None = None
    media_type: str | None = None
    name: str | None = None


ContentPart = TextPart | ImagePart | FilePart

_SOURCES: Final = {"image": ("url", "data"), "file": ("file_id", "url", "data")}
_PLAIN: Final = ("url", "media_type", "detail", "file_id", "name")


def encode_content(parts: Iterable[ContentPart]) -> bytes:
    """The payload of an entry with these parts.

    Raises:
        InvalidError: no part at all, or one that has no source, several, or bytes without a media type.
    """
    written = [_write(part, f"parts[{place}]") for place, part in enumerate(parts)]
    if not written:
        raise InvalidError("parts: none; give at least one text, image or file", argument="parts")
    try:
        return orjson.dumps({"parts": written})
    except (TypeError, orjson.JSONEncodeError) as error:
        raise InvalidError(f"parts: {error}", argument="parts") from error


def decode_content(payload: bytes) -> tuple[ContentPart, ...]:
    """The parts in such a payload.

    Raises:
        CodecError: it is not one.
    """
    try:
        listed = orjson.loads(payload)["parts"]
        return tuple(_read(part) for part in listed)
    except (orjson.JSONDecodeError, TypeError, KeyError, ValueError) as error:
        raise CodecError(f"content: {str(error)[:200]}") from error


def data_url(media_type: str, data: bytes) -> str:
    """The bytes as an address that holds them."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def _write(part: ContentPart, place: str) -> Mapping[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if not isinstance(part, ImagePart | FilePart):
        raise InvalidError(f"{place}: {type(part).__name__} is no text, image or file part", argument="parts")
    name = "image" if isinstance(part, ImagePart) else "file"
    sources = [source for source in _SOURCES[name] if getattr(part, source) is not None]
    if len(sources) != 1:
        raise InvalidError(f"{place}: give one of {', '.join(_SOURCES[name])}, not {len(sources)}", argument="parts")
    if part.data is not None and not part.media_type:
        raise InvalidError(f"{place}: bytes need their media_type, such as image/png", argument="parts")
    fields = {field: value for field in _PLAIN if (value := getattr(part, field, None)) is not None}
    data = {} if part.data is None else {"data": base64.b64encode(part.data).decode()}
    return {"type": name} | fields | data


def _read(part: Mapping[str, Any]) -> ContentPart:
    kind = part["type"]
    fields = {name: _text(part[name], name) for name in _PLAIN if name in part}
    if kind == "text":
        return TextPart(_text(part["text"], "text"))
    try:
        data = base64.b64decode(part["data"], validate=True) if "data" in part else None
    except binascii.Error as error:
        raise ValueError(f"data is not base64: {error}") from error
    if kind not in _SOURCES or (data is None and not any(name in part for name in _SOURCES[kind])):
        raise ValueError(f"{kind!r} is no kind of part, or it has no source")
    if data is not None and "media_type" not in fields:
        raise ValueError("data without a media_type")
    allowed: Sequence[str] = ImagePart.__struct_fields__ if kind == "image" else FilePart.__struct_fields__
    known: dict[str, Any] = {name: value for name, value in fields.items() if name in allowed}
    return ImagePart(data=data, **known) if kind == "image" else FilePart(data=data, **known)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {type(value).__name__}")
    return value
