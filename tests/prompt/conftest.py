from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import laser as ls


@pytest.fixture
async def laser() -> AsyncIterator[ls.Laser]:
    async with ls.Laser.connect("memory:") as client:
        for topic in (ls.AgentTopic.Sessions, ls.AgentTopic.Control):
            await client.ensure_topic(topic)
        yield client


@pytest.fixture
def scope(laser: ls.Laser) -> ls.ContextScope:
    return laser.context(ls.new_conversation_id())
