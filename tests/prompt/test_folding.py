"""The history's fold on random and hostile messages: pairs whole, within the budget, held between trims."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from laser.prompt.history.folding import HistoryFold, HistorySettings
from laser.prompt.history.items import INSTRUCTIONS, item_of_payload
from laser.prompt.history.values import digest_of
from tests.prompt.making import assert_pairs_whole, assistant, calls, result, user
from tests.properties import examples

IDS = st.sampled_from(["c1", "c2", "c3"])
TEXTS = st.one_of(
    st.text(max_size=40),
    st.integers(1, 900).map(lambda count: "word ORD-7 " * count),
    st.integers(1, 60).map(lambda count: json.dumps([{"id": f"A-{number}", "at": "x"} for number in range(count)])),
    st.sampled_from(["", "{bad", "[]", "\ud83d", "你好" * 50, "🔥" * 40, "same " * 100]),
)
MESSAGES = st.one_of(
    TEXTS.map(user),
    TEXTS.map(assistant),
    st.lists(IDS, min_size=1, max_size=3).map(lambda ids: calls(*ids)),
    st.builds(result, IDS, TEXTS),
    st.builds(lambda one, text: {"type": "function_call_output", "call_id": one, "output": text}, IDS, TEXTS),
    IDS.map(lambda one: {"type": "function_call", "call_id": one, "name": "f", "arguments": "{}"}),
    st.just({"type": "reasoning", "id": "r", "summary": []}),
    st.builds(
        lambda one, text: {"role": "user", "content": [{"type": "tool_result", "tool_use_id": one, "content": text}]},
        IDS,
        TEXTS,
    ),
    st.just({"role": "system", "content": "rules"}),
)

SHARES = st.sampled_from([0, 0.1, 0.3])


def fold(messages: list[dict[str, Any]], how: HistorySettings) -> HistoryFold:
    made = HistoryFold(how, ls.tokens())
    for message in messages:
        made.push(item_of_payload(json.dumps(message).encode(), ls.tokens()))
    return made


def shown(made: HistoryFold) -> list[str]:
    return ([made.ledger.text] if made.ledger.text else []) + [item.text for item in made.shown()]


@given(st.lists(MESSAGES, min_size=1, max_size=60), st.integers(60, 1_500), st.booleans(), st.booleans(), SHARES)
@examples(300)
def test_random_histories(
    messages: list[dict[str, Any]], tokens: int, clear: bool, compress: bool, ledger: float
) -> None:
    how = HistorySettings(tokens, tokens * 3 // 4, int(tokens * ledger), clear, compress)
    made = HistoryFold(how, ls.tokens())
    before: list[str] = []
    trims = 0
    for message in messages:
        made.push(item_of_payload(json.dumps(message).encode(), ls.tokens()))
        now = [item.text for item in made.items]
        if made.trims == trims:
            assert now[: len(before)] == before
        before, trims = now, made.trims
        texts = shown(made)
        assert_pairs_whole([text.encode() for text in texts])
        # Only what never leaves may be over: the newest unit, the user's newest words, instructions.
        spoken = [item.unit for item in made.items if item.role == "user" and not item.facts.results]
        stay = {item.unit for item in made.items if item.role in INSTRUCTIONS} | set(spoken[-1:])
        stay |= {item.unit for item in made.items[-1:]}
        total = sum(item.tokens for item in made.items) + made.ledger.cost
        assert total <= tokens or {item.unit for item in made.items} <= stay
        assert made.messages >= len(made.items) + made.dropped
    assert shown(fold(messages, how)) == shown(made)


def test_a_large_turn_of_tools_is_trimmed_within_itself() -> None:
    messages = [user("the task")]
    for number in range(200):
        messages += [calls(f"c{number}"), result(f"c{number}", f"ORD-{number} " * 100)]
    made = fold(messages, HistorySettings(1_500, 1_100, 200))
    assert sum(item.tokens for item in made.items) + made.ledger.cost <= 1_500
    assert made.items[0].value == user("the task")


@pytest.mark.parametrize(
    "text",
    ["a" * 1_000_000, "a_" * 500_000, "-" * 1_000_000, "[" * 100_000, "1 " * 500_000, '{"a":' * 900 + "1" + "}" * 900],
)
def test_hostile_texts_take_no_time(text: str) -> None:
    began = time.thread_time()
    digest = digest_of(text, 200)
    fold([calls("c1"), result("c1", text), *(user("words " * 50) for _ in range(10))], HistorySettings(500, 375, 100))
    assert time.thread_time() - began < 5
    assert len(digest) < 400
