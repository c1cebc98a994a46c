"""Policies of the user's own: functions and objects, those that behave and those that do not."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest

import laser as ls
from tests.context.making import history, payloads

pytestmark = pytest.mark.anyio

TOPICS = [ls.AgentTopic.Sessions]
CONVERSATION = ls.derive_conversation_id("custom policies")


@pytest.fixture
async def scope(memory_laser: ls.Laser) -> ls.ContextScope:
    """A conversation of five messages."""
    scope = memory_laser.context(CONVERSATION)
    await scope.append_many(ls.AgentTopic.Sessions, ["one", "two", "three", "four", "five"])
    return scope


def small(messages: list[ls.ContextMessage]) -> list[ls.ContextMessage]:
    return [message for message in messages if len(message.payload) < 4]


def even(messages: list[ls.ContextMessage]) -> Iterator[ls.ContextMessage]:
    yield from messages[1::2]


class Pinned:
    """Keeps the first message and the newest."""

    name = "pinned"
    version = "3"

    def selection(self, history: Sequence[ls.ContextMessage]) -> ls.Selection:
        return ls.Selection([history[0], history[-1]], list(history[1:-1]), self.name)


class FirstAndLast(ls.LastN):
    """A subclass that keeps more than the newest."""

    def selection(self, history: Sequence[ls.ContextMessage]) -> ls.Selection:
        return ls.Selection([history[0], *history[-self.n :]], list(history[1 : -self.n]), self.name)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (small, [b"one", b"two"]),
        (even, [b"two", b"four"]),
        (lambda messages: tuple(messages), [b"one", b"two", b"three", b"four", b"five"]),
        (lambda messages: [], []),
        (lambda messages: filter(None, messages[:1]), [b"one"]),
        (ls.Chain([small, ls.LastN(1)]), [b"two"]),
        (ls.Chain([ls.LastN(4), even]), [b"three", b"five"]),
        (Pinned(), [b"one", b"five"]),
        (ls.Chain([Pinned(), small]), [b"one"]),
        (FirstAndLast(1), [b"one", b"five"]),
        (ls.Chain([FirstAndLast(1)]), [b"one", b"five"]),
    ],
)
async def test_functions_and_objects(scope: ls.ContextScope, policy: Any, expected: list[bytes]) -> None:
    assert payloads(await scope.fetch_with(TOPICS, policy)) == expected


def test_a_chain_says_what_a_function_dropped() -> None:
    made = history(["one", "three", "two"])
    selection = ls.Chain([small]).selection(made)
    assert (selection.kept, selection.dropped, selection.reason) == ([made[0], made[2]], [made[1]], "chain(custom)")


async def test_a_function_gets_a_list_of_its_own(scope: ls.ContextScope) -> None:
    def clear(messages: list[ls.ContextMessage]) -> list[ls.ContextMessage]:
        kept = messages[:2]
        messages.clear()
        return kept

    made = history(["one", "two", "three"])
    assert ls.Chain([clear]).selection(made).dropped == made[2:]
    assert len(made) == 3
    assert payloads(await scope.fetch_with(TOPICS, clear)) == [b"one", b"two"]


async def test_a20_a_view_changes_nothing_on_the_log(scope: ls.ContextScope) -> None:
    assert len(await scope.fetch_with(TOPICS, lambda messages: messages[:1])) == 1
    assert len(await scope.fetch()) == 5


async def is_async(messages: list[ls.ContextMessage]) -> list[ls.ContextMessage]:
    return messages


async def yields_async(messages: list[ls.ContextMessage]) -> AsyncIterator[ls.ContextMessage]:
    for message in messages:
        yield message


class AsyncSelection:
    name = "async"
    version = "1"

    async def selection(self, history: Sequence[ls.ContextMessage]) -> ls.Selection:
        return ls.Selection(list(history), [], self.name)


class NoSelection:
    name = "none"
    version = "1"

    def selection(self, history: Sequence[ls.ContextMessage]) -> Any:
        return list(history)


class Nothing(NoSelection):
    def selection(self, history: Sequence[ls.ContextMessage]) -> Any:
        return None


MISTAKES = {
    "async function": is_async,
    "async generator": yields_async,
    "no return": lambda messages: None,
    "text": lambda messages: "messages",
    "bytes": lambda messages: b"messages",
    "number": lambda messages: len(messages),
    "one message": lambda messages: messages[0],
    "payloads": lambda messages: [message.payload for message in messages],
    "some of another type": lambda messages: [*messages, None],
    "async selection": AsyncSelection(),
    "list instead of a selection": NoSelection(),
    "nothing instead of a selection": Nothing(),
}


@pytest.mark.parametrize("policy", MISTAKES.values(), ids=MISTAKES.keys())
async def test_mistakes_are_one_typed_error(scope: ls.ContextScope, policy: Any) -> None:
    for whole in (policy, ls.Chain([policy]), ls.Chain([ls.LastN(3), policy, ls.LastN(1)])):
        with pytest.raises(ls.InvalidError, match="policy") as caught:
            await scope.fetch_with(TOPICS, whole)
        assert caught.value.argument == "policy"
    # With a history that is handed to a worker thread, too.
    await scope.append_many(ls.AgentTopic.Sessions, ["more"] * 300)
    with pytest.raises(ls.InvalidError, match="policy"):
        await scope.fetch_with(TOPICS, policy)


@pytest.mark.parametrize("policy", [None, 5, "last_n(3)", ls.LastN, [ls.LastN(3)], object()])
async def test_what_is_no_policy_is_refused(scope: ls.ContextScope, policy: Any) -> None:
    with pytest.raises(ls.InvalidError) as caught:
        await scope.fetch_with(TOPICS, policy)
    assert caught.value.argument == "policy"


async def test_a17_errors_of_a_function_reach_the_caller(scope: ls.ContextScope) -> None:
    def fail(messages: list[ls.ContextMessage]) -> list[ls.ContextMessage]:
        raise ZeroDivisionError("mine")

    for policy in (fail, ls.Chain([fail])):
        with pytest.raises(ZeroDivisionError, match="mine"):
            await scope.fetch_with(TOPICS, policy)


async def test_k2_a_slow_policy_over_a_long_history_leaves_the_loop_free(scope: ls.ContextScope) -> None:
    await scope.append_many(ls.AgentTopic.Sessions, ["more"] * 300)
    loop = threading.get_ident()
    ran_on: list[int] = []

    def note(messages: list[ls.ContextMessage]) -> list[ls.ContextMessage]:
        ran_on.append(threading.get_ident())
        return messages

    await scope.fetch_with(TOPICS, note)
    assert ran_on != [loop]
