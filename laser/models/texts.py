"""Reading an entry's payload, and the frame in which a text of the session's stands in a request."""

from __future__ import annotations

import html
import re
from typing import Any

from laser.errors import CodecError, InvalidError, UnsupportedError
from laser.models.content import CONTENT_TYPE, TEXT_TYPE, ContentPart, TextPart, decode_content
from laser.models.entries import NATIVE_TYPE, LoweringEntry
from laser.models.exact import read_json
from laser.models.selection import ApiKind

__all__ = ["entry_name", "framed", "native_value", "parts_of", "text_of"]


def entry_name(entry: LoweringEntry, place: int) -> str:
    """How errors call an entry."""
    return f"entries[{place}]" if entry.id is None else f"entries[{place}] ({entry.id})"


def text_of(entry: LoweringEntry, name: str) -> str:
    """The text of an entry.

    Raises:
        InvalidError: its payload is no UTF-8 text.
    """
    if entry.media_type != TEXT_TYPE:
        raise InvalidError(f"{name}: {entry.kind} takes {TEXT_TYPE}, not {entry.media_type}", argument="entries")
    try:
        return entry.payload.decode()
    except UnicodeDecodeError as error:
        raise InvalidError(f"{name}: its payload is not UTF-8: {error.reason}", argument="entries") from error


def parts_of(entry: LoweringEntry, name: str) -> tuple[ContentPart, ...]:
    """The parts of what a user or a tool gave.

    Raises:
        InvalidError: its payload is neither text nor parts.
    """
    if entry.media_type == CONTENT_TYPE:
        try:
            return decode_content(entry.payload)
        except CodecError as error:
            raise InvalidError(f"{name}: {error}", argument="entries") from error
    return (TextPart(text_of(entry, name)),)


def native_value(entry: LoweringEntry, api_kind: ApiKind, name: str) -> Any:
    """What a native payload says.

    Raises:
        UnsupportedError: it is of another API. InvalidError: it is not JSON.
    """
    if entry.api_kind is not None and entry.api_kind != api_kind:
        raise UnsupportedError(
            f"{name}: has the form of {entry.api_kind}, the request is {api_kind}; a session keeps its API kind, "
            "so start a new one to change it"
        )
    if entry.media_type != NATIVE_TYPE:
        raise InvalidError(f"{name}: a native item is {NATIVE_TYPE}, not {entry.media_type}", argument="entries")
    try:
        return read_json(entry.payload)
    except CodecError as error:
        raise InvalidError(f"{name}: {error}", argument="entries") from error


def framed(entry: LoweringEntry, name: str) -> str:
    """A catalog, skill or summary between tags of its own, which its text cannot close."""
    body = re.sub(rf"<(?=/?{entry.kind}\b)", "&lt;", text_of(entry, name), flags=re.IGNORECASE)
    told = (("key", entry.key), ("id", entry.id), ("supersedes", entry.supersedes))
    marks = "".join(f' {mark}="{html.escape(value)}"' for mark, value in told if value is not None)
    if entry.kind == "summary":
        marks = ""
    return f"<{entry.kind}{marks}>\n{body}\n</{entry.kind}>"
