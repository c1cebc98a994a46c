"""What a message says, in the words of either client, so that two reads can be compared whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import laser as ls

Facts = dict[str, Any]

_SAME_NAMES = (
    "conversation_id", "causal_parent", "parent_conversation_id", "root_conversation_id", "agent", "target_agent_id",
    "idempotency_key", "correlation_id", "fence_token",
)  # fmt: skip


def ours(messages: Iterable[ls.ContextMessage]) -> list[Facts]:
    """The facts of our messages."""
    return [_ours(message) for message in messages]


def _ours(message: ls.ContextMessage) -> Facts:
    said = message.provenance
    facts = {name: getattr(said, name) for name in _SAME_NAMES}
    return facts | {
        "place": (message.topic, message.partition, message.offset),
        "ids": (message.stream_id, message.topic_id),
        "time": message.timestamp_micros,
        "payload": message.payload,
        "deadline": said.deadline_micros,
        "usage": (said.input_tokens, said.output_tokens, said.cost_usd),
        "envelope": None if message.envelope is None else dict(message.envelope),
    }


def theirs(messages: Iterable[Any], *, empty: frozenset[tuple[str, int, int]] = frozenset()) -> list[Facts]:
    """The facts of the peer's messages. It shows the frame of empty content, one zero byte, at the places given."""
    return [_theirs(message, empty) for message in messages]


def _theirs(message: Any, empty: frozenset[tuple[str, int, int]]) -> Facts:
    said, usage = message.provenance, message.provenance.usage
    place = (message.topic, message.id.partition_id, message.id.offset)
    payload = bytes(message.payload)
    facts = {name: getattr(said, name) for name in _SAME_NAMES}
    return facts | {
        "place": place,
        "ids": (message.stream_id, message.topic_id),
        "time": message.timestamp_micros,
        "payload": b"" if place in empty and payload == b"\0" else payload,
        "deadline": said.deadline,
        "usage": (None, None, None) if usage is None else (usage.input_tokens, usage.output_tokens, usage.cost_usd),
        "envelope": message.envelope,
    }
