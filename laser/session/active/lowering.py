"""Between an active context and the models room: what a request is lowered from, and what an answer leaves behind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Literal, cast, get_args

import msgspec
import orjson

from laser.errors import InvalidError, UnsupportedError
from laser.model.content import ContentRef
from laser.models.content import TEXT_TYPE
from laser.models.entries import NATIVE_TYPE, LoweringEntry
from laser.models.entries import EntryKind as LoweringKind
from laser.models.late_results import late_result, missing_result
from laser.models.replies import ItemKind, ModelReply, NativeItem, TokenUsage
from laser.models.selection import API_KINDS, ApiKind
from laser.ports.estimator import estimate_tokens
from laser.session.active.answering import late_results, unanswered
from laser.session.active.entries import ContextEntry, EntryKind, NewEntry
from laser.session.active.state import MAX_TOKENS

__all__ = ["OpenCalls", "Resolve", "item_entries", "lowering_entries", "reply_entries", "usage_counts"]

OpenCalls = Literal["refuse", "answer"]
"""What is done about a tool call without a result, which no provider takes."""

Resolve = Callable[[ContentRef], Awaitable[bytes]]
"""Brings the bytes that an entry refers to."""

_KINDS: Final[dict[ItemKind, EntryKind]] = {
    "message": "assistant",
    "reasoning": "reasoning",
    "tool_call": "tool_call",
    "compaction": "compaction",
    "server_tool": "assistant",
    "tool_result": "assistant",
    "other": "assistant",
}
_PREVIEW: Final = 200
_SAID: Final[dict[ApiKind, Callable[[str], Any]]] = {
    "openai_responses": lambda text: {"type": "message", "role": "assistant", "content": text},
    "anthropic_messages": lambda text: {"type": "text", "text": text},
    "chat_completions": lambda text: {"role": "assistant", "content": text},
}


async def lowering_entries(
    entries: Iterable[ContextEntry],
    api: ApiKind,
    resolve: Resolve | None = None,
    *,
    open_calls: OpenCalls = "refuse",
) -> list[LoweringEntry]:
    """What a request is lowered from, in the order of the context.

    The same entry always gives the same bytes, so a request begins with the bytes of the one before it.

    Args:
        resolve: brings the bytes of entries that only refer to them.
        open_calls: ``answer`` puts a note in the place of a result that never came, behind the turn that called. The
            calls of the last turn may still get theirs.

    Raises:
        InvalidError: an entry of a kind that only a provider gives, without its native form.
        UnsupportedError: an entry refers to content, and there is no ``resolve``.
    """
    if open_calls not in get_args(OpenCalls):
        raise InvalidError(f"open_calls: {open_calls!r:.40} is neither refuse nor answer", argument="open_calls")
    held_entries = list(entries)
    late, missing = late_results(held_entries), unanswered(held_entries) if open_calls == "answer" else {}
    lowered: list[LoweringEntry] = []
    for held in held_entries:
        entry = _lower(held, await _payload(held, resolve), api)
        lowered.append(late_result(entry, interim=held.entry.interim) if held.id in late else entry)
        lowered += [missing_result(call_id) for call_id in missing.get(held.id, ())]
    return lowered


def reply_entries(reply: ModelReply) -> list[NewEntry]:
    """The entries that an answer leaves for the next request, each with the provider's own bytes.

    Of an answer that did not come to its end, those that can stand in a request.
    """
    return item_entries(reply.continuation, reply.api_kind)


def item_entries(items: Sequence[NativeItem], api: ApiKind) -> list[NewEntry]:
    """Entries of native items. Estimates are bytes divided by four."""
    made: list[NewEntry] = []
    for item in items:
        call = item.call
        kind = _KINDS[item.kind]
        if kind == "tool_call" and call is None:
            # Nobody will answer a call that was not admitted: it is no open one.
            kind = "assistant"
        made.append(
            NewEntry(
                kind,
                item.payload,
                call_id=None if call is None else call.id,
                api=api,
                tokens=estimate_tokens(item.payload),
                preview=_shown(item.text if call is None else call.name),
            )
        )
    return made


def usage_counts(usage: TokenUsage) -> dict[str, int]:
    """Tokens as the provider counted them, by name; what it did not tell is left out."""
    return {
        name: count for name, count in msgspec.structs.asdict(usage).items() if count is not None and count < MAX_TOKENS
    }


def _lower(held: ContextEntry, payload: bytes, api: ApiKind) -> LoweringEntry:
    entry, name = held.entry, str(held.id)
    media_type = entry.media_type or (TEXT_TYPE if entry.ref is None else entry.ref.media_type)
    if media_type.startswith("text/"):
        # Markdown and the like is text to a model.
        media_type = TEXT_TYPE
    if entry.api is not None:
        if entry.kind == "tool_result":
            return LoweringEntry("tool_result", payload, NATIVE_TYPE, _api(entry.api), name, call_id=entry.call_id)
        return LoweringEntry("native", payload, NATIVE_TYPE, _api(entry.api), name)
    if entry.kind == "assistant":
        said = orjson.dumps(_SAID[api](payload.decode("utf-8", "replace")))
        return LoweringEntry("native", said, NATIVE_TYPE, api, name)
    if entry.kind in ("reasoning", "tool_call", "compaction"):
        raise InvalidError(
            f"entry {held.id}: a {entry.kind} goes back in its native form; give its api", argument="api"
        )
    supersedes = None if held.supersedes is None else str(held.supersedes)
    return LoweringEntry(
        cast("LoweringKind", entry.kind),
        payload,
        media_type,
        None,
        name,
        entry.key,
        supersedes,
        entry.call_id,
        entry.is_error,
    )


async def _payload(held: ContextEntry, resolve: Resolve | None) -> bytes:
    entry = held.entry
    if entry.payload is not None:
        return entry.payload
    assert entry.ref is not None
    if resolve is None:
        raise UnsupportedError(f"entry {held.id} refers to content {entry.ref.digest}; give resolve to bring its bytes")
    return await resolve(entry.ref)


def _api(name: str) -> ApiKind:
    for kind in get_args(ApiKind):
        if name == kind:
            return kind  # type: ignore[no-any-return]
    raise InvalidError(f"api: {name!r:.40} is none of {', '.join(API_KINDS)}", argument="api")


def _shown(text: str) -> str | None:
    return text.encode(errors="replace").decode()[:_PREVIEW] or None
