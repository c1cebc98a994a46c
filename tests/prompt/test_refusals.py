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


@pytest.mark.parametrize("value", [None, 7, b"text", ["text"]])
def test_fences_take_text(value: Any) -> None:
    for call in (
        lp.escape,
        lp.unescape,
        lambda text: lp.fence("memory", text),
        lambda text: lp.fence("memory", text, on=False),
    ):
        with pytest.raises(ls.InvalidError, match=f"^text: expected text, got {type(value).__name__}$") as caught:
            call(value)
        assert caught.value.argument == "text"
    with pytest.raises(ls.InvalidError, match=r"^tag: .* is not a name such as memory$") as caught:
        lp.fence(value, "text")
    assert caught.value.argument == "tag"


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("prompt", None),
        ("prompt", "text"),
        ("usage", None),
        ("usage", 7),
        ("usage", {"input_tokens": 7}),
        ("usage", lp.TraceUsage("7")),  # type: ignore[arg-type]
        ("usage", lp.TraceUsage(10**5_000 * -1)),
    ],
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
async def test_bad_usage(argument: str, value: Any) -> None:
    async with ls.Laser.connect("memory:") as laser:
        for topic in (ls.AgentTopic.Sessions, ls.AgentTopic.Audit):
            await laser.ensure_topic(topic)
        builder = lp.PromptBuilder(laser, [lp.Identity("You help.")])
        prompt = await builder.build(ls.derive_conversation_id("a"), "hello", record=False)
        given: dict[str, Any] = {"prompt": prompt, "usage": lp.TraceUsage(1), argument: value}
        with pytest.raises(ls.InvalidError, match=f"^{argument}: ") as caught:
            await builder.record_usage(**given)
        assert caught.value.argument == argument
        assert [topic.records for topic in await laser.topics()] == [0, 0]


@pytest.mark.parametrize("value", [None, 7, [], ls.derive_conversation_id("a"), ls.ContextScope], ids=repr)
async def test_traces_are_of_a_scope(value: Any) -> None:
    with pytest.raises(ls.InvalidError, match=r"^scope: expected a conversation's scope") as caught:
        await lp.read_traces(value)
    assert caught.value.argument == "scope"
