"""Cutting a chat history to a budget so that a model provider still accepts it."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import laser as ls

CHAT: list[dict[str, object]] = [
    {"role": "user", "content": "How warm is it in Oslo and in Rome?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}},
            {"id": "c2", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "7 degrees"},
    {"role": "tool", "tool_call_id": "c2", "content": "21 degrees"},
    {"role": "assistant", "content": "Seven degrees in Oslo and 21 in Rome."},
    {"role": "user", "content": "Thanks!"},
]


def without_thanks(messages: list[ls.ContextMessage]) -> list[ls.ContextMessage]:
    """A policy of one's own is a plain function: messages in, messages to keep out."""
    return [message for message in messages if "Thanks" not in message.text]


async def main() -> None:
    async with ls.Laser.connect("memory:") as laser:
        await laser.bootstrap(partitions=1, retention=ls.TopicRetention(expire_after=timedelta(days=30)))
        chat = laser.context(ls.new_conversation_id())
        for message in CHAT:
            await chat.append(ls.AgentTopic.Sessions, json.dumps(message), agent=str(message["role"]))

        topics = [ls.AgentTopic.Sessions]
        policies: list[ls.ContextPolicy] = [
            ls.LastN(4),
            # The newest four begin with two results whose calls were cut off. ToolPairs drops such halves.
            ls.Chain([ls.LastN(4), ls.ToolPairs()]),
            ls.Chain([without_thanks, ls.TokenBudget(60), ls.ToolPairs()]),
        ]
        for policy in policies:
            kept = await chat.fetch_with(topics, policy)
            print(f"{policy.name}: {[message.provenance.agent for message in kept]}")


if __name__ == "__main__":
    asyncio.run(main())
