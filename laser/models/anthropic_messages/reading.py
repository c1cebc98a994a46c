"""What a message of Anthropic Messages says."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, Final

from laser.models.exact import settle
from laser.models.facts import count, mapping, named_text, objects, reply_error, text, written
from laser.models.replies import ItemKind, ModelReply, NativeItem, ReplyError, StopReason, TokenUsage, ToolCall

__all__ = ["kind_of", "read", "shown"]

_STOPS: Final[dict[str, StopReason]] = {
    "end_turn": "end",
    "tool_use": "tool_calls",
    "stop_sequence": "stop_sequence",
    "pause_turn": "paused",
    "refusal": "refusal",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
_WHOLE: Final = frozenset({"end", "tool_calls", "stop_sequence", "paused"})
_KINDS: Final[dict[str, ItemKind]] = {
    "text": "message",
    "thinking": "reasoning",
    "redacted_thinking": "reasoning",
    "tool_use": "tool_call",
    "tool_result": "tool_result",
    "server_tool_use": "server_tool",
    "mcp_tool_use": "server_tool",
    "compaction": "compaction",
}


def kind_of(block: Mapping[str, Any]) -> ItemKind:
    """What a content block means."""
    name = text(block.get("type"))
    return _KINDS.get(name, "server_tool" if name.endswith("_tool_result") else "other")


def shown(item: object) -> str:
    """What a person may see of a block, or of blocks that follow each other."""
    blocks = item if isinstance(item, list) else [item]
    return "".join(text(mapping(block).get("text")) or text(mapping(block).get("thinking")) for block in blocks)


def read(
    value: Mapping[str, Any],
    *,
    interrupted: bool = False,
    unfinished: Set[int] = frozenset(),
    broken: str | None = None,
) -> ModelReply:
    """The reply in a message object.

    Args:
        unfinished: places of the blocks that are not whole. broken: the call whose input turned out to be no JSON.
    """
    value, native, mended = settle(value)
    if value.get("type") == "error":
        return _failed(value, native, mended)
    blocks = objects(value.get("content", []), "content")
    word = named_text(value.get("stop_reason"))
    stop: StopReason = "interrupted" if interrupted or word is None else _STOPS.get(word, "unknown")
    error = None if value.get("error") is None else reply_error(value["error"])
    if error is not None:
        stop = "failed"
    elif broken is not None and stop in _WHOLE:
        stop, error = "failed", ReplyError("invalid_tool_input", f"the input of call {broken} is not JSON")
    completed = stop in _WHOLE
    details = mapping(value.get("stop_details"))
    texts = [block for block in blocks if block.get("type") == "text"]
    return ModelReply(
        api_kind="anthropic_messages",
        completed=completed,
        stop=stop,
        stop_native=word,
        items=_items(blocks, completed, unfinished),
        text="".join(text(block.get("text")) for block in texts),
        reasoning="\n\n".join(
            text(block.get("thinking")) for block in blocks if block.get("type") == "thinking" and block.get("thinking")
        ),
        refusal=text(details.get("explanation")) if stop == "refusal" else None,
        citations=tuple(
            written(one)
            for block in texts
            for one in (block.get("citations") if isinstance(block.get("citations"), list) else ())  # type: ignore[union-attr]
        ),
        usage=_usage(value.get("usage")),
        native=native,
        id=named_text(value.get("id")),
        model=named_text(value.get("model")),
        error=error,
        mended=mended,
    )


def _items(blocks: list[dict[str, Any]], completed: bool, unfinished: Set[int]) -> tuple[NativeItem, ...]:
    """Blocks as items; text blocks that follow each other are one message."""
    items: list[NativeItem] = []
    run: list[dict[str, Any]] = []

    def end_run() -> None:
        if run:
            seen = "".join(text(block.get("text")) for block in run)
            items.append(NativeItem("message", written(run), None, seen))
            run.clear()

    for place, block in enumerate(blocks):
        kind = kind_of(block)
        if place in unfinished:
            continue
        if kind == "message":
            run.append(block)
            continue
        end_run()
        call = _call(block) if completed and kind == "tool_call" else None
        items.append(NativeItem(kind, written(block), call, text(block.get("thinking"))))
    end_run()
    return tuple(items)


def _call(block: Mapping[str, Any]) -> ToolCall | None:
    call_id = named_text(block.get("id"))
    if call_id is None:
        return None
    return ToolCall(
        call_id, text(block.get("name")), written(block.get("input")).decode(), named_text(block.get("toolset_name"))
    )


def _usage(value: object) -> TokenUsage:
    """Usage with cached tokens as part of the input, which Anthropic counts beside it."""
    usage = mapping(value)
    read_in = count(usage.get("input_tokens"))
    cached, stored = count(usage.get("cache_read_input_tokens")), count(usage.get("cache_creation_input_tokens"))
    return TokenUsage(
        None if read_in is None else read_in + (cached or 0) + (stored or 0),
        count(usage.get("output_tokens")),
        cached,
        stored,
        count(mapping(usage.get("output_tokens_details")).get("thinking_tokens")),
    )


def _failed(value: Mapping[str, Any], native: bytes, mended: int) -> ModelReply:
    return ModelReply(
        api_kind="anthropic_messages",
        completed=False,
        stop="failed",
        stop_native=None,
        items=(),
        text="",
        reasoning="",
        refusal=None,
        citations=(),
        usage=TokenUsage(),
        native=native,
        error=reply_error(value.get("error")) or ReplyError(None, ""),
        mended=mended,
    )
