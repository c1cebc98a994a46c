"""Strategies driven over real conversations, joined into sessions of more than a thousand messages.

This is the short form; ``python -m tests.survive compaction`` drives all of them.
"""

from __future__ import annotations

import pytest

from laser.compaction.lcm.strategy import Lcm
from laser.compaction.registry import StrategyRegistry
from laser.compaction.rolling import Rolling
from laser.compaction.strategy import CompactionStrategy
from tests.compaction.driving import drive, long_session
from tests.shared import airline_conversations

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


@pytest.mark.parametrize("strategy", [Rolling(), Lcm()], ids=["rolling", "lcm"])
async def test_a_long_session(strategy: CompactionStrategy) -> None:
    messages = long_session(airline_conversations(), 1_000)
    assert len(messages) >= 1_000
    found = await drive(StrategyRegistry([strategy], default=strategy.name), messages)
    print(strategy.name, dict(found))
    assert found["tokens"] < found["tokens whole"] / 4
    assert found["bytes kept"] > found["bytes"] * 0.9
    assert 5 < found["compactions"] < 40
