"""Messages and providers for the tests of prompts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import laser.prompt as lp
from laser.model.chat import chat_facts

IDENTITY = "You are the support agent of a shop."


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def calls(*ids: str, arguments: str = "{}") -> dict[str, Any]:
    made = [{"id": one, "type": "function", "function": {"name": "look_up", "arguments": arguments}} for one in ids]
    return {"role": "assistant", "content": "", "tool_calls": made}


def result(call_id: str, text: str = "found") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def says(name: str, text: str, **settings: Any) -> lp.FunctionProvider:
    """A provider that always gives one text."""

    async def give(turn: lp.TurnContext) -> str:
        return text

    return lp.FunctionProvider(name, give, **settings)


def builder(*providers: lp.ContextProvider, tokens: int = 8_000, reply: int = 0, **settings: Any) -> lp.PromptBuilder:
    profile = lp.PromptProfile(lp.PromptBudget(tokens, reply), **settings)
    return lp.PromptBuilder(None, [lp.Identity(IDENTITY), *providers], profile=profile)


def values(prompt: lp.BuiltPrompt) -> list[dict[str, Any]]:
    return [json.loads(message) for message in prompt.messages]


def contents(prompt: lp.BuiltPrompt) -> list[str]:
    return [value["content"] for value in values(prompt)]


def assert_pairs_whole(messages: Sequence[bytes]) -> None:
    """Every result has its call before it, and every call all its results, but for those of an open last turn."""
    waiting: list[str] = []
    last_call = -1
    for place, payload in enumerate(messages):
        facts = chat_facts(payload)
        for call_id in facts.results:
            assert call_id in waiting, f"message {place}: a result without its call"
            waiting.remove(call_id)
        if facts.calls:
            last_call = place
            waiting += facts.calls
    if waiting:
        assert all(chat_facts(payload).results for payload in messages[last_call + 1 :]), "a call without its result"


def used_tokens(prompt: lp.BuiltPrompt) -> int:
    """What a prompt takes of its budget, counted by the test itself: bytes divided by four."""
    text = len(prompt.text.encode())
    tools = len(b"[" + b",".join(prompt.tools) + b"]") if prompt.tools else 0
    return -(-text // 4) + -(-tools // 4)


TOOLS: tuple[Mapping[str, Any], ...] = (
    {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}},
)
