"""State folds: every bound, whole ranges, and what a fold may be."""

from __future__ import annotations

import functools
import logging
from collections import Counter, deque
from typing import Any

import anyio.lowlevel
import pytest

import laser as ls
from tests.context.folding import SESSIONS, append_garbage, chain, count, texts

pytestmark = pytest.mark.anyio

TOOLS = ls.AgentTopic.ToolCalls
BOTH = [ls.AgentTopic.Sessions, TOOLS]


@pytest.fixture
def scope(laser: ls.Laser) -> ls.ContextScope:
    return laser.context(ls.new_conversation_id())


async def _say(scope: ls.ContextScope, *said: str, topic: str = ls.AgentTopic.Sessions) -> None:
    for text in said:
        await scope.append(topic, text)


async def test_every_bound(laser: ls.Laser, scope: ls.ContextScope) -> None:
    await _say(scope, "a", "b")
    await laser.context(ls.new_conversation_id()).append(SESSIONS[0], "of another conversation")
    middle = await scope.checkpoint()
    await _say(scope, "c", "d", "e")
    place = (await scope.fetch())[3]

    async def fold(**bound: Any) -> list[str]:
        return await scope.state(SESSIONS, [], texts, **bound)

    assert await fold(full=True) == ["a", "b", "c", "d", "e"]
    assert await fold(last_n=2) == ["d", "e"]
    assert await fold(last_n=0) == []
    assert await fold(last_n=99) == ["a", "b", "c", "d", "e"]
    assert await fold(from_checkpoint=middle) == ["c", "d", "e"]
    assert await fold(at=middle) == ["a", "b"]
    assert await fold(from_offsets={place.topic: {place.partition: place.offset}}) == ["d", "e"]
    assert await fold(from_offsets={}) == ["a", "b", "c", "d", "e"]


async def test_f1_the_offset_of_a_checkpoint_is_the_next_one_to_read(scope: ls.ContextScope) -> None:
    """F1: also 0 is a value; nothing is skipped at the start, at the middle, or at the end."""
    begin = await scope.checkpoint()
    await _say(scope, "first", "second")
    end = await scope.checkpoint()
    assert await scope.state(SESSIONS, [], texts, from_checkpoint=begin) == ["first", "second"]
    assert await scope.state(SESSIONS, [], texts, at=begin) == []
    assert await scope.state(SESSIONS, [], texts, from_checkpoint=end) == []
    assert await scope.state(SESSIONS, [], texts, at=end) == ["first", "second"]
    partition = (await scope.fetch())[0].partition
    assert begin.topics()[SESSIONS[0]][partition] == 0
    assert end.topics()[SESSIONS[0]][partition] == 2


@pytest.mark.parametrize(
    ("bound", "argument"),
    [
        ({}, "full"),
        ({"full": False}, "full"),
        ({"full": True, "last_n": 1}, "full"),
        ({"full": True, "from_offsets": {}}, "full"),
        ({"at": ls.Checkpoint({}), "from_checkpoint": ls.Checkpoint({})}, "at"),
        ({"last_n": -1}, "n"),
        ({"last_n": 1.5}, "n"),
        ({"last_n": True}, "n"),
        ({"at": "{}"}, "at"),
        ({"from_checkpoint": {"per_topic": {}}}, "from_checkpoint"),
        ({"from_offsets": {0: 5}}, "from_offsets"),
        ({"from_offsets": {"agent.sessions": 5}}, "from_offsets"),
        ({"from_offsets": {"agent.sessions": {0: -1}}}, "from_offsets"),
        ({"from_offsets": {"agent.sessions": {"0": 1}}}, "from_offsets"),
        ({"from_offsets": [("agent.sessions", {})]}, "from_offsets"),
    ],
)
async def test_exactly_one_good_bound(memory_laser: ls.Laser, bound: dict[str, Any], argument: str) -> None:
    scope = memory_laser.context(ls.new_conversation_id())
    for call in (scope.state, functools.partial(ls.ConversationState.load, memory_laser, scope.conversation)):
        with pytest.raises(ls.InvalidError) as caught:
            await call(SESSIONS, 0, count, **bound)
        assert caught.value.argument == argument


