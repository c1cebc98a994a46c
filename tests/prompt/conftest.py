from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import laser as ls
import laser.prompt as lp


@pytest.fixture(autouse=True)
def _time_for_slow_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider has two seconds: on a machine that does other things too, one of them may be late by chance."""
    monkeypatch.setattr(lp.BaseProvider, "timeout", 60.0)
    given = lp.FunctionProvider.__init__.__kwdefaults__
    assert given is not None
    monkeypatch.setitem(given, "timeout", 60.0)


@pytest.fixture
async def laser() -> AsyncIterator[ls.Laser]:
    async with ls.Laser.connect("memory:") as client:
        for topic in (ls.AgentTopic.Sessions, ls.AgentTopic.Control):
            await client.ensure_topic(topic)
        yield client


@pytest.fixture
def scope(laser: ls.Laser) -> ls.ContextScope:
    return laser.context(ls.new_conversation_id())
