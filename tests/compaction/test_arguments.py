"""Wrong kinds of arguments are refused in words, before anything is asked or written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import laser as ls
from laser.compaction.summarizers.models import ModelSummarizer
from laser.models import LoweredRequest, ModelSelection
from laser.testing.summarizers import NotingSummarizer

pytestmark = pytest.mark.anyio

A = ls.derive_conversation_id("a")
CALLS: dict[str, Callable[[ls.Compaction, Any], Awaitable[object]]] = {
    "prepare": lambda compaction, value: compaction.prepare(context=value),
    "observe": lambda compaction, value: compaction.observe(context=value),
    "preview": lambda compaction, value: compaction.preview(context=value),
    "compact": lambda compaction, value: compaction.compact("rolling", context=value),
}


@pytest.mark.parametrize("name", CALLS)
async def test_context_is_a_list_of_messages(memory_laser: ls.Laser, name: str) -> None:
    await memory_laser.context(A).append(ls.AgentTopic.Sessions, b"hello")
    before = [(topic.name, topic.records) for topic in await memory_laser.topics()]
    summarizer = NotingSummarizer()
    compaction = memory_laser.compaction(A, summarizer=summarizer)
    values: list[Any] = [None, 7, "text", b"message", {b"message"}, [None], ["text"]]
    for value in values:
        with pytest.raises(ls.InvalidError, match=r"^context") as caught:
            await CALLS[name](compaction, value)
        assert caught.value.argument == "context"
    assert [(topic.name, topic.records) for topic in await memory_laser.topics()] == before
    assert summarizer.requests == []


@pytest.mark.parametrize("name", ["prepare", "observe", "preview", "compact"])
async def test_tokens_have_a_text(memory_laser: ls.Laser, name: str) -> None:
    call = getattr(memory_laser.compaction(A), name)
    for argument in ("window", "reserve"):
        with pytest.raises(ls.BudgetError, match=f"^{argument}: ") as caught:
            await call(**{argument: 10**5_000})
        assert caught.value.argument == argument


@pytest.mark.parametrize("value", [None, 7, b"id", [A], ls.Session], ids=repr)
async def test_a_compaction_is_of_a_session(memory_laser: ls.Laser, value: Any) -> None:
    with pytest.raises(ls.InvalidError, match=r"^session: expected a Session or its id, got ") as caught:
        memory_laser.compaction(value)
    assert caught.value.argument == "session"
    session = await memory_laser.sessions().start()
    assert memory_laser.compaction(session).session == memory_laser.compaction(session.id).session == session.id


@pytest.mark.parametrize(
    "argument", ["registry", "estimator", "repairs", "summarizer", "timeout", "images", "provider"]
)
async def test_each_argument_is_of_its_kind(memory_laser: ls.Laser, argument: str) -> None:
    values: list[Any] = [[], b"x", {7}, object()]
    for value in values:
        with pytest.raises(ls.InvalidError, match=f"^{argument}: ") as caught:
            if argument in ("images", "provider"):
                await memory_laser.compaction(A).observe(**{argument: value})
            else:
                ls.Compaction(memory_laser, A, **{argument: value})
        assert caught.value.argument == argument
    if argument in ("estimator", "summarizer", "timeout"):
        given: dict[str, Any] = {"summarizer": NotingSummarizer(), argument: b"x"}
        with pytest.raises(ls.InvalidError, match=f"^{argument}: "):
            ls.strategy_compactor(**given)


async def _send(request: LoweredRequest) -> bytes:
    raise AssertionError("nothing is sent")


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("send", None),
        ("send", "https://example.com"),
        ("selection", None),
        ("selection", "gpt-5"),
        ("selection", ("p", "chat_completions", "m")),
        ("parameters", 7),
        ("parameters", ["temperature"]),
        ("parameters", {7: 1}),
        ("allow", "top_k"),
        ("allow", 7),
        ("allow", (7,)),
        ("limit_parameter", 7),
        ("headroom", None),
        ("headroom", 10**5_000 * -1),
    ],
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
def test_a_summarizer_is_made_of_the_right_kinds(argument: str, value: Any) -> None:
    given: dict[str, Any] = {"send": _send, "selection": ModelSelection("p", "chat_completions", "m"), argument: value}
    with pytest.raises(ls.InvalidError, match=f"^{argument}: ") as caught:
        ModelSummarizer(**given)
    assert caught.value.argument == argument
