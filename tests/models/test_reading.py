"""What is read out of an answer, and that nothing of it is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from laser import limits, models
from laser.models import API_KINDS, ApiKind, TokenUsage, ToolCall, parse_reply
from tests.models import answers
from tests.models.answers import ANSWERS, Json
from tests.properties import decodes, examples


def test_a_response() -> None:
    reply = parse_reply("openai_responses", json.dumps(answers.RESPONSE, indent=2).encode())
    assert (reply.completed, reply.stop, reply.stop_native) == (True, "tool_calls", "completed")
    assert [item.kind for item in reply.items] == ["reasoning", "server_tool", "message", "tool_call", "tool_call"]
    assert reply.calls == (
        ToolCall("call_a1", "find_order", '{"order": 17, "total": 1.10}'),
        ToolCall("call_b2", "run", "print(\n'é')"),
    )
    assert reply.text == reply.items[2].text == "Type C fits — “Typ F” too. 🔌"
    assert reply.reasoning == reply.items[0].text == "The label is missing.\n\nLook the order up."
    assert [json.loads(one) for one in reply.citations] == answers.CITED["content"][0]["annotations"]  # type: ignore[index]
    assert reply.usage == TokenUsage(900, 70, 640, 128, 40)
    assert (reply.id, reply.model, reply.refusal, reply.error) == ("resp_01", "gpt-5.4-mini", None, None)
    assert [json.loads(item.payload) for item in reply.items] == answers.RESPONSE["output"]
    assert json.loads(reply.native) == answers.RESPONSE
    assert not reply.compacted


def test_a_message() -> None:
    reply = parse_reply("anthropic_messages", answers.MESSAGE)
    assert (reply.completed, reply.stop, reply.stop_native) == (True, "tool_calls", "tool_use")
    kinds = ["reasoning", "reasoning", "message", "server_tool", "server_tool", "tool_call", "tool_call"]
    assert [item.kind for item in reply.items] == kinds
    assert json.loads(reply.items[2].payload) == [answers.TEXT_BLOCK, answers.CITED_BLOCK]
    assert json.loads(reply.items[1].payload) == answers.REDACTED
    assert reply.calls == (
        ToolCall("toolu_a1", "find_order", '{"order":17,"total":1.5,"tags":[]}'),
        ToolCall("toolu_b2", "now", "{}"),
    )
    assert reply.text == "I will look “it” up.Type C fits. 🔌"
    assert reply.reasoning == "The label is missing."
    assert [json.loads(one) for one in reply.citations] == answers.CITED_BLOCK["citations"]
    assert reply.usage == TokenUsage(1_000, 70, 640, 100, None)
    assert json.loads(reply.native) == answers.MESSAGE


def test_a_completion() -> None:
    reply = parse_reply("chat_completions", answers.COMPLETION)
    assert (reply.completed, reply.stop, reply.stop_native) == (True, "tool_calls", "tool_calls")
    assert [item.kind for item in reply.items] == ["reasoning", "message", "tool_call", "tool_call"]
    said = json.loads(reply.items[1].payload)
    assert said == {name: answers.CHAT_MESSAGE[name] for name in ("role", "content", "refusal", "annotations")}
    assert [json.loads(item.payload) for item in reply.items[2:]] == answers.CHAT_CALLS
    assert reply.calls[0] == ToolCall("call_a1", "find_order", '{"order": 17, "total": 1.10}')
    assert (reply.reasoning, reply.items[0].text) == ("The label is missing.",) * 2
    assert reply.text == answers.CHAT_MESSAGE["content"]
    assert reply.usage == TokenUsage(900, 70, 640, None, 40)


STOPS: list[tuple[ApiKind, Json, str, bool]] = [
    ("openai_responses", answers.response([answers.CITED]), "end", True),
    (
        "openai_responses",
        answers.response([answers.CALL], status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        "length",
        False,
    ),
    (
        "openai_responses",
        answers.response([answers.CITED], status="incomplete", incomplete_details={"reason": "content_filter"}),
        "filtered",
        False,
    ),
    ("openai_responses", answers.response([], status="failed", error={"code": "x", "message": "y"}), "failed", False),
    ("openai_responses", answers.response([], status="cancelled"), "cancelled", False),
    ("openai_responses", answers.response([], status="in_progress"), "interrupted", False),
    ("openai_responses", answers.response([answers.CALL], status="brand_new"), "unknown", False),
    ("anthropic_messages", answers.message([answers.TEXT_BLOCK], stop="end_turn"), "end", True),
    ("anthropic_messages", answers.message([answers.TEXT_BLOCK], stop="stop_sequence"), "stop_sequence", True),
    ("anthropic_messages", answers.message([answers.SERVER_USE], stop="pause_turn"), "paused", True),
    ("anthropic_messages", answers.message([answers.TOOL_USE], stop="max_tokens"), "length", False),
    ("anthropic_messages", answers.message([], stop="model_context_window_exceeded"), "length", False),
    ("anthropic_messages", answers.message([answers.TOOL_USE], stop="refusal"), "refusal", False),
    ("anthropic_messages", answers.message([answers.TOOL_USE], stop=None), "interrupted", False),
    ("anthropic_messages", {"type": "error", "error": {"type": "x", "message": "y"}}, "failed", False),
    ("chat_completions", answers.completion({"role": "assistant", "content": "x"}, stop="stop"), "end", True),
    ("chat_completions", answers.completion(answers.CHAT_MESSAGE, stop="stop"), "tool_calls", True),
    ("chat_completions", answers.completion(answers.CHAT_MESSAGE, stop="length"), "length", False),
    ("chat_completions", answers.completion(answers.CHAT_MESSAGE, stop="content_filter"), "filtered", False),
    ("chat_completions", answers.completion(answers.CHAT_MESSAGE, stop=None), "interrupted", False),
    ("chat_completions", answers.completion(answers.CHAT_MESSAGE, stop="brand_new"), "unknown", False),
    ("chat_completions", {"error": {"type": "x", "message": "y"}}, "failed", False),
]


@pytest.mark.parametrize(("api_kind", "answer", "stop", "completed"), STOPS)
def test_why_it_stopped(api_kind: ApiKind, answer: Json, stop: str, completed: bool) -> None:
    reply = parse_reply(api_kind, answer)
    assert (reply.stop, reply.completed) == (stop, completed)
    if not completed:
        assert reply.calls == ()
        assert all(item.kind != "tool_call" for item in reply.continuation)
    if stop == "failed":
        assert reply.error == models.ReplyError("x", "y")


def test_refusals() -> None:
    part = {"type": "refusal", "refusal": "I cannot."}
    refused = parse_reply("openai_responses", answers.response([answers.CITED | {"content": [part]}]))
    assert (refused.refusal, refused.stop, refused.completed, refused.text) == ("I cannot.", "refusal", True, "")
    said = {"role": "assistant", "content": None, "refusal": "I cannot."}
    refused = parse_reply("chat_completions", answers.completion(said, stop="stop"))
    assert (refused.refusal, refused.stop, refused.completed) == ("I cannot.", "refusal", True)
    details = {"type": "refusal", "category": "cyber", "explanation": "I cannot."}
    refused = parse_reply("anthropic_messages", answers.message([], stop="refusal", stop_details=details))
    assert (refused.refusal, refused.stop, refused.completed) == ("I cannot.", "refusal", False)
    assert parse_reply("anthropic_messages", answers.message([], stop="refusal")).refusal == ""


def test_what_can_go_on_after_an_answer_that_was_cut() -> None:
    cut = answers.response(
        [answers.CITED, answers.REASONING, answers.CALL],
        status="incomplete",
        incomplete_details={"reason": "max_output_tokens"},
    )
    reply = parse_reply("openai_responses", cut)
    assert [item.kind for item in reply.items] == ["message", "reasoning", "tool_call"]
    assert [item.kind for item in reply.continuation] == ["message"]
    message = answers.message(
        [answers.THINKING, answers.TEXT_BLOCK, answers.TOOL_USE, answers.THINKING], stop="max_tokens"
    )
    kinds = [item.kind for item in parse_reply("anthropic_messages", message).continuation]
    assert kinds == ["reasoning", "message"]
    said = {"role": "assistant", "content": None, "tool_calls": answers.CHAT_CALLS}
    assert parse_reply("chat_completions", answers.completion(said, stop="length")).continuation == ()
    whole = parse_reply("anthropic_messages", answers.MESSAGE)
    assert whole.continuation == whole.items


def test_usage_that_is_not_told_is_unknown() -> None:
    for api_kind, answer in ANSWERS.items():
        for usage in (None, {}, {"input_tokens": "9", "prompt_tokens": -1, "output_tokens": True}, [1]):
            assert parse_reply(api_kind, answer | {"usage": usage}).usage == TokenUsage()
    some = {"input_tokens": 5, "output_tokens": 0, "cache_read_input_tokens": None}
    assert parse_reply("anthropic_messages", answers.message([], usage=some)).usage == TokenUsage(
        5, 0, None, None, None
    )
    thought = {"input_tokens": 5, "output_tokens": 9, "output_tokens_details": {"thinking_tokens": 0}}
    assert parse_reply("anthropic_messages", answers.message([], usage=thought)).usage.reasoning_tokens == 0


def test_calls_of_other_kinds() -> None:
    computer = {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "c1",
        "status": "completed",
        "action": {"type": "wait"},
    }
    patch = {
        "type": "apply_patch_call",
        "call_id": "c2",
        "status": "completed",
        "operation": {"type": "delete_file", "path": "a"},
    }
    search = {
        "type": "tool_search_call",
        "call_id": "c3",
        "execution": "client",
        "arguments": {"q": 1},
        "status": "completed",
    }
    hosted = {
        "type": "tool_search_call",
        "call_id": "c4",
        "execution": "server",
        "arguments": {},
        "status": "completed",
    }
    half = answers.CALL | {"status": "incomplete"}
    reply = parse_reply("openai_responses", answers.response([computer, patch, search, hosted, half]))
    assert reply.calls == (
        ToolCall("c1", "computer_call", '{"type":"wait"}'),
        ToolCall("c2", "apply_patch_call", '{"type":"delete_file","path":"a"}'),
        ToolCall("c3", "tool_search_call", '{"q":1}'),
    )
    assert [item.kind for item in reply.items] == ["tool_call", "tool_call", "tool_call", "server_tool", "tool_call"]
    space = parse_reply("openai_responses", answers.response([answers.CALL | {"namespace": "crm"}]))
    assert space.calls[0].namespace == "crm"
    custom = {"id": "c5", "type": "custom", "custom": {"name": "run", "input": "x"}}
    said = {"role": "assistant", "content": None, "tool_calls": [custom]}
    assert parse_reply("chat_completions", answers.completion(said)).calls == (ToolCall("c5", "run", "x"),)


def test_a_compaction_item_within_an_answer() -> None:
    reply = parse_reply("openai_responses", answers.response([answers.COMPACTION, answers.CITED]))
    assert reply.compacted
    assert [item.kind for item in reply.items] == ["compaction", "message"]


NUMBERS = (
    b"1.10",
    b"1E5",
    b"-0",
    b"0.1234567890123456789",
    b"1" * 30,
    b"-1e-400",
    b"18446744073709551616",
    b"9" * 5000,
)


@pytest.mark.parametrize("api_kind", API_KINDS)
def test_numbers_keep_their_letters(api_kind: ApiKind) -> None:
    """Also those that Python would write in another way, or could not hold."""
    written = b"[" + b",".join(NUMBERS) + b"]"
    item: dict[ApiKind, Any] = {
        "openai_responses": answers.response([answers.SEARCH | {"action": "@"}]),
        "anthropic_messages": answers.message([answers.TOOL_USE | {"input": {"n": "@"}}]),
        "chat_completions": answers.completion({"role": "assistant", "content": "x", "extra": "@"}, stop="stop"),
    }
    data = json.dumps(item[api_kind], indent=1).encode().replace(b'"@"', written)
    reply = parse_reply(api_kind, data)
    assert written in reply.items[0].payload
    assert written in reply.native


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=15,
)


@given(_values, st.sampled_from([None, 2]))
@examples(200)
def test_any_json_is_kept(value: Any, indent: int | None) -> None:
    block = {"type": "tool_use", "id": "t", "name": "f", "input": {"v": value}}
    reply = parse_reply("anthropic_messages", json.dumps(answers.message([block]), indent=indent).encode())
    (item,) = reply.items
    assert json.loads(item.payload) == block
    assert item.payload == json.dumps(json.loads(item.payload), separators=(",", ":"), ensure_ascii=False).encode()
    assert parse_reply("anthropic_messages", reply.native) == reply


def test_half_a_character_does_not_cost_the_answer() -> None:
    data = json.dumps(answers.message([answers.TEXT_BLOCK | {"text": "@"}], stop="end_turn")).encode()
    reply = parse_reply("anthropic_messages", data.replace(b"@", rb"a\ud83db \ud83d\udd0c"))
    assert (reply.text, reply.mended, reply.completed) == ("a\ufffdb 🔌", 1, True)
    assert reply.items[0].payload.decode() == '[{"type":"text","text":"a\ufffdb 🔌"}]'
    assert parse_reply("anthropic_messages", answers.message([answers.TEXT_BLOCK | {"text": "\ud83d"}])).mended == 1


def test_arguments_are_not_changed() -> None:
    for api_kind, answer in ANSWERS.items():
        before = json.dumps(answer)
        parse_reply(api_kind, answer)
        assert json.dumps(answer) == before


@pytest.mark.parametrize("api_kind", API_KINDS)
@pytest.mark.parametrize("data", [b"", b"{bad", b"[1]", b"null", b"\xff", b'{"a":NaN}', b'{"a":' * 5_000, b"<html>"])
def test_what_is_no_answer(api_kind: ApiKind, data: bytes) -> None:
    with pytest.raises(ls.CodecError):
        parse_reply(api_kind, data)


WRONG: list[tuple[ApiKind, Any, type[ls.LaserError]]] = [
    ("openai_responses", answers.response([]) | {"output": "x"}, ls.CodecError),
    ("openai_responses", answers.response([]) | {"output": [5]}, ls.CodecError),
    ("anthropic_messages", answers.message([]) | {"content": {"type": "text"}}, ls.CodecError),
    ("chat_completions", {"object": "list", "data": []}, ls.CodecError),
    ("chat_completions", answers.completion({}) | {"choices": [{"index": 0}, {"index": 1}]}, ls.UnsupportedError),
    (
        "chat_completions",
        answers.completion({"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}}),
        ls.UnsupportedError,
    ),
    ("openai_responses", {"output": [], "x": object()}, ls.InvalidError),
    ("openai_responses", {"output": [], "x": float("nan")}, ls.InvalidError),
    ("openai_responses", "text", ls.InvalidError),
]


@pytest.mark.parametrize(("api_kind", "answer", "error"), WRONG)
def test_answers_that_are_refused(api_kind: ApiKind, answer: Any, error: type[ls.LaserError]) -> None:
    with pytest.raises(error):
        parse_reply(api_kind, answer)


def test_an_api_that_nobody_knows() -> None:
    with pytest.raises(ls.InvalidError, match="none of openai_responses") as caught:
        parse_reply("openai", b"{}")  # type: ignore[arg-type]
    assert caught.value.argument == "api_kind"


def test_the_largest_answer() -> None:
    empty = json.dumps(answers.completion({"role": "assistant", "content": ""}, stop="stop")).encode()
    fill = limits.MAX_REPLY_BYTES - len(empty)
    largest = empty.replace(b'"content": ""', b'"content": "' + b"x" * fill + b'"')
    assert len(largest) == limits.MAX_REPLY_BYTES
    assert len(parse_reply("chat_completions", largest).text) == fill
    with pytest.raises(ls.LimitError) as caught:
        parse_reply("chat_completions", largest + b" ")
    assert (caught.value.size, caught.value.limit) == (limits.MAX_REPLY_BYTES + 1, limits.MAX_REPLY_BYTES)


@pytest.mark.parametrize("api_kind", API_KINDS)
@given(st.data())
@examples(120)
def test_damaged_answers(api_kind: ApiKind, data: st.DataObject) -> None:
    """Each gives a reply or one typed error, in time."""
    whole = json.loads(json.dumps(ANSWERS[api_kind]))
    places = list(_places(whole))
    holder, key = places[data.draw(st.integers(0, len(places) - 1))]
    holder[key] = data.draw(st.sampled_from([None, 5, "x", [], {}, [5], {"type": 5}, [{"type": None}], True]))
    decodes(lambda: parse_reply(api_kind, json.dumps(whole).encode()), ls.CodecError, ls.UnsupportedError)


def _places(value: Any) -> Any:
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _places(value[key])
