"""The policies that cut by count, tokens and agent, alone and in chains."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from tests.context.making import AGENTS, chat, histories, history, is_ordered_subset, message, payloads
from tests.properties import examples

_counts = st.integers(0, 15)
_simple = (
    _counts.map(ls.LastN)
    | st.integers(0, 60).map(ls.TokenBudget)
    | st.integers(0, 30).map(lambda budget: ls.TokenBudget(budget, estimator=lambda one: one.payload.count(b"\0")))
    | st.lists(st.sampled_from(AGENTS)).map(ls.RoleFilter)
    | st.sampled_from([ls.ToolPairs(), ls.ChatRoles(["user"])])
)
policies = _simple | st.lists(_simple, max_size=4).map(ls.Chain)


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        (ls.LastN(3), "last_n(3)"),
        (ls.TokenBudget(100), "token_budget(100)"),
        (ls.RoleFilter(["a", "b"]), "role_filter"),
        (ls.Chain([]), "chain()"),
        (ls.Chain([ls.LastN(3), ls.TokenBudget(100)]), "chain(last_n(3),token_budget(100))"),
        (ls.Chain([lambda messages: messages, ls.LastN(2)]), "chain(custom,last_n(2))"),
        (ls.Chain([ls.Chain([ls.LastN(1)])]), "chain(chain(last_n(1)))"),
        (ls.ToolPairs(), "tool_pairs"),
        (ls.ToolPairs(start_on="user"), "tool_pairs(user)"),
        (ls.ChatRoles(["user"]), "chat_roles"),
    ],
)
def test_names_versions_and_reasons(policy: ls.ContextPolicy, name: str) -> None:
    assert (policy.name, policy.version) == (name, "1")
    assert policy.selection([]).reason == name
    assert isinstance(policy, ls.ContextPolicy)
    assert repr(policy)


@given(policies, histories)
@examples(400)
def test_kept_and_dropped_are_the_history_split_in_order(
    policy: ls.ContextPolicy, made: list[ls.ContextMessage]
) -> None:
    selection = policy.selection(made)
    assert is_ordered_subset(selection.kept, made)
    assert is_ordered_subset(selection.dropped, made)
    assert len(selection.kept) + len(selection.dropped) == len(made)


@given(policies, histories)
@examples(200)
def test_policies_are_pure(policy: ls.ContextPolicy, made: list[ls.ContextMessage]) -> None:
    before = list(made)
    first, second = policy.selection(made), policy.selection(tuple(made))
    assert first == second
    assert list(map(id, made)) == list(map(id, before))
    # What a caller does to a selection reaches neither the history nor the next selection.
    first.kept.clear()
    first.dropped.clear()
    assert policy.selection(made) == second


@given(st.lists(policies, max_size=4), histories)
@examples(300)
def test_a_chain_is_its_policies_one_after_another(
    steps: list[ls.ContextPolicy], made: list[ls.ContextMessage]
) -> None:
    kept = list(made)
    for step in steps:
        kept = step.selection(kept).kept
    selection = ls.Chain(steps).selection(made)
    assert list(map(id, selection.kept)) == list(map(id, kept))
    assert selection.dropped == [one for one in made if id(one) not in set(map(id, kept))]


@given(_counts, histories)
@examples(200)
def test_a12_last_n_keeps_the_newest_oldest_first(count: int, made: list[ls.ContextMessage]) -> None:
    assert ls.LastN(count).selection(made).kept == (made[-count:] if count else [])


@given(st.integers(0, 60), histories)
@examples(300)
def test_b12_a_budget_is_a_ceiling_unless_the_newest_alone_is_over_it(
    budget: int, made: list[ls.ContextMessage]
) -> None:
    selection = ls.TokenBudget(budget).selection(made)
    used = sum(ls.estimate_tokens(one.payload) for one in selection.kept)
    assert selection.over_budget == (used > budget)
    if selection.over_budget:
        assert selection.kept == made[-1:]
    elif selection.dropped:
        assert used + ls.estimate_tokens(selection.dropped[-1].payload) > budget
    assert bool(selection.kept) == bool(made)
    assert made[len(made) - len(selection.kept) :] == selection.kept


@given(st.integers(0, 200), histories)
@examples(100)
def test_a3_under_budget_the_output_is_the_input(spare: int, made: list[ls.ContextMessage]) -> None:
    needed = sum(ls.estimate_tokens(one.payload) for one in made)
    selection = ls.TokenBudget(needed + spare).selection(made)
    assert selection.kept == made
    assert not selection.over_budget


@given(st.lists(st.sampled_from([*AGENTS, "A"])), histories)
@examples(200)
def test_role_filter_compares_names_as_they_are(agents: list[str], made: list[ls.ContextMessage]) -> None:
    kept = ls.RoleFilter(agents).selection(made).kept
    assert kept == [one for one in made if one.provenance.agent in agents]


def test_the_peers_budget_cases() -> None:
    # Measured on laser-sdk 0.8.2: payloads of 40, 400, 40, 40 bytes.
    made = history([b"a" * size for size in (40, 400, 40, 40)])
    for budget, expected in [
        (0, [40]), (1, [40]), (10, [40]), (19, [40]), (20, [40, 40]), (30, [40, 40]), (110, [40, 40]),
        (119, [40, 40]), (120, [400, 40, 40]), (130, [40, 400, 40, 40]), (200, [40, 400, 40, 40]),
    ]:  # fmt: skip
        kept = ls.TokenBudget(budget).selection(made).kept
        assert [len(one.payload) for one in kept] == expected, budget


class TestValues:
    """A9, A10, A11, B12, B14: the same argument means the same everywhere."""

    @pytest.mark.parametrize(
        "policy",
        [ls.LastN(5), ls.TokenBudget(5), ls.RoleFilter(["a"]), ls.Chain([]), ls.ToolPairs(), ls.ChatRoles(["system"])],
        ids=lambda policy: policy.name,
    )
    def test_a9_an_empty_history_stays_empty(self, policy: ls.ContextPolicy) -> None:
        assert policy.selection([]) == ls.Selection([], [], policy.name)

    def test_a10_last_0_keeps_nothing(self) -> None:
        made = history(["x", "y"])
        assert ls.LastN(0).selection(made) == ls.Selection([], made, "last_n(0)")

    def test_no_agents_keep_nothing(self) -> None:
        made = history(["x", "y"], ["a", None])
        assert ls.RoleFilter([]).selection(made).kept == []

    def test_an_empty_chain_keeps_everything(self) -> None:
        made = history(["x", "y"])
        assert ls.Chain([]).selection(made).kept == made

    @pytest.mark.parametrize("value", [-1, 1.0, 1.5, math.nan, math.inf, True, "3", None, [3]])
    def test_a11_counts_that_are_no_whole_numbers_from_0(self, value: Any) -> None:
        with pytest.raises(ls.InvalidError) as caught:
            ls.LastN(value)
        assert caught.value.argument == "n"
        assert isinstance(caught.value, ValueError)

    @pytest.mark.parametrize("value", [-1, 1.0, 1.5, math.nan, math.inf, True, "3", None, [3]])
    def test_b14_budgets_that_are_no_whole_numbers_from_0(self, value: Any) -> None:
        with pytest.raises(ls.BudgetError) as caught:
            ls.TokenBudget(value)
        assert caught.value.argument == "max_tokens"
        assert isinstance(caught.value, ls.InvalidError)

    def test_b12_a_budget_of_0_keeps_the_newest_and_says_that_it_is_over(self) -> None:
        made = history(["old", "new"])
        selection = ls.TokenBudget(0).selection(made)
        assert selection == ls.Selection(made[1:], made[:1], "token_budget(0)", over_budget=True)

    def test_b12_empty_content_costs_nothing(self) -> None:
        selection = ls.TokenBudget(0).selection(history(["x", "", ""]))
        assert payloads(selection.kept) == [b"", b""]
        assert not selection.over_budget

    def test_a18_one_message_over_the_budget_is_kept_whole_and_flagged(self) -> None:
        made = history(["x", "y" * 8_000])
        selection = ls.TokenBudget(1_000).selection(made)
        assert (selection.kept, selection.dropped, selection.over_budget) == (made[1:], made[:1], True)
        chained = ls.Chain([ls.LastN(2), ls.TokenBudget(1_000)]).selection(made)
        assert chained.over_budget

    def test_a16_a_large_history_and_a_budget_of_0_end_at_once(self) -> None:
        counted: list[int] = []

        def count(one: ls.ContextMessage) -> int:
            counted.append(one.offset)
            return 1

        assert len(ls.TokenBudget(0, estimator=count).selection(history(["x"] * 1_000)).kept) == 1
        assert counted == [999]

    @pytest.mark.parametrize("value", ["a", b"a", 5, None, ["a", 5], [None], [["a"]]])
    def test_agents_that_are_no_list_of_names(self, value: Any) -> None:
        with pytest.raises(ls.InvalidError) as caught:
            ls.RoleFilter(value)
        assert caught.value.argument == "agents"

    @pytest.mark.parametrize("value", [None, 5, "ab", ls.LastN(3), {"a": 1}])
    def test_chains_of_no_list(self, value: Any) -> None:
        with pytest.raises(ls.InvalidError) as caught:
            ls.Chain(value)
        assert caught.value.argument == "policies"

    @pytest.mark.parametrize("value", [None, 5, "last_n", ls.LastN, ["a"]])
    def test_chains_of_what_are_no_policies(self, value: Any) -> None:
        with pytest.raises(ls.InvalidError) as caught:
            ls.Chain([value])
        assert caught.value.argument == "policy"


class TestEstimators:
    @pytest.mark.parametrize(("size", "tokens"), [(0, 0), (1, 1), (4, 1), (5, 2), (400, 100), (401, 101)])
    def test_the_default_is_bytes_by_four_rounded_up(self, size: int, tokens: int) -> None:
        assert ls.estimate_tokens(b"x" * size) == tokens

    @pytest.mark.parametrize("text", ["你好世界" * 25, "🔥🎉💯", "👨‍👩‍👧‍👦", "안녕하세요" * 10, "あ" * 200])
    def test_b4_text_without_blanks_is_counted_by_its_bytes(self, text: str) -> None:
        # B1, B2: never fewer than three quarters of a token for a character of three bytes.
        assert ls.estimate_tokens(text.encode()) >= len(text.encode()) / 4

    def test_an_estimator_gets_the_message(self) -> None:
        made = history(["a b c", "d"], ["x", "y"])
        seen: list[ls.ContextMessage] = []

        def count(one: ls.ContextMessage) -> int:
            seen.append(one)
            return len(one.text.split())

        assert ls.TokenBudget(3, estimator=count).selection(made).kept == made[1:]
        assert seen == [made[1], made[0]]

    def test_a17_parts_of_content_are_counted_like_any_bytes(self) -> None:
        made = chat(
            {"role": "user", "content": [{"type": "text", "text": "x" * 400}]}, {"role": "user", "content": "y"}
        )
        assert ls.TokenBudget(50).selection(made).kept == made[1:]

    def test_a17_an_error_of_the_estimator_is_raised_not_swallowed(self) -> None:
        def fail(_: ls.ContextMessage) -> int:
            raise KeyError("tokenizer")

        with pytest.raises(KeyError, match="tokenizer"):
            ls.TokenBudget(5, estimator=fail).selection(history(["x"]))

    @pytest.mark.parametrize("value", [-1, 1.5, math.nan, True, None, "1"])
    def test_b14_counts_of_an_estimator_that_are_no_whole_numbers(self, value: Any) -> None:
        with pytest.raises(ls.InvalidError, match="t 0:7") as caught:
            ls.TokenBudget(5, estimator=lambda _: value).selection([message("x", offset=7)])
        assert caught.value.argument == "estimator"

    @pytest.mark.parametrize("value", [5, "len", [len]])
    def test_estimators_that_are_no_functions(self, value: Any) -> None:
        with pytest.raises(ls.InvalidError) as caught:
            ls.TokenBudget(5, estimator=value)
        assert caught.value.argument == "estimator"


def test_selections_and_policies_can_be_copied() -> None:
    made = history(["x"])
    assert copy.deepcopy(ls.Chain([ls.LastN(1)])).selection(made).kept == made
