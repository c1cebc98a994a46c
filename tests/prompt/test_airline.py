"""200 real conversations, turn by turn: a stable prefix, a budget that holds, pairs whole, values that survive."""

from __future__ import annotations

import json
from typing import Any

import pytest

import laser as ls
import laser.prompt as lp
from benchmarks.facts import measure_facts
from tests.prompt.making import TOOLS, assert_pairs_whole
from tests.shared import airline_conversations

# Pure work without a log of its own: one event loop is enough.
pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


@pytest.mark.parametrize("tokenizer", ["bytes/4", "o200k_base"])
async def test_turn_by_turn(tokenizer: str, capsys: pytest.CaptureFixture[str]) -> None:
    conversations = airline_conversations()
    counter = ls.tokens(tokenizer)
    identity = json.loads(conversations[0][0])["content"]
    profile = lp.PromptProfile(lp.PromptBudget(6_000, 500))
    made = lp.PromptBuilder(
        None, [lp.Identity(identity), lp.History(2_500), lp.Request()], profile=profile, tokens=counter
    )
    prefixes: set[tuple[str, tuple[bytes, ...]]] = set()
    stable = total = builds = kept = seen = 0
    # Counting with a vocabulary takes longer: every fourth conversation then.
    for conversation in conversations[:: 1 if tokenizer == "bytes/4" else 4]:
        messages = conversation[1:]
        before: tuple[bytes, ...] = ()
        trims = 0
        for turn in [place for place, one in enumerate(messages) if b'"role": "user"' in one]:
            prompt = await made.build(
                history=messages[: turn + 1], tools=TOOLS, variables={"turn": str(turn)}, record=False
            )
            prefixes.add((prompt.system_identity, prompt.tools))
            trace = prompt.trace
            assert counter.count(prompt.text) + trace.budget.tools + trace.budget.reply <= 6_000
            assert trace.budget.used == counter.count(prompt.text)
            assert not trace.evicted
            assert_pairs_whole(prompt.messages)
            assert prompt.messages[-1] == messages[turn]
            if trace.history.trims == trims:
                assert prompt.messages[: len(before)] == before
            kept += len(_common(before, prompt.messages))
            seen += len(before)
            before, trims = prompt.messages, trace.history.trims
            stable += trace.stable_tokens
            total += trace.budget.used + trace.budget.tools
            builds += 1
    assert len(prefixes) == 1
    assert builds > 300
    assert kept / seen > 0.7
    with capsys.disabled():
        print(
            f"\n{builds} prompts by {tokenizer}: {stable / total:.1%} of tokens in the stable prefix, "
            f"{kept / seen:.1%} of earlier messages still where they were"
        )


def _common(one: tuple[bytes, ...], other: tuple[bytes, ...]) -> tuple[bytes, ...]:
    for place, (first, second) in enumerate(zip(one, other, strict=False)):
        if first != second:
            return one[:place]
    return one[: len(other)]


async def test_values_that_calls_need_survive() -> None:
    conversations: list[list[dict[str, Any]]] = [list(map(json.loads, one)) for one in airline_conversations()]
    found = measure_facts(conversations, 2_000)
    assert (found.wanted, found.newest_first) == (2_111, 1_931)
    assert found.kept / found.wanted >= 0.97
    assert found.over_budget == found.broken_pairs == found.moved == 0
    larger = measure_facts(conversations, 4_000)
    assert round(larger.newest_first / larger.wanted, 3) == 0.987
    assert larger.kept >= larger.newest_first
