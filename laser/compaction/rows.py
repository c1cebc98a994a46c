"""Rows of a transcript: a session's messages with what compaction needs to know of each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import orjson

from laser.compaction.sizes import Estimator
from laser.compaction.text import payload_text
from laser.model.chat import NO_CHAT, chat_facts
from laser.model.content import ContentEntry
from laser.model.transcript import SourceRef

__all__ = ["INSTRUCTIONS", "Row", "make_row", "rows_digest", "stub_row", "tokens_of"]

INSTRUCTIONS: Final = frozenset({"system", "developer"})
"""Roles whose messages no compaction touches."""

_INTERIM: Final = frozenset({"in_progress", "incomplete", "pending", "queued", "running"})
# What a stub saves must be worth the change of the prefix.
_LEAST_STUBBED: Final = 256


class Row(msgspec.Struct, frozen=True, gc=False):
    """One row.

    Attributes:
        ref: where it is. payload: as appended. tokens: what it is estimated to cost.
        role: lower case; ``None`` for what is no chat message. user: whether it begins a unit: something that a user
            wrote, or plain text of anybody.
        calls: ids of the calls it makes. results: ids of the calls whose results it brings.
        interim: its results are not final: another one is to come.
        content: of a message whose bytes are kept as content; its payload is the reference.
        repair: what is summarised in the place of its words; ``None`` for these themselves.
        speaker: of what is no chat message, the agent that appended it; ``None`` for a user.
    """

    ref: SourceRef
    payload: bytes
    tokens: int
    role: str | None = None
    user: bool = False
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    interim: bool = False
    content: ContentEntry | None = None
    repair: str | None = None
    speaker: str | None = None

    @property
    def seq(self) -> int:
        """Its place in the transcript."""
        return self.ref.seq

    @property
    def text(self) -> str:
        """Its words; of what is kept as content the preview."""
        if self.content is None:
            return payload_text(self.payload)
        kept = self.content
        return f"[{kept.ref.media_type}, {kept.size:,} bytes kept as content] {kept.preview}".rstrip()

    @property
    def pinned(self) -> bool:
        """Whether it is an instruction."""
        return self.role in INSTRUCTIONS


def make_row(
    ref: SourceRef,
    payload: bytes,
    estimator: Estimator,
    content: ContentEntry | None = None,
    repair: str | None = None,
    speaker: str | None = None,
) -> Row:
    """The row of a message. One that is kept as content costs what its entry says, else a quarter of its bytes.


    A repair counts for a plain message of an assistant only; one can also be in the message, as ``context_content``.

    A result is interim when the message says ``"interim": true``, or has a ``status`` that is not final, such as
    ``in_progress`` or ``pending``.
    """
    if content is not None:
        tokens = content.tokens if content.tokens is not None else (content.size + 3) // 4
        return Row(ref, payload, tokens, content=content, speaker=speaker)
    facts = chat_facts(payload)
    if facts == NO_CHAT:
        # Items of other kinds, such as a model's reasoning, stay with what is around them.
        plain = payload[:64].lstrip()[:1] != b"{"
        return Row(ref, payload, estimator(payload), user=plain, speaker=speaker)
    user = facts.role == "user" and not facts.results
    interim = bool(facts.results) and _is_interim(payload)
    if facts.role != "assistant" or facts.calls or facts.results:
        repair = None
    elif repair is None and b'"context_content"' in payload:
        stored = orjson.loads(payload).get("context_content")
        repair = stored if isinstance(stored, str) else None
    return Row(ref, payload, estimator(payload), facts.role, user, facts.calls, facts.results, interim, repair=repair)


def _is_interim(payload: bytes) -> bool:
    if b'"interim"' not in payload and b'"status"' not in payload:
        return False
    value = orjson.loads(payload)
    return value.get("interim") is True or value.get("status") in _INTERIM


def stub_row(row: Row, estimator: Estimator) -> Row | None:
    """The row with the contents of its results left out; id, role and pair stay.

    Returns:
        ``None`` when it brings no result, or when little would be saved.
    """
    if not row.results:
        return None
    value = orjson.loads(row.payload)
    text = (
        f"[laser: this result was left out of the request, {len(row.payload):,} bytes; it is row {row.seq} of the "
        "transcript]"
    )
    kind = value.get("type")
    if isinstance(kind, str) and kind.endswith("_call_output"):
        value["output"] = text
    elif isinstance(value.get("content"), list) and any(map(_is_result, value["content"])):
        value["content"] = [part | {"content": text} if _is_result(part) else part for part in value["content"]]
    else:
        value["content"] = text
    payload = orjson.dumps(value)
    tokens = estimator(payload)
    if row.tokens - tokens < _LEAST_STUBBED:
        return None
    return msgspec.structs.replace(row, payload=payload, tokens=tokens)


def rows_digest(rows: Iterable[Row]) -> str:
    """A digest of rows' contents, as states keep it: what has another one is not what was folded."""
    digest = hashlib.blake2b(digest_size=16)
    for row in rows:
        digest.update(len(row.payload).to_bytes(8, "big"))
        digest.update(row.payload)
    return digest.hexdigest()


def _is_result(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "tool_result"


def tokens_of(rows: Sequence[Row]) -> int:
    """What rows cost together."""
    return sum(row.tokens for row in rows)
