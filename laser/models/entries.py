"""What a request is lowered from: the entries of a context, in order, each with its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, get_args

import msgspec

from laser.errors import InvalidError
from laser.models.content import CONTENT_TYPE, TEXT_TYPE, ContentPart, TextPart, encode_content
from laser.models.replies import NativeItem
from laser.models.selection import ApiKind, check_api_kind

__all__ = ["ENTRY_KINDS", "NATIVE_TYPE", "EntryKind", "LoweringEntry"]

EntryKind = Literal["instruction", "user", "native", "tool_result", "catalog", "skill", "summary"]

ENTRY_KINDS: Final[tuple[EntryKind, ...]] = get_args(EntryKind)

NATIVE_TYPE: Final = "application/json"
"""Media type of a payload in the provider's own form."""


class LoweringEntry(msgspec.Struct, frozen=True, gc=False):
    """One entry of a context, as a request needs it. The classmethods make each kind.

    Attributes:
        kind: what it means. ``instruction``: text for the system prompt. ``user``: what a user said. ``native``: an
            item of an answer, also a compaction item. ``tool_result``: what a tool gave. ``catalog``, ``skill``,
            ``summary``: text that the session puts in; the first two name their ``key``.
        payload: text in UTF-8, parts, or a native item, as ``media_type`` says.
        media_type: ``TEXT_TYPE``, ``CONTENT_TYPE``, or ``NATIVE_TYPE`` for ``native`` and for a result in the
            provider's own form (such as ``computer_call_output``).
        api_kind: whose form a native payload has.
        id: names the entry in errors, and in what supersedes it. key: of a keyed entry.
        supersedes: the ``id`` of the catalog that this one replaces; it says so to the model.
        call_id: of a result, the call that it answers. is_error: the tool failed; only Anthropic can be told.
    """

    kind: EntryKind
    payload: bytes
    media_type: str = TEXT_TYPE
    api_kind: ApiKind | None = None
    id: str | None = None
    key: str | None = None
    supersedes: str | None = None
    call_id: str | None = None
    is_error: bool = False

    @classmethod
    def instruction(cls, text: str, *, key: str | None = None, id: str | None = None) -> LoweringEntry:
        """Text for the system prompt. Instructions stand first in a request, in the order given."""
        return cls("instruction", _encoded(text), id=id, key=key)

    @classmethod
    def user(cls, content: str | Sequence[ContentPart], *, id: str | None = None) -> LoweringEntry:
        """What a user said: text, or parts."""
        payload, media_type = _content(content)
        return cls("user", payload, media_type, id=id)

    @classmethod
    def native(cls, item: NativeItem, api_kind: ApiKind, *, id: str | None = None) -> LoweringEntry:
        """An item of an answer, to go back as it came."""
        return cls("native", item.payload, NATIVE_TYPE, check_api_kind(api_kind), id=id)

    @classmethod
    def tool_result(
        cls,
        call_id: str,
        content: str | Sequence[ContentPart],
        *,
        is_error: bool = False,
        id: str | None = None,
    ) -> LoweringEntry:
        """What a tool gave for a call.

        Raises:
            InvalidError: ``call_id`` is empty.
        """
        if not isinstance(call_id, str) or not call_id:
            raise InvalidError(f"call_id: expected the id of a call, got {call_id!r}", argument="call_id")
        payload, media_type = _content(content)
        return cls("tool_result", payload, media_type, id=id, call_id=call_id, is_error=is_error)

    @classmethod
    def catalog(cls, text: str, *, key: str, supersedes: str | None = None, id: str | None = None) -> LoweringEntry:
        """A version of a keyed catalog. Older versions stay where they are; the new one names what it replaces."""
        return cls("catalog", _encoded(text), id=id, key=key, supersedes=supersedes)

    @classmethod
    def skill(cls, text: str, *, key: str, id: str | None = None) -> LoweringEntry:
        """The body of an active skill."""
        return cls("skill", _encoded(text), id=id, key=key)

    @classmethod
    def summary(cls, text: str, *, id: str | None = None) -> LoweringEntry:
        """An account that stands for an earlier part of the conversation."""
        return cls("summary", _encoded(text), id=id)


def _content(content: str | Sequence[ContentPart]) -> tuple[bytes, str]:
    if isinstance(content, str):
        return _encoded(content), TEXT_TYPE
    parts = list(content)
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return _encoded(parts[0].text), TEXT_TYPE
    return encode_content(parts), CONTENT_TYPE


def _encoded(text: str) -> bytes:
    if not isinstance(text, str):
        raise InvalidError(f"text: expected text, got {type(text).__name__}", argument="text")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidError(
            f"text: holds a lone surrogate at character {error.start}, which UTF-8 cannot", argument="text"
        ) from error
