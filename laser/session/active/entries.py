"""Entries of an active context: what the next model call will consume."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from laser.errors import CodecError, InvalidError, LimitError
from laser.limits import MAX_ENTRY_BYTES, MAX_ENTRY_KEY_BYTES, MAX_ENTRY_PREVIEW_BYTES
from laser.model.content import ContentRef
from laser.models.content import CONTENT_TYPE, TextPart, decode_content
from laser.models.selection import check_api_kind
from laser.models.showing import visible_text

__all__ = [
    "ENTRY_KINDS",
    "MODEL_KINDS",
    "PROTECTED_KINDS",
    "ContextEntry",
    "EntryKind",
    "NewEntry",
    "check_entries",
    "check_entry",
]

EntryKind = Literal[
    "instruction",
    "user",
    "assistant",
    "reasoning",
    "tool_call",
    "tool_result",
    "catalog",
    "skill",
    "summary",
    "compaction",
]

ENTRY_KINDS: Final[tuple[EntryKind, ...]] = (
    "instruction",
    "user",
    "assistant",
    "reasoning",
    "tool_call",
    "tool_result",
    "catalog",
    "skill",
    "summary",
    "compaction",
)

MODEL_KINDS: Final = frozenset({"assistant", "reasoning", "tool_call", "compaction"})
"""Kinds that a model itself gave: they are no news to it."""

PROTECTED_KINDS: Final = frozenset({"instruction", "skill"})
"""Kinds that no compaction removes. Of catalogs the current version of each key stays too."""


class NewEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry to add.

    Attributes:
        kind: what it is to the conversation, whatever the provider calls it.
        payload: the provider's own bytes, or text as UTF-8; ``None`` when ``ref`` says where they are.
        ref: content that holds the bytes, for what is too large to stand in an event.
        key: an entry with a key takes the place of the earlier one of its kind and scope; a ``catalog`` is appended
            and supersedes it.
        call_id: of a ``tool_call``, and of the ``tool_result`` that answers it.
        interim: of a ``tool_result`` that is not the last word: the call stays open.
        is_error: of a ``tool_result``, the tool failed.
        api: the API kind whose native shape the payload has; ``None`` for text, and for what the session puts in.
        media_type: of a payload of several parts (``laser.models.CONTENT_TYPE``); ``None`` for text.
        tokens: what it is estimated to cost; ``None`` unknown.
        scope: ``run`` for an entry that leaves the context when the run ends that it came in with; it stands beside
            one of the session with the same key, which is there again afterwards.
        source: who put it there, such as ``discovery``.
        origin: for people, such as ``user:ann``; it authorises nothing.
        provenance: the digest of what it was made from, such as the audio of a transcript.
        preview: a few words for an inspector; never sent to a model.
    """

    kind: EntryKind
    payload: bytes | None = None
    ref: ContentRef | None = None
    key: str | None = None
    call_id: str | None = None
    interim: bool = False
    is_error: bool = False
    api: str | None = None
    media_type: str | None = None
    tokens: int | None = None
    scope: Literal["session", "run"] = "session"
    source: str | None = None
    origin: str | None = None
    provenance: str | None = None
    preview: str | None = None

    def visible(self) -> str:
        """What a person may see of it, whole: its text, or the words in the provider's own form of it.

        Empty for what is no words, such as a call or an image, and for bytes that only ``ref`` refers to.

        Raises:
            CodecError: the payload is not in the form that it says.
        """
        if self.payload is None:
            return ""
        if self.api is not None:
            return visible_text(check_api_kind(self.api), self.payload)
        if self.media_type == CONTENT_TYPE:
            return "\n".join(part.text for part in decode_content(self.payload) if isinstance(part, TextPart))
        return self.payload.decode("utf-8", "replace")


class ContextEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry of an active context.

    Attributes:
        id: its number in the session; never used again. revision: that it came in with.
        entry: what was added. supersedes: of a catalog, the id of the version before it.
        superseded: a later version of its key has come.
        consumed: a turn that saw it was finished, or the model gave it itself.
        run: the run that it goes with, where its scope is ``run``.
    """

    id: int
    revision: int
    entry: NewEntry
    supersedes: int | None = None
    superseded: bool = False
    consumed: bool = False
    run: str | None = None

    @property
    def kind(self) -> EntryKind:
        """What it is to the conversation."""
        return self.entry.kind

    @property
    def text(self) -> str:
        """The payload as UTF-8 text; bytes that are not UTF-8 become U+FFFD."""
        return (self.entry.payload or b"").decode("utf-8", "replace")


def check_entries(entries: Sequence[NewEntry], argument: str) -> tuple[NewEntry, ...]:
    """A list of entries whose parts fit together.

    Raises:
        InvalidError, LimitError: it is no list, or they do not; with the place in the list.
    """
    if isinstance(entries, str | bytes) or not isinstance(entries, Sequence):
        raise InvalidError(f"{argument}: expected a list of NewEntry, got {type(entries).__name__}", argument=argument)
    return tuple(check_entry(entry, f"{argument}[{place}]") for place, entry in enumerate(entries))


def check_entry(entry: NewEntry, argument: str = "entry") -> NewEntry:
    """An entry whose parts fit together.

    Raises:
        InvalidError, LimitError: they do not.
    """
    if not isinstance(entry, NewEntry):
        raise InvalidError(f"{argument}: expected a NewEntry, got {type(entry).__name__}", argument=argument)
    if entry.kind not in ENTRY_KINDS:
        raise InvalidError(
            f"{argument}: kind {entry.kind!r:.40} is not one of {', '.join(ENTRY_KINDS)}", argument=argument
        )
    if (entry.payload is None) == (entry.ref is None):
        raise InvalidError(f"{argument}: give either a payload or a ref", argument=argument)
    if entry.kind == "instruction" and entry.key is None:
        raise InvalidError(f"{argument}: an instruction needs a key: instructions are ordered by it", argument=argument)
    if entry.kind in ("catalog", "skill") and entry.key is None:
        raise InvalidError(
            f"{argument}: a {entry.kind} needs a key: its next version is known by it", argument=argument
        )
    if entry.kind in ("tool_call", "tool_result") and not entry.call_id:
        raise InvalidError(f"{argument}: a {entry.kind} needs the call_id that pairs it", argument=argument)
    if entry.api is not None:
        check_api_kind(entry.api)
    for name in ("interim", "is_error"):
        if type(getattr(entry, name)) is not bool:
            raise InvalidError(f"{argument}: {name} is neither True nor False", argument=argument)
    if entry.interim and entry.kind != "tool_result":
        raise InvalidError(f"{argument}: interim goes with a tool_result, not a {entry.kind}", argument=argument)
    if entry.scope not in ("session", "run"):
        raise InvalidError(f"{argument}: scope {entry.scope!r:.40} is neither session nor run", argument=argument)
    if entry.tokens is not None and (type(entry.tokens) is not int or not 0 <= entry.tokens < 2**63):
        raise InvalidError(
            f"{argument}: tokens {entry.tokens!r:.40} is not a whole number from 0 to 2**63 - 1", argument=argument
        )
    if entry.ref is not None and not isinstance(entry.ref, ContentRef):
        raise InvalidError(f"{argument}: ref is {type(entry.ref).__name__}, not a ContentRef", argument=argument)
    _check_size(entry.payload, MAX_ENTRY_BYTES, argument, "payload", "; keep it as content and give its ref")
    if entry.payload is not None and entry.api is None:
        _check_form(entry.payload, entry.media_type, argument)
    for name in ("key", "call_id", "api", "media_type", "source", "origin", "provenance"):
        _check_text(getattr(entry, name), MAX_ENTRY_KEY_BYTES, argument, name)
    _check_text(entry.preview, MAX_ENTRY_PREVIEW_BYTES, argument, "preview")
    return entry


def _check_form(payload: bytes, media_type: str | None, argument: str) -> None:
    """Refuses what could never be lowered: the context would be stuck with it."""
    if media_type == CONTENT_TYPE:
        try:
            decode_content(payload)
        except CodecError as error:
            raise InvalidError(
                f"{argument}: payload is not what encode_content gives: {error}", argument=argument
            ) from error
    elif media_type is None or media_type.startswith("text/"):
        try:
            payload.decode()
        except UnicodeDecodeError as error:
            raise InvalidError(
                f"{argument}: payload is not UTF-8 at byte {error.start}; give what is no text as parts, "
                "see laser.models.encode_content",
                argument=argument,
            ) from error


def _check_text(value: str | None, limit: int, argument: str, name: str) -> None:
    if value is None:
        return
    if not isinstance(value, str) or not value:
        raise InvalidError(f"{argument}: {name} is not text with something in it", argument=argument)
    try:
        data = value.encode()
    except UnicodeEncodeError as error:
        raise InvalidError(
            f"{argument}: {name} holds a lone surrogate, which UTF-8 cannot", argument=argument
        ) from error
    _check_size(data, limit, argument, name, "")


def _check_size(data: bytes | None, limit: int, argument: str, name: str, advice: str) -> None:
    if data is None:
        return
    if not isinstance(data, bytes):
        raise InvalidError(f"{argument}: {name} is {type(data).__name__}, not bytes", argument=argument)
    if len(data) > limit:
        raise LimitError(
            f"{argument}: {name} has {len(data)} bytes, allowed are {limit}{advice}",
            argument=argument,
            size=len(data),
            limit=limit,
        )
