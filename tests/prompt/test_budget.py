"""The budget: reserves first, the lowest priority leaves, pairs stay whole, the joined text is measured."""

from __future__ import annotations

import random
from typing import Any

import pytest

import laser as ls
import laser.prompt as lp
from laser.prompt.history.results import IMAGE_TOKENS
from tests.prompt.making import (
    IDENTITY,
    TOOLS,
    assert_pairs_whole,
    assistant,
    builder,
    calls,
    contents,
    result,
    says,
    used_tokens,
    user,
    values,
)

pytestmark = pytest.mark.anyio


async def test_under_the_budget_nothing_changes() -> None:
    # A3
    history = [user("a"), calls("c1"), result("c1"), assistant("b")]
    prompt = await builder(lp.History()).build(message="next", history=history)
    assert values(prompt) == [*history, user("next")]
    assert (prompt.trace.budget.verdict, prompt.trace.evicted) == ("fits", ())


async def test_the_lowest_priority_leaves_first() -> None:
    texts = {name: f"{name} " * 40 for name in ("low", "middle", "high")}
    providers = [
        says("high", texts["high"], priority=30),
        says("low", texts["low"], priority=10),
        says("middle", texts["middle"], priority=20),
    ]
    kept = []
    for tokens in (400, 230, 180, 100):
        prompt = await builder(*providers, tokens=tokens).build()
        kept.append([name for name in texts if texts[name] in prompt.system])
        assert used_tokens(prompt) <= tokens
    assert kept == [["low", "middle", "high"], ["middle", "high"], ["high"], []]
    assert [(one.category, one.priority) for one in prompt.trace.evicted] == [("low", 10), ("middle", 20), ("high", 30)]


async def test_of_one_priority_the_oldest_history_leaves_first() -> None:
    class Flat(lp.BaseProvider):
        name = "flat"

        async def provide(self, turn: lp.TurnContext) -> list[lp.Fragment]:
            texts = [f'{{"role":"user","content":"{number} {"x" * 100}"}}' for number in range(4)]
            return [lp.Fragment("flat", text, 50, place="history") for text in texts]

    prompt = await builder(says("other", "y" * 100, priority=50), Flat(), tokens=185).build()
    assert [text[0] for text in contents(prompt)] == ["2", "3"]
    assert "y" * 100 in prompt.system


async def test_what_is_pinned_never_leaves() -> None:
    with pytest.raises(ls.BudgetError) as caught:
        await builder(says("rules", "must stay " * 200, pinned=True), tokens=300).build()
    error = caught.value
    assert error.needed is not None
    assert error.available == 300
    assert error.needed > 300
    assert f"raise PromptBudget.tokens by at least {error.needed - 300}" in str(error)
    assert "rules 5" in str(error)
    prompt = await builder(says("rules", "must stay " * 200, pinned=True), tokens=error.needed).build()
    assert prompt.trace.budget.used == error.needed


async def test_reserves_are_taken_off_first() -> None:
    # B8
    big = ({"type": "function", "function": {"name": "x", "description": "d" * 3_600}},)
    with pytest.raises(ls.BudgetError, match=r"reply 100, tools 9\d\d, message 0"):
        await builder(tokens=1_000, reply=100).build(tools=big)
    prompt = await builder(tokens=2_000, reply=100).build(message="m" * 400, tools=big)
    report = prompt.trace.budget
    assert report.available == 2_000 - 100 - report.tools - report.message
    assert report.tools > 900
    assert report.message > 100
    assert used_tokens(prompt) + report.reply <= 2_000


@pytest.mark.parametrize("value", [-1, 1.5, float("nan"), None, "8000", True])
def test_budgets_that_are_none(value: Any) -> None:
    # B14
    for make in (lambda: lp.PromptBudget(value), lambda: lp.PromptBudget(100, value)):
        with pytest.raises(ls.BudgetError):
            make()


def test_a_budget_of_nothing_is_refused() -> None:
    for make in (lambda: lp.PromptBudget(0, 0), lambda: lp.PromptBudget(100, 100), lambda: lp.History(0)):
        with pytest.raises(ls.BudgetError):
            make()


async def test_the_newest_message_is_never_lost_silently() -> None:
    # A18, B13
    with pytest.raises(ls.BudgetError, match="history"):
        await builder(lp.History(), tokens=500).build(history=[user("x" * 4_000)])


