"""Requests: an ordered context as the body that a provider takes.

What the provider's cache looks at comes first in the body, in the order in which the provider reads it: model, tools,
system prompt, conversation. Everything else stands behind the conversation. So a request begins with the bytes of the
one before, up to the first entry that changed, whatever parameters change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from laser.errors import InvalidError, LimitError, UnsupportedError
from laser.limits import MAX_CACHE_KEY_CHARS
from laser.models.anthropic_messages import lowering as messages
from laser.models.chat_completions import lowering as completions
from laser.models.entries import ENTRY_KINDS, LoweringEntry
from laser.models.exact import write_text
from laser.models.fragments import Fragment, FragmentCache, Joiner
from laser.models.openai_responses import lowering as responses
from laser.models.pairing import pair
from laser.models.parameters import lower_parameters
from laser.models.selection import ApiKind, ModelSelection
from laser.models.texts import entry_name
from laser.models.tools import Tool, lower_tools

__all__ = ["LoweredRequest", "RequestOptions", "build_request", "lower_request"]

_PATHS: Final[dict[ApiKind, str]] = {
    "openai_responses": "/responses",
    "anthropic_messages": "/v1/messages",
    "chat_completions": "/chat/completions",
}
_PREPARE: Final[dict[ApiKind, Callable[[LoweringEntry, str], Fragment]]] = {
    "openai_responses": responses.prepare,
    "anthropic_messages": messages.prepare,
    "chat_completions": completions.prepare,
}
_ADJACENT: Final[dict[ApiKind, bool]] = {
    "openai_responses": responses.ADJACENT,
    "anthropic_messages": messages.ADJACENT,
    "chat_completions": completions.ADJACENT,
}
_MARKERS: Final[dict[str | None, bytes]] = {
    None: b'{"type":"ephemeral"}',
    "5m": b'{"type":"ephemeral","ttl":"5m"}',
    "1h": b'{"type":"ephemeral","ttl":"1h"}',
}


class RequestOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in a request beside its context.

    Attributes:
        tools: in the order in which the model sees them; keep it. parameters: the provider's own, as it names them.
            allow: further parameters that this provider takes, for those who only speak an API.
        cache_key: ``prompt_cache_key``, the same for a whole session; Anthropic has none and ignores it.
        cache: whether Anthropic gets cache markers. cache_ttl: how long its cache keeps what they mark.
        instruction_role: of the instructions in Chat Completions; others than OpenAI may not know ``developer``.
    """

    tools: Sequence[Tool] = ()
    parameters: Mapping[str, Any] = {}
    allow: Collection[str] = ()
    cache_key: str | None = None
    cache: bool = True
    cache_ttl: Literal["5m", "1h"] | None = None
    instruction_role: Literal["system", "developer"] = "system"


class LoweredRequest(msgspec.Struct, frozen=True):
    """A request, ready to be sent.

    Attributes:
        api_kind: of the answer too. path: below the base URL of the official clients. body: JSON.
        spans: begin and end of each entry in the body, in bytes, in the order of the entries; twice 0 for one that
            left nothing there. A cache marker behind an entry is not part of it.
    """

    api_kind: ApiKind
    path: str
    body: bytes
    spans: tuple[tuple[int, int], ...]

    def arguments(self) -> dict[str, Any]:
        """The body as keyword arguments of the official clients' ``create``; they write it anew, in their order."""
        made: dict[str, Any] = json.loads(self.body)
        return made


def lower_request(
    selection: ModelSelection,
    entries: Sequence[LoweringEntry],
    options: RequestOptions | None = None,
    *,
    stream: bool = False,
    compact_threshold: int | None = None,
    fragments: FragmentCache | None = None,
) -> LoweredRequest:
    """The request for the next answer.

    Instructions go into the system prompt, in their order; all other entries keep theirs. In Anthropic Messages and
    Chat Completions results stand right behind the turn that called, also when something was said between.

    Args:
        entries: of one context, whole. stream: whether the answer is to be streamed.
        compact_threshold: tokens from which Responses compacts by itself (``provider_triggered``).
        fragments: what was lowered before, for the next request of the same session.

    Raises:
        InvalidError: an entry, tool, option or parameter is not what it should be; a result without its call, or a
            call without its result before the last turn. UnsupportedError: the API cannot take it.
        LimitError: ``cache_key`` is too long.
    """
    extra: dict[str, bytes] = {}
    if compact_threshold is not None:
        if selection.api_kind != "openai_responses":
            raise UnsupportedError(
                f"compact_threshold: {selection.api_kind} does not compact by itself; use provider_standalone"
            )
        if type(compact_threshold) is not int or compact_threshold < 1:
            raise InvalidError(
                f"compact_threshold: {compact_threshold!r} is no number of tokens from 1", argument="compact_threshold"
            )
        extra["context_management"] = b'[{"type":"compaction","compact_threshold":%d}]' % compact_threshold
    options = options if options is not None else RequestOptions()
    if stream:
        extra["stream"] = b"true"
        if selection.api_kind == "chat_completions" and "stream_options" not in options.parameters:
            extra["stream_options"] = b'{"include_usage":true}'
    return build_request(selection, entries, options, extra=extra, fragments=fragments)


