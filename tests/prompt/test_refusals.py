"""What a builder refuses before it asks any provider, and that nothing is written then."""

from __future__ import annotations

from typing import Any

import pytest

import laser as ls
import laser.prompt as lp

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("conversation", True),
        ("conversation", 7),
        ("tools", None),
        ("tools", [{"name": "f", "parameters": object()}]),
        ("tools", [{"name": "f", "parameters": {1, 2}}]),
        ("tools", [{"name": "f", "limit": 2**70}]),
        ("variables", "name"),
        ("variables", {"name": 7}),
        ("variables", [("name", "Ann")]),
        ("history", 7),
    ],
)
async def test_bad_arguments(argument: str, value: Any) -> None:
    async with ls.Laser.connect("memory:") as laser:
        for topic in (ls.AgentTopic.Sessions, ls.AgentTopic.Audit):
            await laser.ensure_topic(topic)
        builder = lp.PromptBuilder(laser, [lp.Identity("You help.")])
        given: dict[str, Any] = {"conversation": ls.derive_conversation_id("a"), argument: value}
        with pytest.raises(ls.InvalidError, match=f"^{argument}: ") as caught:
            await builder.build(given.pop("conversation"), "hello", **given)
        assert caught.value.argument == argument
        assert [topic.records for topic in await laser.topics()] == [0, 0]
