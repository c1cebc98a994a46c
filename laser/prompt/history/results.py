"""Results of tools inside messages, in the shapes of Chat Completions, Responses items and Anthropic Messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

__all__ = ["IMAGE_TOKENS", "call_arguments", "lighten", "map_results", "result_texts", "words"]

IMAGE_TOKENS: Final = 1_000
"""Tokens that an image, a sound or a file inside a message counts as, however many bytes it has."""

_ATTACHED: Final = frozenset(
    {"image", "image_url", "input_image", "input_audio", "audio", "file", "input_file", "document", "image_file"}
)


def result_texts(message: dict[str, Any]) -> list[str]:
    """The texts of the results that a message brings."""
    found: list[str] = []

    def note(text: str) -> None:
        found.append(text)

    map_results(message, note)
    return found


def map_results(message: dict[str, Any], change: Callable[[str], str | None]) -> dict[str, Any] | None:
    """The message with its results' texts changed; ``None`` when nothing was.

    Args:
        change: from a result's text to a new one; ``None`` keeps it. A result of several parts is one text; changed,
            it becomes one part.
    """
    if "tool_call_id" in message or message.get("role") == "function":
        return _map_field(message, "content", change)
    kind = message.get("type")
    if isinstance(kind, str) and kind.endswith("_call_output"):
        return _map_field(message, "output", change)
    content = message.get("content")
    if not isinstance(content, list):
        return None
    blocks: list[Any] = []
    changed = False
    for block in content:
        new = None
        if isinstance(block, dict) and block.get("type") == "tool_result":
            new = _map_field(block, "content", change)
        blocks.append(block if new is None else new)
        changed = changed or new is not None
    return {**message, "content": blocks} if changed else None


def _map_field(holder: dict[str, Any], field: str, change: Callable[[str], str | None]) -> dict[str, Any] | None:
    held = holder.get(field)
    text = held if isinstance(held, str) else words(held)
    new = change(text)
    return None if new is None else {**holder, field: new}


def words(content: object) -> str:
    """The text of a message's content: a text, or parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return "" if content is None else orjson.dumps(content, default=str).decode()
    lines: list[str] = []
    for part in content:
        if isinstance(part, str):
            lines.append(part)
        elif isinstance(part, dict):
            text = part.get("text")
            if isinstance(text, str):
                lines.append(text)
            elif part.get("type") in _ATTACHED:
                lines.append(f"[{part['type']}]")
    return "\n".join(lines)


def call_arguments(message: dict[str, Any]) -> list[Any]:
    """The arguments of the calls that a message makes, read from their JSON; text that is none stays text."""
    found: list[Any] = []
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        found += [call["function"].get("arguments") for call in calls if _has_function(call)]
    if isinstance(message.get("function_call"), dict):
        found.append(message["function_call"].get("arguments"))
    kind = message.get("type")
    if isinstance(kind, str) and kind.endswith("_call"):
        found.append(message.get("arguments", message.get("input")))
    content = message.get("content")
    if isinstance(content, list):
        found += [
            block.get("input") for block in content if isinstance(block, dict) and block.get("type") == "tool_use"
        ]
    return [_read(one) for one in found if one]


def lighten(message: dict[str, Any], payload: bytes) -> tuple[str | None, int]:
    """The text to count of a message with images, sounds or files, and the tokens that these cost.

    Returns:
        ``None`` and 0 for a message without any: its payload is what counts.
    """
    if not any(mark in payload for mark in (b'"image', b'"input_', b'"audio"', b'"file"', b'"document"')):
        return None, 0
    attached = 0

    def walk(held: Any, depth: int) -> Any:
        nonlocal attached
        if depth > 64:
            return held
        if isinstance(held, dict):
            if held.get("type") in _ATTACHED:
                attached += 1
                return {"type": held["type"]}
            return {key: walk(value, depth + 1) for key, value in held.items()}
        return [walk(value, depth + 1) for value in held] if isinstance(held, list) else held

    light = walk(message, 0)
    return (orjson.dumps(light).decode(), attached * IMAGE_TOKENS) if attached else (None, 0)


def _has_function(call: object) -> bool:
    return isinstance(call, dict) and isinstance(call.get("function"), dict)


def _read(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments
