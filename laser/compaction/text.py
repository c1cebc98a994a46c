"""The words of a message: for prompts of summarizers, for quotes and for search. Image bytes are never among them.

Read are the shapes of OpenAI Chat Completions, of OpenAI Responses items and of Anthropic Messages.
"""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

from laser.compaction.images import part_facts

__all__ = ["clip", "neutral", "payload_text", "user_text"]

# A data URI in plain text, or in a field that is not known to hold an image.
_DATA: Final = re.compile(
    r"data:[\w.+/-]{0,100};base64,[A-Za-z0-9+/_-]{48,}={0,2}"
    r"(?:\r?\n[A-Za-z0-9+/_-]{40,}={0,2})*(?:\r?\n[A-Za-z0-9+/_-]+={1,2})?"
)
_LEFT_OUT: Final = " [… {count:,} characters left out …] "


def payload_text(payload: bytes) -> str:
    """What a message says, calls and results of tools included. Whatever is no chat message is its text as it is."""
    value = _load(payload)
    if not isinstance(value, dict):
        return _without_data(payload.decode("utf-8", "replace"))
    lines: list[str] = []
    _content(value.get("content"), lines)
    _calls(value, lines)
    _item(value, lines)
    if not lines and "role" not in value and "type" not in value:
        return _without_data(payload.decode("utf-8", "replace"))
    return _without_data("\n".join(line for line in lines if line))


def user_text(payload: bytes) -> str:
    """What a user wrote, without results of tools."""
    value = _load(payload)
    if not isinstance(value, dict):
        return _without_data(payload.decode("utf-8", "replace"))
    lines: list[str] = []
    content = value.get("content")
    if isinstance(content, list):
        content = [part for part in content if not (isinstance(part, dict) and part.get("type") == "tool_result")]
    _content(content, lines)
    return _without_data("\n".join(line for line in lines if line))


def clip(text: str, characters: int) -> str:
    """The text, or its beginning and its end with what is missing said between them."""
    if len(text) <= characters:
        return text
    head = max(0, characters * 3 // 4)
    tail = max(0, characters - head)
    middle = _LEFT_OUT.format(count=len(text) - head - tail)
    return text[:head] + middle + (text[-tail:] if tail else "")


def neutral(text: str) -> str:
    """The text unable to pass for one of laser's own marks, and without what UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode().replace("[laser:", "(laser:")


def _load(payload: bytes) -> Any:
    if payload[:64].lstrip()[:1] != b"{":
        return None
    try:
        return orjson.loads(payload)
    except orjson.JSONDecodeError:
        return None


def _content(content: object, lines: list[str]) -> None:
    if isinstance(content, str):
        lines.append(content)
    elif isinstance(content, list):
        for part in content:
            if isinstance(part, str):
                lines.append(part)
            elif isinstance(part, dict):
                _part(part, lines)


def _part(part: dict[str, Any], lines: list[str]) -> None:
    kind = part.get("type")
    facts = part_facts(part)
    if facts is not None:
        lines.append(facts.text)
    elif kind == "tool_use":
        lines.append(f"-> {_said(part.get('name'))}({_said(part.get('input'))})")
    elif kind == "tool_result":
        _content(part.get("content"), lines)
    else:
        lines += [part[name] for name in ("text", "thinking", "refusal") if isinstance(part.get(name), str)]


def _calls(message: dict[str, Any], lines: list[str]) -> None:
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            _call(call.get("function", call.get("custom")), lines)
    _call(message.get("function_call"), lines)


def _call(called: object, lines: list[str]) -> None:
    if isinstance(called, dict):
        lines.append(f"-> {_said(called.get('name'))}({_said(called.get('arguments', called.get('input')))})")


def _item(item: dict[str, Any], lines: list[str]) -> None:
    kind = item.get("type")
    if not isinstance(kind, str):
        return
    if kind.endswith("_call_output"):
        output = item.get("output")
        if isinstance(output, str | list):
            _content(output, lines)
        elif output is not None:
            lines.append(_said(output))
    elif kind.endswith("_call"):
        given = item.get("arguments", item.get("input", item.get("action")))
        lines.append(f"-> {_said(item.get('name', kind))}({_said(given)})")
    elif kind == "reasoning":
        _content(item.get("summary"), lines)


def _said(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else orjson.dumps(value).decode()


def _without_data(text: str) -> str:
    return _DATA.sub("[data left out]", text) if "base64," in text else text
