"""A conversation on a log, in one process and without a server. Run it with: python examples/quickstart.py"""

from __future__ import annotations

import asyncio
from datetime import timedelta

import laser as ls


async def main() -> None:
    # "memory:" ends with the process. "embedded:./data" keeps everything in a directory, "iggy://…" on a server;
    # nothing below changes.
    async with ls.Laser.connect("memory:") as laser:
        await laser.bootstrap(partitions=4, retention=ls.TopicRetention(expire_after=timedelta(days=30)))

        ticket = laser.context(ls.derive_conversation_id("ticket-7341"))
        await ticket.append(ls.AgentTopic.Sessions, "My charger does not fit.", agent="user")
        receipt = await ticket.append(ls.AgentTopic.Sessions, "Which label is on it?", agent="support")
        print(f"the answer is on partition {receipt.partition} at offset {receipt.offset}")

        for message in await ticket.fetch(n=10):
            print(f"{message.provenance.agent}: {message.text}")

        # The same, cut to a budget and joined: ready for a prompt.
        print(await ticket.block(n=10, token_budget=6))


if __name__ == "__main__":
    asyncio.run(main())
