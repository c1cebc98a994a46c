"""A process that reads a log on every path, and prints what it made of it: ``python -m … URL CONVERSATION``."""

from __future__ import annotations

import json
import sys
from typing import Any

import anyio

import laser as ls
import laser.prompt as lp

TOPICS = [ls.AgentTopic.Sessions, ls.AgentTopic.ToolCalls]


def tally(state: dict[str, Any], message: ls.ContextMessage) -> dict[str, Any]:
    """Counts words: a state whose order is that in which they came."""
    counts = dict(state)
    for word in sorted({*message.text.split()}):
        counts[word] = counts.get(word, 0) + 1
    return counts


async def main(url: str, conversation: str) -> None:
    async with ls.Laser.connect(url, stream="seeds") as laser:
        scope = laser.context(conversation)
        checkpoint = await scope.checkpoint(TOPICS)
        state: dict[str, Any] = await scope.state(TOPICS, {}, tally, full=True)
        snapshot = await ls.snapshot_from_checkpoint(laser, conversation, "tally", checkpoint, state)
        tools = [{"name": name, "description": name, "input_schema": {"type": "object"}} for name in ("find", "add")]
        prompt = await lp.PromptBuilder(laser, [lp.Identity("Be brief."), lp.History()]).build(
            scope, message="cats", tools=tools
        )
        memory, graph = laser.memory("notes"), laser.graph("facts")
        said = {
            "checkpoint": checkpoint.to_json(),
            "snapshot": ls.encode_snapshot(snapshot).hex(),
            "state": json.dumps(state),
            "fetch": [message.id for message in await scope.fetch(topics=TOPICS, n=100)],
            "block": await scope.block(topics=TOPICS, n=100),
            "prompt": [prompt.system, *(part.decode() for part in (*prompt.messages, *prompt.tools))],
            "memory": [item.id for item in await memory.search("cats and dogs", limit=50)],
            "export": repr(await graph.export()),
            "neighbours": [hit.node.id for hit in await graph.neighbors("person:ann", depth=3, limit=50)],
        }
    print(json.dumps(said))


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:3])