async def test_a_unit_leaves_whole() -> None:
    # A1, A2, A6: a user spoke while the tools ran; calls and results hang together by id.
    history = [
        user("old"),
        calls("c1", "c2"),
        user("are you there?"),
        result("c1", "r" * 300),
        result("c2", "r" * 300),
        assistant("done"),
        user("thanks, and now something else"),
    ]
    seen = set()
    for tokens in range(90, 420, 5):
        try:
            prompt = await builder(lp.History(100_000), tokens=tokens).build(history=history)
        except ls.BudgetError:
            continue
        assert_pairs_whole(prompt.messages)
        assert used_tokens(prompt) <= tokens
        seen.add(len(prompt.messages))
    assert max(seen) == 7
    assert len(seen) > 3


async def test_the_joined_text_is_what_is_measured() -> None:
    class PerText:
        """Every text costs one token, and every line break in it another hundred."""

        name = "per text"

        def count(self, text: str) -> int:
            return 1 + 100 * text.rstrip("\n").count("\n")

        def __call__(self, message: ls.ContextMessage) -> int:
            return self.count(message.text)

    profile = lp.PromptProfile(lp.PromptBudget(450, 0), fencing=False)
    providers = [lp.Identity("i"), *(says(f"p{number}", "t", priority=number) for number in range(3))]
    prompt = await lp.PromptBuilder(None, providers, profile=profile, tokens=PerText()).build()
    # One by one they cost a few tokens; joined three line breaks a block and two between blocks.
    assert prompt.trace.budget.used <= 450
    assert prompt.trace.evicted


async def test_random_fragments_fit() -> None:
    for seed in range(60):
        pick = random.Random(seed)
        pieces = ["wörter ", "你好世界", "🔥👨‍👩‍👧‍👦", '{"a":1}', "code(x)\n"]
        providers = [
            says(f"p{number}", pick.choice(pieces) * pick.randint(1, 60), priority=pick.randint(0, 90))
            for number in range(8)
        ]
        tokens = pick.randint(150, 1_500)
        prompt = await builder(*providers, tokens=tokens).build(message="next", tools=TOOLS)
        assert used_tokens(prompt) <= tokens
        assert prompt.system.startswith(IDENTITY)


IMAGE = "data:image/png;base64," + "A" * 3_000_000


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": IMAGE}}]},
        {"role": "user", "content": [{"type": "input_image", "image_url": IMAGE}]},
        {"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": IMAGE}}]},
    ],
)
async def test_an_image_costs_a_flat_number(message: dict[str, Any]) -> None:
    # B5, B6
    prompt = await builder(lp.History()).build(history=[message, assistant("a cat")])
    assert values(prompt)[0] == message
    cost = next(one.tokens for one in prompt.sections if one.place == "history")
    assert IMAGE_TOKENS < cost < IMAGE_TOKENS + 60
    with pytest.raises(ls.BudgetError):
        await builder(lp.History(), tokens=IMAGE_TOKENS).build(history=[message])


async def test_many_images_are_no_flood() -> None:
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": IMAGE}}]}
    prompt = await builder(lp.History(20_000), tokens=20_000).build(history=[image] * 8)
    assert len(prompt.messages) == 8
    assert prompt.trace.warnings == ()


async def test_what_the_user_wants_is_never_evicted() -> None:
    history = [
        assistant("old " * 100),
        user("the task"),
        *(one for n in range(6) for one in (calls(f"c{n}"), result(f"c{n}", "x" * 200))),
    ]
    prompt = await builder(lp.History(100_000), tokens=330).build(history=history)
    assert prompt.trace.evicted
    assert contents(prompt)[0] == "the task"
    assert_pairs_whole(prompt.messages)


async def test_arguments_of_calls_are_counted() -> None:
    # B7
    history = [user("a"), calls("c1", arguments="x" * 40_000), result("c1"), user("b")]
    prompt = await builder(lp.History(100_000), tokens=30_000).build(history=history)
    assert prompt.trace.budget.used > 10_000
    prompt = await builder(lp.History(100_000), tokens=3_000).build(history=history)
    assert contents(prompt) == ["b"]


async def test_metadata_is_neither_counted_nor_sent() -> None:
    # B10
    history = [{**user("hello"), "metadata": {"trace": "m" * 20_000}}]
    prompt = await builder(lp.History(), tokens=500).build(history=history)
    assert values(prompt) == [user("hello")]
