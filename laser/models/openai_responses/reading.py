"""What a response of OpenAI Responses says."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, Final

from laser.models.exact import settle
from laser.models.facts import count, mapping, named_text, objects, reply_error, text, written
from laser.models.replies import ItemKind, ModelReply, NativeItem, StopReason, TokenUsage, ToolCall

__all__ = ["CALL_TYPES", "call_id_of", "kind_of", "read", "read_items", "read_usage", "shown"]

CALL_TYPES: Final = frozenset(
    {
        "function_call",
        "custom_tool_call",
        "computer_call",
        "local_shell_call",
        "shell_call",
        "apply_patch_call",
        "tool_search_call",
    }
)
"""Items with a ``call_id`` that wait for an item ``TYPE_output``; a tool search only when the caller carries it out."""

_KINDS: Final[dict[str, ItemKind]] = {"message": "message", "reasoning": "reasoning", "compaction": "compaction"}
_SERVER: Final = frozenset(
    {
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_call",
        "mcp_list_tools",
        "tool_search_call",
        "tool_search_output",
        "program",
        "program_output",
    }
)
_CUT: Final[dict[str, StopReason]] = {
    "max_output_tokens": "length",
    "max_messages": "length",
    "content_filter": "filtered",
    "steered": "interrupted",
}
_STATES: Final[dict[str, StopReason]] = {"failed": "failed", "cancelled": "cancelled"}


def read(value: Mapping[str, Any], *, interrupted: bool = False, unfinished: Set[int] = frozenset()) -> ModelReply:
    """The reply in a response object; ``unfinished`` are the places of items that are not whole."""
    value, native, mended = settle(value)
    status = text(value.get("status"))
    completed = status == "completed" and not interrupted
    output = objects(value.get("output", []), "output")
    items = read_items(output, admit=completed, unfinished=unfinished)
    parts = [
        part
        for item in output
        if item.get("type") == "message"
        for part in (item.get("content") if isinstance(item.get("content"), list) else ())  # type: ignore[union-attr]
        if isinstance(part, dict)
    ]
    refusals = [text(part.get("refusal")) for part in parts if part.get("type") == "refusal"]
    stop, word = _stop(value, status, interrupted)
    if completed:
        stop = "refusal" if refusals else "tool_calls" if any(item.call for item in items) else "end"
    return ModelReply(
        api_kind="openai_responses",
        completed=completed,
        stop=stop,
        stop_native=word,
        items=items,
        text="".join(text(part.get("text")) for part in parts if part.get("type") == "output_text"),
        reasoning="\n\n".join(
            found for item in output if item.get("type") == "reasoning" if (found := _reasoning(item))
        ),
        refusal="".join(refusals) if refusals else None,
        citations=tuple(
            written(one)
            for part in parts
            for one in (part.get("annotations") if isinstance(part.get("annotations"), list) else ())  # type: ignore[union-attr]
        ),
        usage=read_usage(value.get("usage")),
        native=native,
        id=named_text(value.get("id")),
        model=named_text(value.get("model")),
        error=reply_error(value.get("error")),
        mended=mended,
    )


def read_items(
    output: list[dict[str, Any]], *, admit: bool, unfinished: Set[int] = frozenset()
) -> tuple[NativeItem, ...]:
    """The items of an output that are whole; calls are admitted only when asked for."""
    items: list[NativeItem] = []
    for place, item in enumerate(output):
        if place in unfinished:
            continue
        kind = kind_of(item)
        seen = _message(item) if kind == "message" else _reasoning(item) if kind == "reasoning" else ""
        items.append(NativeItem(kind, written(item), _call(item) if admit and kind == "tool_call" else None, seen))
    return tuple(items)


def kind_of(item: Mapping[str, Any]) -> ItemKind:
    """What an item means."""
    name = text(item.get("type"))
    if name in _KINDS:
        return _KINDS[name]
    if call_id_of(item) is not None:
        return "tool_result" if name.endswith("_output") else "tool_call"
    return "server_tool" if name in _SERVER else "other"


def call_id_of(item: Mapping[str, Any]) -> str | None:
    """The id that ties a call of the caller's to its result; ``None`` for all other items."""
    name = text(item.get("type"))
    base = name.removesuffix("_output")
    if name == "tool_search_output":
        base = "tool_search_call"
    if base not in CALL_TYPES or (base == "tool_search_call" and item.get("execution") != "client"):
        return None
    return named_text(item.get("call_id"))


def shown(item: object) -> str:
    """What a person may see of an item."""
    value = mapping(item)
    if value.get("type") == "reasoning":
        return _reasoning(value)
    if value.get("type") != "message" and "role" not in value:
        return ""
    parts = value.get("content")
    refusals = [
        text(part.get("refusal"))
        for part in (parts if isinstance(parts, list) else ())
        if isinstance(part, dict) and part.get("type") == "refusal"
    ]
    return _message(value) + "".join(refusals)


def read_usage(value: object) -> TokenUsage:
    """Usage as Responses counts it: cached tokens are part of the input."""
    usage = mapping(value)
    read_in, written_out = mapping(usage.get("input_tokens_details")), mapping(usage.get("output_tokens_details"))
    return TokenUsage(
        count(usage.get("input_tokens")),
        count(usage.get("output_tokens")),
        count(read_in.get("cached_tokens")),
        count(read_in.get("cache_write_tokens")),
        count(written_out.get("reasoning_tokens")),
    )


def _stop(value: Mapping[str, Any], status: str, interrupted: bool) -> tuple[StopReason, str | None]:
    if status == "incomplete" and not interrupted:
        reason = text(mapping(value.get("incomplete_details")).get("reason"))
        return _CUT.get(reason, "unknown"), reason or status
    if status in _STATES:
        return _STATES[status], status
    if interrupted or status in ("in_progress", "queued"):
        return "interrupted", status or None
    return "unknown", status or None


def _call(item: Mapping[str, Any]) -> ToolCall | None:
    call_id = call_id_of(item)
    if call_id is None or item.get("status") in ("incomplete", "in_progress"):
        return None
    kind = text(item.get("type"))
    if kind == "custom_tool_call":
        arguments = text(item.get("input"))
    elif isinstance(item.get("arguments"), str):
        arguments = item["arguments"]
    else:
        inner = next((item[name] for name in ("arguments", "action", "actions", "operation") if name in item), None)
        arguments = written(inner).decode()
    return ToolCall(call_id, named_text(item.get("name")) or kind, arguments, named_text(item.get("namespace")))


def _message(item: Mapping[str, Any]) -> str:
    content = item.get("content")
    if isinstance(content, str):
        return content
    return "".join(
        text(part.get("text"))
        for part in (content if isinstance(content, list) else ())
        if isinstance(part, dict) and part.get("type") in ("output_text", "input_text", "text")
    )


def _reasoning(item: Mapping[str, Any]) -> str:
    for name in ("content", "summary"):
        parts = item.get(name)
        found = [
            text(part.get("text")) for part in (parts if isinstance(parts, list) else ()) if isinstance(part, dict)
        ]
        if any(found):
            return "\n\n".join(found)
    return ""
