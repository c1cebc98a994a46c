"""What a completion of Chat Completions says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from laser.errors import CodecError, UnsupportedError
from laser.models.exact import settle
from laser.models.facts import count, mapping, named_text, objects, reply_error, text, written
from laser.models.replies import ModelReply, NativeItem, ReplyError, StopReason, TokenUsage, ToolCall

__all__ = ["REASONING_FIELDS", "call_of", "read", "shown"]

REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "reasoning_details")
"""Fields of a message in which those who speak Chat Completions put reasoning."""

_STOPS: Final[dict[str, StopReason]] = {
    "stop": "end",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "filtered",
    "error": "failed",
}


def read(value: Mapping[str, Any], *, interrupted: bool = False, error: object = None) -> ModelReply:
    """The reply in a completion object; of an interrupted one no item is whole.

    Raises:
        UnsupportedError: it has several choices, or calls a function in the form that has no ids.
    """
    value, native, mended = settle(value)
    failure = reply_error(error if error is not None else value.get("error"))
    choices = objects(value.get("choices", []), "choices")
    if len(choices) > 1:
        raise UnsupportedError(f"choices: {len(choices)} of them; a conversation goes on with one, so leave out n")
    if not choices and failure is None and not interrupted:
        raise CodecError("choices: none, so this is no completion")
    choice = choices[0] if choices else {}
    message = dict(mapping(choice.get("message")))
    if mapping(message.get("function_call")):
        raise UnsupportedError("function_call: calls without ids cannot be paired with results; define tools instead")
    word = named_text(choice.get("finish_reason"))
    stop: StopReason = "interrupted" if interrupted or word is None else _STOPS.get(word, "unknown")
    if failure is not None or stop == "failed":
        stop, failure = "failed", failure or ReplyError(word, "")
    completed = stop in ("end", "tool_calls")
    refusal = named_text(message.get("refusal"))
    items = () if interrupted or not message else _items(dict(message), completed)
    if completed:
        called = any(item.call for item in items)
        stop = "refusal" if refusal else "tool_calls" if called else "end"
    annotations = message.get("annotations")
    return ModelReply(
        api_kind="chat_completions",
        completed=completed,
        stop=stop,
        stop_native=word,
        items=items,
        text=_content(message.get("content")),
        reasoning=_reasoning(message),
        refusal=refusal,
        citations=tuple(written(one) for one in (annotations if isinstance(annotations, list) else ())),
        usage=_usage(value.get("usage")),
        native=native,
        id=named_text(value.get("id")),
        model=named_text(value.get("model")),
        error=failure,
        mended=mended,
    )


def shown(item: object) -> str:
    """What a person may see of a message, or of the fields of its reasoning."""
    fields = mapping(item)
    return _content(fields.get("content")) or text(fields.get("refusal")) or _reasoning(fields)


def call_of(entry: Mapping[str, Any]) -> ToolCall | None:
    """The call that an entry of ``tool_calls`` makes."""
    call_id = named_text(entry.get("id"))
    if call_id is None:
        return None
    function, custom = mapping(entry.get("function")), mapping(entry.get("custom"))
    if custom and not function:
        return ToolCall(call_id, text(custom.get("name")), text(custom.get("input")))
    arguments = function.get("arguments")
    shown = arguments if isinstance(arguments, str) else written(arguments).decode()
    return ToolCall(call_id, text(function.get("name")), shown)


def _items(message: dict[str, Any], completed: bool) -> tuple[NativeItem, ...]:
    calls = message.pop("tool_calls", None)
    fields = {name: message.pop(name) for name in REASONING_FIELDS if message.get(name)}
    items: list[NativeItem] = []
    if fields:
        items.append(NativeItem("reasoning", written(fields), None, _reasoning(fields)))
    items.append(NativeItem("message", written(message), None, _content(message.get("content"))))
    items += [
        NativeItem("tool_call", written(entry), call_of(entry) if completed else None)
        for entry in objects(calls or [], "tool_calls")
    ]
    return tuple(items)


def _content(value: object) -> str:
    if isinstance(value, list):
        return "".join(text(part.get("text")) for part in value if isinstance(part, dict))
    return text(value)


def _reasoning(fields: Mapping[str, Any]) -> str:
    for name in ("reasoning_content", "reasoning"):
        if named_text(fields.get(name)):
            return text(fields[name])
    details = fields.get("reasoning_details")
    if not isinstance(details, list):
        return ""
    return "".join(text(part.get("text")) or text(part.get("summary")) for part in details if isinstance(part, dict))


def _usage(value: object) -> TokenUsage:
    """Usage as Chat Completions counts it: cached tokens are part of the prompt."""
    usage = mapping(value)
    read_in, written_out = mapping(usage.get("prompt_tokens_details")), mapping(usage.get("completion_tokens_details"))
    return TokenUsage(
        count(usage.get("prompt_tokens")),
        count(usage.get("completion_tokens")),
        count(read_in.get("cached_tokens")),
        count(read_in.get("cache_write_tokens")),
        count(written_out.get("reasoning_tokens")),
    )