def build_request(
    selection: ModelSelection,
    entries: Sequence[LoweringEntry],
    options: RequestOptions,
    *,
    extra: Mapping[str, bytes],
    path: str | None = None,
    only: frozenset[str] | None = None,
    open_end: bool = True,
    fragments: FragmentCache | None = None,
) -> LoweredRequest:
    """Writes a body; ``only`` limits the parameters, and leaves out tools. Raises as ``lower_request`` does."""
    selection.check()
    kind = selection.api_kind
    tail = lower_parameters(kind, options.parameters, also=options.allow, only=only) | dict(extra)
    _check_options(kind, options, tail)
    marker = _MARKERS[options.cache_ttl] if options.cache and kind == "anthropic_messages" else None
    if options.cache_key is not None and kind != "anthropic_messages":
        tail["prompt_cache_key"] = _cache_key(options.cache_key)
    made = _fragments(kind, entries, fragments)
    order = pair(
        made,
        [entry_name(entry, place) for place, entry in enumerate(entries)],
        adjacent=_ADJACENT[kind],
        open_end=open_end,
    )
    joiner = Joiner(len(entries))
    joiner.add(b'{"model":' + write_text(selection.model) + b",")
    if options.tools and only is None:
        _write_tools(joiner, lower_tools(kind, options.tools), marker)
    if kind == "openai_responses":
        responses.assemble(joiner, entries, made, order)
    elif kind == "anthropic_messages":
        messages.assemble(joiner, entries, made, order, marker)
    else:
        completions.assemble(joiner, made, order, options.instruction_role)
    for name, value in sorted(tail.items()):
        joiner.add(b"," + write_text(name) + b":" + value)
    joiner.add(b"}")
    return LoweredRequest(kind, path or _PATHS[kind], joiner.body, joiner.spans)


def _fragments(kind: ApiKind, entries: Sequence[LoweringEntry], cache: FragmentCache | None) -> list[Fragment]:
    lower = _PREPARE[kind]

    def prepare(entry: LoweringEntry, place: int) -> Fragment:
        name = entry_name(entry, place)
        if entry.kind not in ENTRY_KINDS or not isinstance(entry.payload, bytes):
            raise InvalidError(f"{name}: {entry.kind!r} is no kind, or its payload is no bytes", argument="entries")
        return lower(entry, name)

    if isinstance(entries, str | bytes) or not all(isinstance(entry, LoweringEntry) for entry in entries):
        raise InvalidError("entries: expected a list of LoweringEntry", argument="entries")
    made = (cache if cache is not None else FragmentCache()).fragments(kind, entries, prepare)
    if not any(fragment.side != "system" and fragment.pieces for fragment in made):
        raise InvalidError("entries: nothing but instructions; a request needs something to answer", argument="entries")
    return made


def _write_tools(joiner: Joiner, tools: Sequence[tuple[bytes, bool]], marker: bytes | None) -> None:
    last = max((place for place, (_, markable) in enumerate(tools) if markable), default=-1)
    joiner.add(b'"tools":[')
    for place, (tool, _) in enumerate(tools):
        written = messages.mark(tool, marker) if marker is not None and place == last else tool
        joiner.add(b"," + written if place else written)
    joiner.add(b"],")


def _check_options(kind: ApiKind, options: RequestOptions, tail: Mapping[str, bytes]) -> None:
    if options.cache_ttl not in _MARKERS:
        raise InvalidError(f"cache_ttl: {options.cache_ttl!r} is neither 5m nor 1h", argument="cache_ttl")
    if options.cache_ttl is not None and kind != "anthropic_messages":
        raise UnsupportedError(
            f"cache_ttl: {kind} has no cache markers; OpenAI takes the parameter prompt_cache_options"
        )
    if options.instruction_role not in ("system", "developer"):
        raise InvalidError(
            f"instruction_role: {options.instruction_role!r} is neither system nor developer",
            argument="instruction_role",
        )
    if kind == "anthropic_messages" and "max_tokens" not in tail:
        raise InvalidError("parameters: Anthropic needs max_tokens, the most it may write", argument="parameters")


def _cache_key(key: str) -> bytes:
    if not isinstance(key, str) or not key:
        raise InvalidError(f"cache_key: expected text, got {key!r}", argument="cache_key")
    if len(key) > MAX_CACHE_KEY_CHARS:
        raise LimitError(
            f"cache_key: has {len(key)} characters, allowed are {MAX_CACHE_KEY_CHARS}",
            argument="cache_key",
            size=len(key),
            limit=MAX_CACHE_KEY_CHARS,
        )
    return write_text(key)
