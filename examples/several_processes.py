"""Three agent processes write one log at once; a fourth reads the conversations while they grow.

The log is a directory: no server. With an iggy:// URL in LASER_CONNECTION_STRING the same runs over many machines.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from datetime import timedelta

import laser as ls

AGENTS = ("planner", "coder", "reviewer")
MESSAGES = 50


async def write(agent: str) -> None:
    """What each agent process does: its own notes, and one word to a conversation that all share."""
    async with ls.Laser.connect() as laser:
        own = laser.context(ls.derive_conversation_id(agent))
        for number in range(MESSAGES):
            await own.append(ls.AgentTopic.Sessions, f"step {number}", agent=agent)
        shared = laser.context(ls.derive_conversation_id("standup"))
        await shared.append(ls.AgentTopic.Sessions, f"{agent} is done", agent=agent)


async def run_all() -> None:
    """Starts the agents and reads what they wrote."""
    async with ls.Laser.connect() as laser:
        await laser.bootstrap(partitions=4, retention=ls.TopicRetention(expire_after=timedelta(days=1)))
        agents = [await asyncio.create_subprocess_exec(sys.executable, __file__, agent) for agent in AGENTS]
        codes = [await agent.wait() for agent in agents]
        print(f"exit codes: {codes}")
        for agent in AGENTS:
            notes = await laser.context(ls.derive_conversation_id(agent)).fetch(n=2 * MESSAGES)
            in_order = [message.text for message in notes] == [f"step {number}" for number in range(MESSAGES)]
            print(f"{agent}: {len(notes)} messages, in order: {in_order}")
        shared = await laser.context(ls.derive_conversation_id("standup")).fetch()
        print(f"standup: {sorted(message.text for message in shared)}")


def main() -> None:
    if len(sys.argv) > 1:
        asyncio.run(write(sys.argv[1]))
    elif "LASER_CONNECTION_STRING" in os.environ:
        asyncio.run(run_all())
    else:
        with tempfile.TemporaryDirectory() as directory:
            os.environ["LASER_CONNECTION_STRING"] = f"embedded:{directory}"
            asyncio.run(run_all())


if __name__ == "__main__":
    main()
