"""Tool calls and results in a request: each result has its call, each call its result, in the accepted order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from laser.models import API_KINDS, ApiKind, LoweringEntry, lower_request
from tests.context.providers import IDS, complaint, complaint_in_order
from tests.models import answers
from tests.models.contexts import SELECTIONS, native, options
from tests.properties import examples

Event = tuple[str, tuple[str, ...]]

_ids = st.sampled_from(IDS)


@st.composite
def conversations(draw: st.DrawFn) -> list[Event]:
    """Events of which most sequences are in order: calls of what is not open, results of what is."""
    events: list[Event] = []
    waiting: set[str] = set()
    for _ in range(draw(st.integers(1, 9))):
        kind = draw(st.sampled_from(["user", "assistant", "call", "call", "result"]))
        wild = draw(st.integers(0, 19)) == 0
        if kind == "call":
            free = sorted(set(IDS) - (set() if wild else waiting))
            ids = tuple(draw(st.lists(st.sampled_from(free), min_size=1, max_size=2, unique=True))) if free else ()
        elif kind == "result":
            ids = (draw(_ids if wild or not waiting else st.sampled_from(sorted(waiting))),) if waiting or wild else ()
        else:
            ids = ()
        if ids or kind in ("user", "assistant"):
            events.append((kind, ids))
            waiting = waiting | set(ids) if kind == "call" else waiting - set(ids)
    if draw(st.integers(0, 3)):
        events += [("result", (one,)) for one in draw(st.permutations(sorted(waiting)))]
    return events or [("user", ())]


def answer(api_kind: ApiKind, ids: Sequence[str], text: str = "") -> dict[str, Any]:
    """An answer that says something, or calls."""
    if api_kind == "openai_responses":
        said = answers.CITED | {"content": [{"type": "output_text", "text": text, "annotations": []}]}
        return answers.response([*([said] if text else []), *(answers.CALL | {"call_id": one} for one in ids)])
    if api_kind == "anthropic_messages":
        calls = [answers.TOOL_USE | {"id": one} for one in ids]
        return answers.message([*([{"type": "text", "text": text}] if text else []), *calls])
    calls = [answers.CHAT_CALLS[0] | {"id": one} for one in ids]
    said = {"role": "assistant", "content": text or None}
    return answers.completion(said | ({"tool_calls": calls} if calls else {}))


def context(api_kind: ApiKind, events: Sequence[Event]) -> list[LoweringEntry]:
    """The entries of a conversation; what is said is numbered."""
    entries: list[LoweringEntry] = []
    for number, (kind, ids) in enumerate(events):
        if kind == "user":
            entries.append(LoweringEntry.user(f"said {number}"))
        elif kind == "result":
            entries.append(LoweringEntry.tool_result(ids[0], f"said {number}"))
        else:
            entries += native(api_kind, answer(api_kind, ids, f"said {number}" if kind == "assistant" else ""))
    return entries


def sent(api_kind: ApiKind, entries: list[LoweringEntry]) -> list[dict[str, Any]]:
    body = lower_request(SELECTIONS[api_kind], entries, options(api_kind, cache=False)).arguments()
    said: list[dict[str, Any]] = body["input"] if api_kind == "openai_responses" else body["messages"]
    return said


def model_complaint(events: Sequence[Event], api_kind: ApiKind) -> str | None:
    """Which call or result is wrong, said apart from the code under test."""
    waiting: dict[str, int] = {}
    for number, (kind, ids) in enumerate(events):
        for one in ids:
            if kind == "call" and one in waiting:
                return one
            if kind == "result" and one not in waiting:
                return one
            waiting = (
                waiting | {one: number} if kind == "call" else {key: at for key, at in waiting.items() if key != one}
            )
    said = [number for number, (kind, _) in enumerate(events) if kind != "result"]
    # The last turn: what the model said last, with nothing between.
    turn = {said[-1]} if said else set()
    joins = api_kind != "chat_completions"  # where each answer is a message
    while (
        joins
        and turn
        and min(turn)
        and events[min(turn)][0] in ("call", "assistant")
        and events[min(turn) - 1][0] in ("call", "assistant")
    ):
        turn.add(min(turn) - 1)
    return next((one for one, at in waiting.items() if at not in turn), None)


@pytest.mark.parametrize("api_kind", API_KINDS)
@given(conversations())
@examples(500)
def test_random_sequences(api_kind: ApiKind, events: list[Event]) -> None:
    wrong = model_complaint(events, api_kind)
    entries = [LoweringEntry.user("begin"), *context(api_kind, events)]
    if wrong is not None:
        with pytest.raises(ls.InvalidError, match=repr(wrong)) as caught:
            sent(api_kind, entries)
        assert caught.value.argument == "entries"
        return
    said = sent(api_kind, entries)
    texts = str(said)
    assert all(texts.count(f"'said {number}'") == 1 for number, (kind, _) in enumerate(events) if kind != "call")
    answered = sum(len(ids) for kind, ids in events if kind == "result")
    if answered == sum(len(ids) for kind, ids in events if kind == "call"):
        assert complaint(said) is None
        if api_kind == "chat_completions":
            assert complaint_in_order(said) is None
    if api_kind == "anthropic_messages":
        assert [one["role"] for one in said] == [("user", "assistant")[number % 2] for number in range(len(said))]
        check_blocks(said)


def check_blocks(said: list[dict[str, Any]]) -> None:
    """Results stand first in the message behind the one that called, and answer nothing else."""
    for before, message in pairwise(said):
        kinds = [block["type"] for block in message["content"]]
        results = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
        assert kinds[: len(results)] == ["tool_result"] * len(results)
        calls = [block["id"] for block in before["content"] if block["type"] == "tool_use"]
        assert sorted(results) == sorted(calls) or (message is said[-1] and set(results) <= set(calls))


@pytest.mark.parametrize("api_kind", API_KINDS)
def test_a_word_between_call_and_result(api_kind: ApiKind) -> None:
    events: list[Event] = [
        ("call", ("c1", "c2")),
        ("user", ()),
        ("result", ("c2",)),
        ("result", ("c1",)),
        ("assistant", ()),
    ]
    said = sent(api_kind, [LoweringEntry.user("begin"), *context(api_kind, events)])
    if api_kind == "openai_responses":
        assert [item["type"] for item in said] == [
            "message",
            *["function_call"] * 2,
            "message",
            *["function_call_output"] * 2,
            "message",
        ]
    elif api_kind == "chat_completions":
        assert [message["role"] for message in said] == ["user", "assistant", "tool", "tool", "user", "assistant"]
        assert [message.get("tool_call_id") for message in said[2:4]] == ["c2", "c1"]
    else:
        assert [block["type"] for block in said[2]["content"]] == ["tool_result", "tool_result", "text"]


REFUSED: list[tuple[list[Event], str]] = [
    ([("result", ("c1",))], r"entries\[1\]: a result of call 'c1', which nobody made"),
    (
        [("call", ("c1",)), ("result", ("c1",)), ("result", ("c1",))],
        r"a result of call 'c1', .* or which has its result",
    ),
    ([("call", ("c1",)), ("user", ())], "call 'c1' has no result, and it is not in the last turn"),
    ([("call", ("c1",)), ("call", ("c1",))], "call 'c1' is made again"),
]


@pytest.mark.parametrize("api_kind", API_KINDS)
@pytest.mark.parametrize(("events", "match"), REFUSED)
def test_refusals(api_kind: ApiKind, events: list[Event], match: str) -> None:
    with pytest.raises(ls.InvalidError, match=match):
        sent(api_kind, [LoweringEntry.user("begin"), *context(api_kind, events)])


@pytest.mark.parametrize("api_kind", API_KINDS)
def test_an_id_used_again(api_kind: ApiKind) -> None:
    events: list[Event] = [("call", ("c1",)), ("result", ("c1",)), ("call", ("c1",)), ("result", ("c1",))]
    assert str(sent(api_kind, [LoweringEntry.user("begin"), *context(api_kind, events)])).count("said") == 2


def test_calls_of_two_answers_in_a_row() -> None:
    """In Chat Completions each message's results stand behind it."""
    events: list[Event] = [("call", ("c1",)), ("call", ("c2",)), ("result", ("c2",)), ("result", ("c1",))]
    said = sent("chat_completions", [LoweringEntry.user("begin"), *context("chat_completions", events)])
    assert [message["role"] for message in said] == ["user", "assistant", "tool", "assistant", "tool"]
    assert complaint_in_order(said) is None
