"""ToolPairs and ChatRoles: whatever was cut, a provider accepts what they keep."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from laser.model.chat import ChatFacts, chat_facts
from tests.context.making import chat, history, payloads
from tests.context.providers import (
    NOISE,
    SHAPES,
    Chat,
    calls_of,
    chats,
    complaint,
    complaint_in_order,
    completions,
    encoded,
    responses,
    results_of,
)
from tests.properties import decodes, examples
from tests.shared import airline_conversations

ROLES = ["system", "user", "assistant", "tool"]


def _kept(policy: ls.ContextPolicy, messages: Sequence[Chat]) -> list[Chat]:
    kept = policy.selection(chat(*messages)).kept
    return [messages[one.offset] for one in kept]


@given(chats)
@examples(1_000)
def test_a1_what_stays_is_accepted(messages: list[Chat]) -> None:
    assert complaint(_kept(ls.ToolPairs(), messages)) is None


@given(chats)
@examples(500)
def test_a3_what_is_accepted_stays_whole(messages: list[Chat]) -> None:
    if complaint(messages) is None:
        assert _kept(ls.ToolPairs(), messages) == messages
    kept = _kept(ls.ToolPairs(), messages)
    assert _kept(ls.ToolPairs(), kept) == kept


@given(chats)
@examples(500)
def test_a5_only_tool_use_is_dropped(messages: list[Chat]) -> None:
    gone = ls.ToolPairs().selection(chat(*messages)).dropped
    assert all(calls_of(messages[one.offset]) or results_of(messages[one.offset]) for one in gone)


@given(chats, st.integers(0, 14))
@examples(1_000)
def test_a1_a8_any_cut_is_accepted(messages: list[Chat], count: int) -> None:
    for cut in (ls.LastN(count), ls.TokenBudget(count * 12), lambda made: made[:count], lambda made: made[::2]):
        assert complaint(_kept(ls.Chain([cut, ls.ToolPairs()]), messages)) is None


@given(chats, st.sets(st.sampled_from([*ROLES, "developer"])))
@examples(1_000)
def test_a23_roles_keep_pairs_whole(messages: list[Chat], roles: set[str]) -> None:
    kept = _kept(ls.ChatRoles(roles), messages)
    assert complaint(kept) is None
    assert all(one.get("role", "assistant" if calls_of(one) else "tool") in roles for one in kept)
    plain = [one for one in messages if not calls_of(one) and not results_of(one) and one["role"] in roles]
    assert [one for one in kept if not calls_of(one) and not results_of(one)] == plain


@given(chats)
@examples(300)
def test_all_roles_are_tool_pairs(messages: list[Chat]) -> None:
    assert _kept(ls.ChatRoles(ROLES), messages) == _kept(ls.ToolPairs(), messages)


@given(chats, st.sampled_from(["c1", "c9"]))
@examples(500)
def test_a_result_that_nobody_called_changes_nothing_else(messages: list[Chat], call: str) -> None:
    kept = _kept(ls.ToolPairs(), messages)
    for at in range(len(messages) + 1):
        orphan = completions("result", ["c9"])
        assert _kept(ls.ToolPairs(), [*messages[:at], *orphan, *messages[at:]]) == kept


@given(chats)
@examples(500)
def test_a22_the_talk_begins_with_the_role_asked_for(messages: list[Chat]) -> None:
    kept = _kept(ls.ToolPairs(start_on="user"), messages)
    assert complaint(kept) is None
    talk = [one for one in kept if one.get("role") != "system"]
    assert not talk or (talk[0]["role"] == "user" and not results_of(talk[0]))
    system = [one for one in messages if one.get("role") == "system"]
    assert [one for one in kept if one.get("role") == "system"] == system
    # Nothing behind the beginning is lost but what hangs together with what is in front of it.
    usual = _kept(ls.ToolPairs(), messages)
    begin = next((at for at, one in enumerate(usual) if one.get("role") == "user" and not results_of(one)), len(usual))
    if not any(results_of(one) for one in usual[begin:]):
        assert kept == [one for one in usual[:begin] if one.get("role") == "system"] + usual[begin:]


def test_a22_after_a_summary() -> None:
    summary = {"role": "system", "content": "summary"}
    said = {"role": "assistant", "content": "x"}
    messages = [summary, said, USER, said]
    assert _kept(ls.ToolPairs(start_on=" User"), messages) == [summary, USER, said]
    assert _kept(ls.ToolPairs(start_on="user"), [summary, said]) == [summary]
    assert _kept(ls.ToolPairs(), messages) == messages
    assert ls.ToolPairs(start_on="user").name == "tool_pairs(user)"
    for role in ("", " ", 5, ["user"]):
        with pytest.raises(ls.InvalidError) as caught:
            ls.ToolPairs(start_on=role)  # type: ignore[arg-type]
        assert caught.value.argument == "start_on"


@given(chats, st.lists(st.tuples(st.integers(0, 14), st.sampled_from(NOISE)), max_size=4))
@examples(500)
def test_e3_one_bad_message_never_blocks_the_rest(messages: list[Chat], noise: list[tuple[int, bytes]]) -> None:
    mixed = encoded(messages)
    for at, payload in noise:
        mixed.insert(at, payload)
    kept = payloads(ls.ToolPairs().selection(history(mixed)).kept)
    assert [one for one in kept if one in NOISE] == [one for one in mixed if one in NOISE]
    assert complaint([json.loads(one) for one in kept if one not in NOISE]) is None


@pytest.mark.parametrize("payload", NOISE, ids=lambda payload: repr(payload[:20]))
def test_g8_no_payload_costs_time_or_raises(payload: bytes) -> None:
    assert decodes(lambda: chat_facts(payload)) is not None
    assert chat_facts(payload).calls == chat_facts(payload).results == ()


@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda tail: b'{"role":"tool","tool_call_id":"' + tail))
@examples(300)
def test_any_payload_has_facts(payload: bytes) -> None:
    assert isinstance(decodes(lambda: chat_facts(payload)), ChatFacts)


def _system() -> Chat:
    return {"role": "system", "content": "s"}


def _user() -> Chat:
    return {"role": "user", "content": "u"}


def _calls(*ids: str) -> Chat:
    return completions("call", ids)[0]


def _result(call: str, content: str = "r") -> Chat:
    return {"role": "tool", "tool_call_id": call, "content": content}


SYSTEM, USER = _system(), _user()
CASES: dict[str, tuple[list[Chat], list[int]]] = {
    "a1 results without their call": ([_result("c1"), _result("c2"), USER], [2]),
    "a2 one result without its call": ([_result("c1"), USER], [1]),
    "a5 an output outside of the window": ([_result("c1"), USER, USER], [1, 2]),
    "a6 a user spoke while the tool ran": ([_calls("c1"), USER, _result("c1")], [0, 1, 2]),
    "a6 the call was cut": ([USER, _result("c1")], [0]),
    "a8 a call whose result was cut": ([USER, _calls("c1"), USER], [0, 2]),
    "a8 one of two results was cut": ([_calls("c1", "c2"), _result("c1"), USER], [2]),
    "a21 an open last call": ([USER, _calls("c1")], [0, 1]),
    "a21 an open last call with one of two results": ([USER, _calls("c1", "c2"), _result("c2")], [0, 1, 2]),
    "a21 two results in another order": ([_calls("c1", "c2"), _result("c2"), _result("c1")], [0, 1, 2]),
    "a21 a repeated result behind an open call": ([_calls("c1", "c2"), _result("c1"), _result("c1")], [0, 1]),
    "e1 a crash between call and result": ([USER, _calls("c1"), USER, _calls("c2")], [0, 2, 3]),
    "an id used again": ([_calls("c1"), _result("c1"), _calls("c1"), _result("c1")], [0, 1, 2, 3]),
    "an id used again after a crash": ([_calls("c1"), USER, _calls("c1"), _result("c1")], [1, 2, 3]),
    "a result before its call": ([_result("c1"), _calls("c1"), USER], [2]),
    "nothing to do": ([SYSTEM, USER, _calls("c1"), _result("c1")], [0, 1, 2, 3]),
    "a result of an earlier call behind an open one": ([_calls("c1"), _calls("c2"), _result("c1")], [0, 2]),
}


@pytest.mark.parametrize(("messages", "expected"), CASES.values(), ids=CASES.keys())
def test_cases(messages: list[Chat], expected: list[int]) -> None:
    assert [one.offset for one in ls.ToolPairs().selection(chat(*messages)).kept] == expected


def test_a21_parallel_calls_of_responses_are_one_open_turn() -> None:
    first, second = responses("call", ["c1", "c2"])
    (answer,) = responses("result", ["c1"])
    for messages in ([first, second], [first, second, answer]):
        assert _kept(ls.ToolPairs(), [_user(), *messages]) == [_user(), *messages]
    assert _kept(ls.ToolPairs(), [first, second, answer, _user()]) == [first, answer, _user()]


def test_the_older_function_shape_pairs_by_name() -> None:
    call = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}}
    result = {"role": "function", "name": "f", "content": "1"}
    assert _kept(ls.ToolPairs(), [call, result, USER]) == [call, result, USER]
    assert _kept(ls.ToolPairs(), [result, USER]) == [USER]
    assert _kept(ls.ToolPairs(), [call, USER]) == [USER]


class TestChatRoles:
    def test_a23_the_talk_without_any_tool_use(self) -> None:
        said = {"role": "assistant", "content": "x"}
        messages = [SYSTEM, USER, _calls("c1"), _result("c1"), said]
        assert _kept(ls.ChatRoles(["user", "assistant"]), messages) == [USER, said]

    @pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
    def test_a23_an_open_call_goes_where_its_results_would_go(self, shape: Any) -> None:
        open_call = shape("call", ["c1"])
        answer = shape("result", ["c1"])
        for roles in (["assistant"], ["user", "assistant"], ["assistant", "tool"]):
            whole = _kept(ls.ChatRoles(roles), [*open_call, *answer])
            # The view before the result came must not hold a call that the view after it does not.
            assert bool(_kept(ls.ChatRoles(roles), open_call)) == bool(whole)

    def test_a23_roles_in_any_case_and_unknown_ones(self) -> None:
        messages = [{"role": role, "content": "x"} for role in ("system", "developer", "tool", "USER", "", " user ")]
        assert _kept(ls.ChatRoles(["User", "DEVELOPER"]), messages) == [messages[1], messages[3], messages[5]]
        assert ls.ChatRoles({"Tool"}).roles == {"tool"}

    def test_what_is_no_chat_message_has_no_role(self) -> None:
        assert ls.ChatRoles(["user"]).selection(history(list(NOISE))).kept == []

    @pytest.mark.parametrize("roles", ["user", b"user", 5, None, [""], [" "], [5], ["user", None]])
    def test_roles_that_are_no_names(self, roles: Any) -> None:
        with pytest.raises(ls.InvalidError) as caught:
            ls.ChatRoles(roles)
        assert caught.value.argument == "roles"


def test_200_conversations_at_every_last_n_are_accepted() -> None:
    conversations = airline_conversations()
    assert (len(conversations), sum(map(len, conversations))) == (200, 5_308)
    cuts = 0
    for made in conversations:
        messages = [json.loads(payload) for payload in made]
        view = history(made)
        for count in range(len(made) + 1):
            kept = ls.Chain([ls.LastN(count), ls.ToolPairs()]).selection(view).kept
            chosen = [messages[one.offset] for one in kept]
            assert complaint_in_order(chosen) is None
            assert complaint(chosen) is None
            # Nothing but the results in front that lost their call was dropped.
            lost = next((at for at in range(len(made) - count, len(made)) if not results_of(messages[at])), len(made))
            assert [one.offset for one in kept] == list(range(lost, len(made)))
            cuts += 1
    assert cuts == 5_508


@pytest.mark.parametrize("name", [name for name, (messages, kept) in CASES.items() if len(kept) < len(messages)])
def test_the_validator_refuses_what_needs_a_repair(name: str) -> None:
    assert complaint(CASES[name][0]) is not None
    assert complaint_in_order(CASES[name][0]) is not None
