"""A request begins with the bytes of the one before, up to the first entry that changed."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laser.models import API_KINDS, ApiKind, FragmentCache, LoweredRequest, LoweringEntry, lower_request, parse_reply
from tests.commands import ROOT
from tests.models import answers
from tests.models.contexts import FIND, NOW, SELECTIONS, options
from tests.properties import examples
from tests.shared import airline_conversations


def check_prefix(before: LoweredRequest, after: LoweredRequest, same: int) -> int:
    """The bytes that both begin with, which hold the first ``same`` entries; says how many there are."""
    low, high = 0, min(len(before.body), len(after.body))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if before.body[:middle] == after.body[:middle] else (low, middle - 1)
    assert low >= max((end for _, end in before.spans[:same]), default=0)
    assert [begin for begin, _ in before.spans[:same]] == [begin for begin, _ in after.spans[:same]]
    return low


def spoken(api_kind: ApiKind, message: dict[str, Any]) -> list[LoweringEntry]:
    """A message of a recorded chat as the entries that it would have become."""
    role, content = message["role"], message.get("content") or ""
    if role == "system":
        return [LoweringEntry.instruction(content)]
    if role == "user":
        return [LoweringEntry.user(content)]
    if role == "tool":
        return [LoweringEntry.tool_result(message["tool_call_id"], content)]
    calls = [
        (call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or ()
    ]
    if api_kind == "openai_responses":
        part = {"type": "output_text", "text": content, "annotations": [], "logprobs": []}
        said = [answers.CITED | {"content": [part]}] if content else []
        made = [answers.CALL | {"call_id": one, "name": name, "arguments": given} for one, name, given in calls]
        answer = answers.response([*said, *made])
    elif api_kind == "anthropic_messages":
        text = [{"type": "text", "text": content}] if content else []
        uses = [{"type": "tool_use", "id": one, "name": name, "input": json.loads(given)} for one, name, given in calls]
        answer = answers.message([*text, *uses])
    else:
        answer = answers.completion(
            {"refusal": None, "annotations": []}
            | {key: message[key] for key in message if message[key] is not None or key == "content"}
        )
    reply = parse_reply(api_kind, json.dumps(answer).encode())
    assert reply.completed
    return [LoweringEntry.native(item, api_kind) for item in reply.continuation]


@pytest.mark.parametrize("api_kind", API_KINDS)
def test_200_real_conversations_turn_by_turn(api_kind: ApiKind) -> None:
    made = options(api_kind, tools=[FIND, NOW], cache_key="session")
    turns = shared = sent = 0
    for conversation in airline_conversations():
        context: list[LoweringEntry] = []
        before: tuple[LoweredRequest, int] | None = None
        kept = FragmentCache()
        for line in conversation:
            message = json.loads(line)
            if message["role"] == "assistant" and any(entry.kind != "instruction" for entry in context):
                request = lower_request(SELECTIONS[api_kind], context, made, fragments=kept)
                turns += 1
                if before is not None:
                    earlier, count = before
                    shared += check_prefix(earlier, request, count)
                    sent += len(earlier.body)
                before = request, len(context)
            context += spoken(api_kind, message)
    print(f"{api_kind}: {turns} requests, {shared / sent:.2%} of the bytes of each are the begin of the next")
    assert turns > 2_000
    assert shared / sent > 0.98
    assert f"{100 * shared / sent:.1f} %" in (ROOT / "docs" / "models.md").read_text()


def entry(api_kind: ApiKind, kind: str, number: int) -> list[LoweringEntry]:
    if kind == "user":
        return [LoweringEntry.user(f"said {number} ✓")]
    if kind == "catalog":
        return [LoweringEntry.catalog(f"- skill {number}", key="skills", id=f"c{number}", supersedes=f"c{number - 1}")]
    if kind == "skill":
        return [LoweringEntry.skill(f"body {number}", key=f"k{number}")]
    answer = json.dumps(answers.ANSWERS[api_kind])
    for name in ("call_a1", "call_b2", "toolu_a1", "toolu_b2"):
        answer = answer.replace(name, f"{name}_{number}")
    reply = parse_reply(api_kind, answer.encode())
    said = [LoweringEntry.native(item, api_kind) for item in reply.items]
    return said + [LoweringEntry.tool_result(call.id, f"done {number}") for call in reply.calls]


KINDS = ("user", "catalog", "skill", "turn")


@pytest.mark.parametrize("api_kind", API_KINDS)
@given(
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=6), st.lists(st.sampled_from(KINDS), min_size=1, max_size=3)
)
@examples(80)
def test_whatever_is_appended(api_kind: ApiKind, begun: Sequence[str], more: Sequence[str]) -> None:
    """Also when parameters change, and whatever the key of the cache is."""
    context = [LoweringEntry.instruction("Help.")]
    for number, kind in enumerate(begun):
        context += entry(api_kind, kind, number)
    before = lower_request(SELECTIONS[api_kind], context, options(api_kind, tools=[FIND]), stream=False)
    longer = list(context)
    for number, kind in enumerate(more):
        longer += entry(api_kind, kind, 100 + number)
    changed = options(api_kind, tools=[FIND], parameters={"temperature": 0.5}, cache_key="k")
    after = lower_request(SELECTIONS[api_kind], longer, changed, stream=True)
    check_prefix(before, after, len(context))


@pytest.mark.parametrize("api_kind", API_KINDS)
def test_an_entry_in_the_middle_that_changes(api_kind: ApiKind) -> None:
    chance = random.Random(7)
    context = [LoweringEntry.instruction("Help.")]
    for number in range(6):
        context += entry(api_kind, "user", number) + entry(api_kind, "turn", number)
    said = [place for place, one in enumerate(context) if one.kind == "user"]
    before = lower_request(SELECTIONS[api_kind], context, options(api_kind))
    for place in chance.sample(said, 4):
        other = [*context[:place], LoweringEntry.user("something else"), *context[place + 1 :]]
        after = lower_request(SELECTIONS[api_kind], other, options(api_kind))
        shared = check_prefix(before, after, place)
        assert shared < before.spans[place][1]


@pytest.mark.parametrize("api_kind", API_KINDS)
def test_a_new_catalog_leaves_what_was_before_it(api_kind: ApiKind) -> None:
    context = [LoweringEntry.instruction("Help."), *entry(api_kind, "catalog", 1), LoweringEntry.user("x")]
    before = lower_request(SELECTIONS[api_kind], context, options(api_kind))
    after = lower_request(SELECTIONS[api_kind], [*context, *entry(api_kind, "catalog", 2)], options(api_kind))
    check_prefix(before, after, len(context))
    assert b'supersedes=\\"c1\\"' in after.body