@pytest.mark.parametrize(
    ("topics", "fold", "argument"),
    [("agent.sessions", count, "topics"), ([""], count, "topics"), (SESSIONS, None, "fold"), (SESSIONS, 5, "fold")],
)
async def test_bad_arguments(memory_laser: ls.Laser, topics: Any, fold: Any, argument: str) -> None:
    scope = memory_laser.context(ls.new_conversation_id())
    for call in (
        functools.partial(scope.state, topics, 0, fold, full=True),
        functools.partial(scope.state_with, ls.TopicSnapshotStore(memory_laser, "f"), topics, 0, fold),
    ):
        with pytest.raises(ls.InvalidError) as caught:
            await call()
        assert caught.value.argument == argument


async def test_offsets_of_one_topic_skip_nothing_in_another(scope: ls.ContextScope) -> None:
    await _say(scope, "s0", "s1", "s2")
    await _say(scope, "t0", "t1", topic=TOOLS)
    sessions = (await scope.fetch())[0].partition
    found = await scope.state(BOTH, [], texts, from_offsets={SESSIONS[0]: {sessions: 2}})
    assert found == ["s2", "t0", "t1"]
    # What is given for a topic or partition that has no records of the conversation changes nothing.
    assert await scope.state(SESSIONS, [], texts, from_offsets={TOOLS: {0: 99}, SESSIONS[0]: {sessions: 1}}) == [
        "s1",
        "s2",
    ]


async def test_an_absent_topic_has_no_messages(scope: ls.ContextScope) -> None:
    await _say(scope, "a")
    assert await scope.state(["no.such", *SESSIONS], [], texts, full=True) == ["a"]
    assert await scope.state(["no.such"], [], texts, full=True) == []
    assert await scope.state([], [], texts, full=True) == []
    assert (await scope.checkpoint(["no.such"])).is_empty()


async def test_topics_are_merged_by_time(scope: ls.ContextScope) -> None:
    """The order of a fold is that of a fetch, whatever the order of the topics."""
    for number in range(40):
        await _say(scope, f"{number}", topic=BOTH[number % 3 % 2])
    expected = [f"{number}" for number in range(40)]
    assert await scope.state(BOTH, [], texts, full=True) == expected
    assert await scope.state(BOTH[::-1], [], texts, full=True) == expected
    messages = await scope.fetch(topics=BOTH, n=40)
    assert await scope.state(BOTH, "", chain, full=True) == functools.reduce(chain, messages, "")


async def test_folds_may_be_plain_or_async(scope: ls.ContextScope) -> None:
    await _say(scope, "a", "b")

    async def slow(state: list[str], message: ls.ContextMessage) -> list[str]:
        await anyio.lowlevel.checkpoint()
        return [*state, message.text]

    class Folder:
        async def __call__(self, state: list[str], message: ls.ContextMessage) -> list[str]:
            return [*state, message.text]

    folds: list[Any] = [texts, slow, Folder(), functools.partial(slow), lambda state, message: slow(state, message)]
    for fold in folds:
        assert await scope.state(SESSIONS, [], fold, full=True) == ["a", "b"]
        assert await scope.state(SESSIONS, [], fold, last_n=5) == ["a", "b"]


@pytest.mark.parametrize(
    "init", [[], {}, set(), deque(), bytearray(), Counter(), {"inner": []}], ids=lambda init: repr(init)
)
async def test_a_mutable_init_does_not_leak_into_the_next_fold(memory_laser: ls.Laser, init: Any) -> None:
    scope = memory_laser.context(ls.new_conversation_id())
    await _say(scope, "a", "b")
    before = repr(init)

    def fold(state: Any, message: ls.ContextMessage) -> Any:
        match state:
            case {"inner": inner}:
                inner.append(message.text)
            case dict():
                state[message.text] = 1
            case set():
                state.add(message.text)
            case bytearray():
                state.extend(message.payload)
            case _:
                state.append(message.text)
        return state

    first = repr(await scope.state(SESSIONS, init, fold, full=True))
    assert repr(init) == before
    assert repr(await scope.state(SESSIONS, init, fold, full=True)) == first
    assert repr(await scope.state(SESSIONS, init, fold, last_n=9)) == first
    assert repr(await scope.state_with(ls.TopicSnapshotStore(memory_laser, "f"), SESSIONS, init, fold)) == first
    assert repr(init) == before


