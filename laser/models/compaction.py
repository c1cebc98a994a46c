"""Compaction: a smaller account in place of a part of the conversation.

OpenAI Responses has its own, in two ways: within an ordinary request (``provider_triggered``, see ``compact_threshold``
of ``lower_request``), or by a call of its own. The other two are asked for a summary in words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args

import msgspec

from laser.errors import CodecError, InvalidError, UnsupportedError
from laser.models.entries import LoweringEntry
from laser.models.exact import settle
from laser.models.facts import named_text, objects, text
from laser.models.fragments import FragmentCache
from laser.models.lowering import LoweredRequest, RequestOptions, build_request
from laser.models.openai_responses.reading import read_items, read_usage
from laser.models.parameters import COMPACT_ALLOWED
from laser.models.parsing import parse_reply, read_answer
from laser.models.replies import ModelReply, NativeItem, TokenUsage
from laser.models.selection import ApiKind, ModelSelection, check_api_kind

__all__ = ["CompactionMode", "CompactionResult", "check_compaction_mode", "lower_compaction", "parse_compaction"]

CompactionMode = Literal["provider_triggered", "provider_standalone"]

_COMPACT_PATH: Final = "/responses/compact"

_ASK: Final = (
    "Pause the work here. Write an account of this conversation that will take its place, for someone who goes on "
    "with the work and has read nothing of it.\n\n"
    "Say what the user wants and which limits they set, in their words where the wording matters; what was done and "
    "what came of it, including what failed; what was decided and why; every name, path, number, id and address that "
    "later steps need, exactly as written; and what is still open, with the next step. Mark finished work as finished, "
    "so that nobody does it twice. Leave out greetings, repetition and what a later message made void. State only what "
    "the conversation says. Call no tools, answer no question, and write nothing but the account."
)
# A summary is plain text and ends by itself: what shapes an ordinary answer would spoil it.
_SHAPING: Final = frozenset(
    {
        "tool_choice",
        "response_format",
        "stop",
        "stop_sequences",
        "max_tokens",
        "max_completion_tokens",
        "stream_options",
    }
    | {"logprobs", "top_logprobs", "prediction", "modalities", "audio", "parallel_tool_calls"}
)


class CompactionResult(msgspec.Struct, frozen=True):
    """What a standalone compaction gave: either items or a summary.

    Attributes:
        items: of Responses, what stands for the conversation from now on, to be sent as native entries in this order.
        summary: of the others, the text. usage: tokens of the call. native: the provider's answer, JSON.
    """

    api_kind: ApiKind
    items: tuple[NativeItem, ...]
    summary: str | None
    usage: TokenUsage
    native: bytes
    id: str | None = None


def check_compaction_mode(api_kind: ApiKind, mode: str) -> CompactionMode:
    """The mode, when the API has it.

    Raises:
        InvalidError: no such mode. UnsupportedError: ``provider_triggered`` on an API other than Responses.
    """
    check_api_kind(api_kind)
    for known in get_args(CompactionMode):
        if mode == known:
            if mode == "provider_triggered" and api_kind != "openai_responses":
                raise UnsupportedError(f"mode: {api_kind} does not compact by itself; use provider_standalone")
            chosen: CompactionMode = known
            return chosen
    raise InvalidError(f"mode: {mode!r} is neither provider_triggered nor provider_standalone", argument="mode")


def lower_compaction(
    selection: ModelSelection,
    entries: Sequence[LoweringEntry],
    options: RequestOptions | None = None,
    *,
    target_tokens: int | None = None,
    max_output_tokens: int | None = None,
    fragments: FragmentCache | None = None,
) -> LoweredRequest:
    """The request of a standalone compaction.

    A summary is asked for at the end of the conversation as it is, with the same system prompt and tools, so that the
    provider's cache of it is used.

    Args:
        entries: what is to be compacted, with the instructions. Every call among them has its result.
        target_tokens: how long a summary should be. max_output_tokens: the most it may have, by default twice as much;
            one that is cut there is no result. Responses decides itself and is sent neither.

    Raises:
        InvalidError: as of ``lower_request``; a call without a result; no ``target_tokens`` for a summary.
    """
    options = options if options is not None else RequestOptions()
    if check_api_kind(selection.api_kind) == "openai_responses":
        return build_request(
            selection,
            entries,
            options,
            extra={},
            path=_COMPACT_PATH,
            only=COMPACT_ALLOWED,
            open_end=False,
            fragments=fragments,
        )
    budget = _budget(target_tokens, max_output_tokens)
    asked = f"{_ASK} Use about {target_tokens} tokens."
    wanted = msgspec.structs.replace(options, parameters=_plain(selection.api_kind, options, budget))
    return build_request(
        selection,
        [*entries, LoweringEntry.user(asked)],
        wanted,
        extra={},
        open_end=False,
        fragments=fragments,
    )


def parse_compaction(api_kind: ApiKind, answer: bytes | Mapping[str, Any] | ModelReply) -> CompactionResult:
    """Reads the answer to a standalone compaction.

    Args:
        answer: as ``parse_reply`` takes it, or for a summary the reply that was read from a stream.

    Raises:
        CodecError: there is no account in it: failed, cut, refused, empty. Nothing may be replaced then.
        InvalidError, LimitError, UnsupportedError: as ``parse_reply`` raises them.
    """
    if check_api_kind(api_kind) == "openai_responses":
        if isinstance(answer, ModelReply):
            raise InvalidError("answer: the compact endpoint's answer is no reply; give its bytes", argument="answer")
        return _compacted(read_answer(answer))
    reply = answer if isinstance(answer, ModelReply) else parse_reply(api_kind, answer)
    if reply.api_kind != api_kind:
        raise InvalidError(f"answer: is of {reply.api_kind}, not {api_kind}", argument="answer")
    summary = reply.text.strip()
    if not reply.completed or reply.stop not in ("end", "stop_sequence") or not summary:
        told = "" if reply.error is None else f": {reply.error.message[:200]}"
        raise CodecError(f"the summary cannot be used: it stopped with {reply.stop}, {len(summary)} characters{told}")
    return CompactionResult(api_kind, (), summary, reply.usage, reply.native, reply.id)


def _compacted(value: dict[str, Any]) -> CompactionResult:
    value, native, _ = settle(value)
    if text(value.get("object")) != "response.compaction":
        raise CodecError(f"the answer is a {text(value.get('object'))!r}, not a response.compaction")
    items = read_items(objects(value.get("output"), "output"), admit=False)
    if not any(item.kind == "compaction" for item in items):
        raise CodecError("the answer holds no compaction item, so nothing stands for the conversation")
    return CompactionResult(
        "openai_responses", items, None, read_usage(value.get("usage")), native, named_text(value.get("id"))
    )


def _budget(target_tokens: int | None, max_output_tokens: int | None) -> int:
    if type(target_tokens) is not int or target_tokens < 1:
        raise InvalidError(
            f"target_tokens: a summary needs a number of tokens from 1, got {target_tokens!r}", argument="target_tokens"
        )
    if max_output_tokens is None:
        return 2 * target_tokens
    if type(max_output_tokens) is not int or max_output_tokens < target_tokens:
        raise InvalidError(
            f"max_output_tokens: {max_output_tokens!r} is no number from target_tokens, {target_tokens}",
            argument="max_output_tokens",
        )
    return max_output_tokens


def _plain(api_kind: ApiKind, options: RequestOptions, budget: int) -> dict[str, Any]:
    plain = {name: value for name, value in options.parameters.items() if name not in _SHAPING}
    if api_kind == "chat_completions":
        name = "max_tokens" if "max_tokens" in options.parameters else "max_completion_tokens"
        return plain | {name: budget} | ({"tool_choice": "none"} if options.tools else {})
    shape = plain.get("output_config")
    if isinstance(shape, Mapping) and "format" in shape:
        plain["output_config"] = {name: value for name, value in shape.items() if name != "format"}
    thinking = plain.get("thinking")
    if isinstance(thinking, Mapping) and type(thinking.get("budget_tokens")) is int:
        budget += thinking["budget_tokens"]  # thinking counts against the same limit
    return plain | {"max_tokens": budget} | ({"tool_choice": {"type": "none"}} if options.tools else {})
