"""Content: bytes that are known by their hash, and entries of a context that refer to them."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from laser.errors import InvalidError, LimitError
from laser.limits import MAX_ENTRY_TEXT_BYTES, MAX_MEDIA_TYPE_BYTES, MAX_PREVIEW_BYTES

__all__ = ["BYTES", "TEXT", "ContentEntry", "ContentHead", "ContentRef", "check_digest"]

BYTES: Final = "application/octet-stream"
"""The media type of bytes of which nothing more is known."""

TEXT: Final = "text/plain; charset=utf-8"
"""The media type of text."""

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_WORD: Final = r"[A-Za-z0-9!#$&^_.+%'*`|~-]+"
_MEDIA_TYPE: Final = re.compile(rf'{_WORD}/{_WORD}(?:[ \t]*;[ \t]*{_WORD}=(?:{_WORD}|"[ !#-\[\]-~]*"))*')
_MAX_U53: Final = 2**53 - 1


class ContentRef(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Which bytes, and how they are to be read. It says nothing of a tenant, and is no right to read anything.

    Attributes:
        digest: SHA-256 of the bytes, 64 lower-case hexadecimal digits.
        media_type: such as ``image/png``, at most ``MAX_MEDIA_TYPE_BYTES`` bytes.
        provider_kind: which encoding of a model provider it is, such as ``openai.responses.message``.
    """

    digest: str
    media_type: str = BYTES
    provider_kind: str | None = None

    def __post_init__(self) -> None:
        check_digest(self.digest, "digest")
        _check_media_type(self.media_type)
        if self.provider_kind is not None:
            _check_text(self.provider_kind, "provider_kind")


class ContentEntry(msgspec.Struct, frozen=True, gc=False):
    """One use of some content in a conversation.

    Attributes:
        ref: the content. size: its bytes. tokens: an estimate, ``None`` where there is none.
        kind: what it is to the conversation, such as ``message``, ``tool_output`` or ``document``.
        source: what put it there, such as ``append`` or a tool's name.
        entry_id: its name within the conversation; never changes.
        preview: the beginning of a text, for people; never what a model is to get.
        origin: where it came from, such as ``user:ann``, for display; it allows nothing.
        provenance_ref: what it was made from, such as the sound of a transcript. Held like ``ref``.
    """

    ref: ContentRef
    size: int
    tokens: int | None
    kind: str
    source: str
    entry_id: str
    preview: str = ""
    origin: str | None = None
    provenance_ref: ContentRef | None = None

    def __post_init__(self) -> None:
        for name, number in (("size", self.size), ("tokens", self.tokens)):
            if number is not None and (type(number) is not int or not 0 <= number <= _MAX_U53):
                raise InvalidError(f"{name}: {number!r} is not a whole number from 0 to 2**53 - 1", argument=name)
        for name in ("kind", "source", "entry_id"):
            _check_text(getattr(self, name), name)
        if self.origin is not None:
            _check_text(self.origin, "origin")
        if not isinstance(self.preview, str):
            raise InvalidError(f"preview: expected text, got {type(self.preview).__name__}", argument="preview")
        _check_size(self.preview, "preview", MAX_PREVIEW_BYTES)

    @property
    def refs(self) -> tuple[ContentRef, ...]:
        """Everything that the entry refers to, and so keeps."""
        return (self.ref,) if self.provenance_ref is None else (self.ref, self.provenance_ref)


class ContentHead(msgspec.Struct, frozen=True, gc=False):
    """What is known of some content of a tenant.

    Attributes:
        digest: SHA-256, hexadecimal. size: bytes. inline: whether the catalog itself keeps the bytes.
        admitted_at_micros: when it was last put or admitted, microseconds since 1970 UTC; grace counts from there.
        holders: how many hold it. parents: how many other contents name it. children: how many it names.
    """

    digest: str
    size: int
    inline: bool
    admitted_at_micros: int
    holders: int
    parents: int
    children: int


def check_digest(value: str, argument: str) -> str:
    """A SHA-256 as 64 lower-case hexadecimal digits.

    Raises:
        InvalidError: it is not.
    """
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise InvalidError(f"{argument}: not a SHA-256 in 64 lower-case hexadecimal digits", argument=argument)
    return value


def _check_media_type(value: str) -> None:
    if not isinstance(value, str):
        raise InvalidError(f"media_type: expected text, got {type(value).__name__}", argument="media_type")
    _check_size(value, "media_type", MAX_MEDIA_TYPE_BYTES)
    if not _MEDIA_TYPE.fullmatch(value):
        raise InvalidError(f"media_type: {value!r} is not of the form type/subtype", argument="media_type")


def _check_text(value: str, argument: str) -> None:
    if not isinstance(value, str):
        raise InvalidError(f"{argument}: expected text, got {type(value).__name__}", argument=argument)
    _check_size(value, argument, MAX_ENTRY_TEXT_BYTES)
    if not value or any(char < " " or "\x7f" <= char <= "\x9f" for char in value):
        raise InvalidError(f"{argument}: {value!r} is empty or holds a control character", argument=argument)


def _check_size(value: str, argument: str, limit: int) -> None:
    # A character takes up to four bytes: most texts need no counting.
    if len(value) * 4 <= limit and value.isascii():
        return
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise InvalidError(f"{argument}: holds a lone surrogate, which UTF-8 cannot", argument=argument) from error
    if size > limit:
        raise LimitError(
            f"{argument}: has {size} bytes, allowed are {limit}", argument=argument, size=size, limit=limit
        )