async def test_other_values_are_given_as_they_are(memory_laser: ls.Laser) -> None:
    scope = memory_laser.context(ls.new_conversation_id())
    init = object()
    assert await scope.state(SESSIONS, init, lambda state, message: state, full=True) is init


async def test_f10_an_error_of_the_fold_is_the_callers_and_nothing_is_saved(laser: ls.Laser) -> None:
    """F10, F2: the mark of what is done moves only with what is done."""
    scope = laser.context(ls.new_conversation_id())
    await _say(scope, "a", "b", "c")
    store = ls.TopicSnapshotStore(laser, "f")

    def fails(state: int, message: ls.ContextMessage) -> int:
        if message.text == "b":
            raise ZeroDivisionError("of the fold")
        return state + 1

    with pytest.raises(ZeroDivisionError, match="of the fold"):
        await scope.state(SESSIONS, 0, fails, full=True)
    with pytest.raises(ZeroDivisionError, match="of the fold"):
        await scope.state_with(store, SESSIONS, 0, fails, save=ls.AutoSave(every=2))
    assert await store.latest(scope.conversation) is None
    assert await scope.state_with(store, SESSIONS, 0, count) == 3


async def test_progress(laser: ls.Laser, scope: ls.ContextScope) -> None:
    other = laser.context(ls.new_conversation_id())
    for number in range(3):
        await scope.append_many(SESSIONS[0], [f"{number}-{place}" for place in range(500)])
        await other.append_many(SESSIONS[0], ["x"] * 400)
    seen: list[ls.FoldProgress] = []
    assert await scope.state(SESSIONS, 0, count, full=True, progress=seen.append) == 1_500
    assert len(seen) > 1
    assert all(one.total == 2_700 for one in seen)
    assert [one.read for one in seen] == sorted(one.read for one in seen)
    assert [one.folded for one in seen] == sorted(one.folded for one in seen)
    assert seen[-1] == ls.FoldProgress(folded=1_500, read=2_700, total=2_700, skipped=0)
    seen.clear()
    assert await scope.state(SESSIONS, 0, count, last_n=5, progress=seen.append) == 5
    assert seen == [ls.FoldProgress(folded=5, read=5, total=5, skipped=0)]


@pytest.mark.parametrize("bound", [{"full": True}, {"last_n": 10}], ids=str)
async def test_f5_e4_records_that_cannot_be_decoded_are_left_out_and_reported(
    laser: ls.Laser, scope: ls.ContextScope, caplog: pytest.LogCaptureFixture, bound: dict[str, Any]
) -> None:
    """F5, E4: one bad record stops nothing, and is not silent."""
    await _say(scope, "a")
    await append_garbage(laser, SESSIONS[0], scope.conversation)
    await append_garbage(laser, SESSIONS[0], scope.conversation)
    await _say(scope, "b")
    seen: list[ls.FoldProgress] = []
    with caplog.at_level(logging.WARNING, "laser.context"):
        assert await scope.state(SESSIONS, [], texts, progress=seen.append, **bound) == ["a", "b"]
    assert seen[-1].skipped == 2
    said = [record.getMessage() for record in caplog.records if record.name == "laser.context"]
    assert len(said) == 1
    partition = (await scope.fetch())[0].partition
    assert said[0].startswith(f"fold: 2 records could not be decoded and were left out, the first at {SESSIONS[0]} ")
    assert f" {partition}:1: " in said[0]


async def test_without_a_scope(laser: ls.Laser, scope: ls.ContextScope) -> None:
    await _say(scope, "a", "b")
    load = ls.ConversationState.load
    assert await load(laser, scope.conversation.lower(), SESSIONS, [], texts, full=True) == ["a", "b"]
    assert await load(laser, scope.conversation, SESSIONS, [], texts, last_n=1) == ["b"]
    store = ls.TopicSnapshotStore(laser, "texts")
    load_with = ls.ConversationState.load_with
    found = await load_with(laser, store, scope.conversation, SESSIONS, [], texts, save=ls.AutoSave(every=1))
    assert found == ["a", "b"]
    assert (await store.latest(scope.conversation)) is not None
    assert await load_with(laser, store, scope.conversation, SESSIONS, [], texts) == ["a", "b"]
    with pytest.raises(ls.IdError):
        await load(laser, "no id", SESSIONS, [], texts, full=True)
    with pytest.raises(ls.IdError):
        await load_with(laser, store, "no id", SESSIONS, [], texts)
