"""What a payload says when it is a chat message: its role, the tools it calls, and the results it brings.

Read are the shapes of OpenAI Chat Completions, of OpenAI Responses items and of Anthropic Messages.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import orjson

__all__ = ["NO_CHAT", "ChatFacts", "chat_facts", "message_facts"]


class ChatFacts(msgspec.Struct, frozen=True, gc=False):
    """The facts that pairing and role filters need.

    Attributes:
        role: lower case; ``None`` when the payload is no chat message. A Responses item without a role counts as
            ``assistant`` when it calls and as ``tool`` when it brings a result.
        calls: ids of the tool calls it makes. results: ids of the calls whose results it brings.
        answered_by: the role of the messages that bring the results of its calls.
        item: whether it is a Responses item that calls: parallel calls are then items of their own, next to it.
    """

    role: str | None = None
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    answered_by: str = "tool"
    item: bool = False


NO_CHAT: Final = ChatFacts()
"""The facts of what is no chat message."""


def chat_facts(payload: bytes) -> ChatFacts:
    """The chat facts of a payload. Whatever is not a JSON chat message has none; nothing raises."""
    if payload[:1] != b"{" and payload[:64].lstrip()[:1] != b"{":
        return NO_CHAT
    try:
        message = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return NO_CHAT
    return message_facts(message) if isinstance(message, dict) else NO_CHAT


def message_facts(message: dict[str, Any]) -> ChatFacts:
    """The chat facts of a message that was read from its JSON."""
    calls: list[str] = []
    results: list[str] = []
    answered_by = _completions(message, calls, results)
    item = _responses_item(message, calls, results)
    if _anthropic(message.get("content"), calls, results):
        answered_by = "user"
    role = message.get("role")
    if not isinstance(role, str):
        role = "assistant" if calls else "tool" if results else None
    name = role.strip().lower() if role is not None else None
    return ChatFacts(name, tuple(calls), tuple(results), answered_by, item)


def _completions(message: dict[str, Any], calls: list[str], results: list[str]) -> str:
    answered_by = "tool"
    listed = message.get("tool_calls")
    if isinstance(listed, list):
        for call in listed:
            if isinstance(call, dict):
                _add(call.get("id"), calls)
    # The older form has no ids: a function message answers the last call of that name.
    call = message.get("function_call")
    if isinstance(call, dict) and "type" not in message:
        _add_name(call.get("name"), calls)
        answered_by = "function"
    if message.get("role") == "function":
        _add_name(message.get("name"), results)
    if "tool_call_id" in message:
        _add(message["tool_call_id"], results)
    return answered_by


def _responses_item(item: dict[str, Any], calls: list[str], results: list[str]) -> bool:
    kind = item.get("type")
    if isinstance(kind, str):
        if kind.endswith("_call_output"):
            _add(item.get("call_id"), results)
        elif kind.endswith("_call"):
            _add(item.get("call_id"), calls)
            return bool(calls)
    return False


def _anthropic(content: object, calls: list[str], results: list[str]) -> bool:
    """Whether it calls."""
    before = len(calls)
    if not isinstance(content, list):
        return False
    for block in content:
        if isinstance(block, dict):
            kind = block.get("type")
            if kind == "tool_use":
                _add(block.get("id"), calls)
            elif kind == "tool_result":
                _add(block.get("tool_use_id"), results)
    return len(calls) > before


def _add(call_id: object, found: list[str]) -> None:
    if isinstance(call_id, str):
        found.append(call_id)


def _add_name(name: object, found: list[str]) -> None:
    if isinstance(name, str):
        found.append(f"function:{name}")
