"""Compaction by the provider, and by a summary: only a whole account counts."""

from __future__ import annotations

from typing import Any

import pytest

import laser as ls
from laser import models
from laser.models import (
    API_KINDS,
    ApiKind,
    LoweringEntry,
    ProviderTool,
    RequestOptions,
    check_compaction_mode,
    lower_compaction,
    lower_request,
    parse_compaction,
)
from tests.models import answers
from tests.models.contexts import FIND, SELECTIONS, everything, native, options
from tests.models.requests_of import request_complaints

SUMMARIES: list[ApiKind] = ["anthropic_messages", "chat_completions"]
SAID: dict[ApiKind, dict[str, Any]] = {
    "anthropic_messages": answers.message([{"type": "text", "text": " They want a plug.\n"}], stop="end_turn"),
    "chat_completions": answers.completion({"role": "assistant", "content": " They want a plug.\n"}, stop="stop"),
}
COMPACTED = {
    "id": "resp_c",
    "object": "response.compaction",
    "created_at": 1763000000,
    "output": [answers.CITED, answers.COMPACTION],
    "usage": answers.RESPONSE["usage"],
}


def test_modes() -> None:
    for api_kind in API_KINDS:
        assert check_compaction_mode(api_kind, "provider_standalone") == "provider_standalone"
        with pytest.raises(ls.InvalidError, match="'auto' is neither"):
            check_compaction_mode(api_kind, "auto")
    assert check_compaction_mode("openai_responses", "provider_triggered") == "provider_triggered"
    for api_kind in SUMMARIES:
        with pytest.raises(ls.UnsupportedError, match="use provider_standalone"):
            check_compaction_mode(api_kind, "provider_triggered")


def test_the_compact_request_holds_what_its_endpoint_takes() -> None:
    made = options(
        "openai_responses",
        tools=[FIND],
        cache_key="s",
        parameters={"reasoning": {"effort": "low"}, "service_tier": "flex", "store": False},
    )
    context = everything("openai_responses")
    request = lower_compaction(SELECTIONS["openai_responses"], context, made)
    body = request.arguments()
    assert list(body) == ["model", "instructions", "input", "prompt_cache_key", "service_tier"]
    assert request_complaints(request.path, body) == []
    assert body["input"] == lower_request(SELECTIONS["openai_responses"], context).arguments()["input"]
    # What the ordinary request refuses, this one refuses too.
    with pytest.raises(ls.InvalidError, match="not known"):
        lower_compaction(SELECTIONS["openai_responses"], context, RequestOptions(parameters={"x": 1}))


@pytest.mark.parametrize("api_kind", SUMMARIES)
def test_a_summary_is_asked_for_behind_the_same_bytes(api_kind: ApiKind) -> None:
    made = options(api_kind, tools=[FIND], cache_key="s")
    context = everything(api_kind)
    before = lower_request(SELECTIONS[api_kind], context, made)
    request = lower_compaction(SELECTIONS[api_kind], context, made, target_tokens=300)
    body = request.arguments()
    assert request_complaints(request.path, body) == []
    end = before.spans[-1][1]
    assert request.body[:end] == before.body[:end]
    asked = body["messages"][-1]["content"]
    assert "Use about 300 tokens." in (asked[-1]["text"] if api_kind == "anthropic_messages" else asked)
    limit = "max_tokens" if api_kind == "anthropic_messages" else "max_completion_tokens"
    assert body[limit] == 600
    assert body["tool_choice"] == ({"type": "none"} if api_kind == "anthropic_messages" else "none")
    assert (
        lower_compaction(SELECTIONS[api_kind], context, made, target_tokens=300, max_output_tokens=301).arguments()[
            limit
        ]
        == 301
    )


def test_what_shapes_an_answer_does_not_shape_a_summary() -> None:
    shaped = {
        "response_format": {"type": "json_object"},
        "stop": ["\n"],
        "max_tokens": 5,
        "tool_choice": "required",
        "temperature": 0,
    }
    request = lower_compaction(
        SELECTIONS["chat_completions"], [LoweringEntry.user("x")], RequestOptions(parameters=shaped), target_tokens=10
    )
    body = request.arguments()
    assert {name: body.get(name) for name in shaped} == {
        "response_format": None,
        "stop": None,
        "max_tokens": 20,
        "tool_choice": None,
        "temperature": 0,
    }
    config = {"format": {"type": "json_schema", "schema": {}}, "effort": "low"}
    thinking = {"type": "enabled", "budget_tokens": 2_000}
    made = options(
        "anthropic_messages", parameters={"output_config": config, "thinking": thinking, "stop_sequences": ["x"]}
    )
    body = lower_compaction(
        SELECTIONS["anthropic_messages"], [LoweringEntry.user("x")], made, target_tokens=10
    ).arguments()
    assert (body["output_config"], body["thinking"], body["max_tokens"]) == ({"effort": "low"}, thinking, 2_020)
    assert "stop_sequences" not in body


@pytest.mark.parametrize("api_kind", API_KINDS)
def test_no_open_call_is_compacted(api_kind: ApiKind) -> None:
    with pytest.raises(ls.InvalidError, match="has no result; add its result"):
        lower_compaction(
            SELECTIONS[api_kind], [LoweringEntry.user("x"), *native(api_kind)], options(api_kind), target_tokens=9
        )


@pytest.mark.parametrize("target", [None, 0, -1, True, 1.5])
def test_targets(target: Any) -> None:
    with pytest.raises(ls.InvalidError, match="target_tokens") as caught:
        lower_compaction(SELECTIONS["chat_completions"], [LoweringEntry.user("x")], target_tokens=target)
    assert caught.value.argument == "target_tokens"
    with pytest.raises(ls.InvalidError, match="max_output_tokens"):
        lower_compaction(
            SELECTIONS["chat_completions"], [LoweringEntry.user("x")], target_tokens=10, max_output_tokens=9
        )


@pytest.mark.parametrize("api_kind", SUMMARIES)
def test_a_summary_is_read(api_kind: ApiKind) -> None:
    result = parse_compaction(api_kind, SAID[api_kind])
    assert (result.summary, result.items) == ("They want a plug.", ())
    assert result.usage.output_tokens == 70
    stream = models.ReplyStream(api_kind)
    stream.feed(answers.body(api_kind, SAID[api_kind]))
    assert parse_compaction(api_kind, stream.close()).summary == "They want a plug."


USELESS: list[tuple[ApiKind, dict[str, Any]]] = [
    ("anthropic_messages", SAID["anthropic_messages"] | {"stop_reason": "max_tokens"}),
    ("anthropic_messages", SAID["anthropic_messages"] | {"stop_reason": "refusal"}),
    ("anthropic_messages", SAID["anthropic_messages"] | {"stop_reason": None}),
    ("anthropic_messages", answers.message([{"type": "text", "text": " \n"}], stop="end_turn")),
    ("anthropic_messages", answers.message([], stop="end_turn")),
    ("anthropic_messages", answers.MESSAGE),
    ("anthropic_messages", {"type": "error", "error": {"type": "overloaded_error", "message": "later"}}),
    ("chat_completions", answers.completion({"role": "assistant", "content": "x"}, stop="length")),
    ("chat_completions", answers.completion({"role": "assistant", "content": ""}, stop="stop")),
    ("chat_completions", answers.completion({"role": "assistant", "content": "x", "refusal": "no"}, stop="stop")),
    ("chat_completions", answers.COMPLETION),
    ("openai_responses", COMPACTED | {"output": []}),
    ("openai_responses", COMPACTED | {"output": [answers.CITED]}),
    ("openai_responses", answers.RESPONSE),
    ("openai_responses", {"error": {"message": "later"}}),
]


@pytest.mark.parametrize(("api_kind", "answer"), USELESS)
def test_what_is_no_account(api_kind: ApiKind, answer: dict[str, Any]) -> None:
    with pytest.raises(ls.CodecError):
        parse_compaction(api_kind, answer)


@pytest.mark.parametrize("api_kind", SUMMARIES)
def test_half_a_streamed_summary_is_none(api_kind: ApiKind) -> None:
    data = answers.body(api_kind, SAID[api_kind], step=3)
    for end in range(0, len(data) - 900, 97):
        stream = models.ReplyStream(api_kind)
        stream.feed(data[:end])
        with pytest.raises(ls.CodecError, match="interrupted"):
            parse_compaction(api_kind, stream.close())


def test_a_compacted_response_is_read() -> None:
    result = parse_compaction("openai_responses", COMPACTED)
    assert (result.summary, result.id, result.usage.cache_read_tokens) == (None, "resp_c", 640)
    assert [item.kind for item in result.items] == ["message", "compaction"]
    assert all(item.call is None for item in result.items)
    reply = models.parse_reply("chat_completions", SAID["chat_completions"])
    with pytest.raises(ls.InvalidError, match="give its bytes"):
        parse_compaction("openai_responses", reply)
    with pytest.raises(ls.InvalidError, match="is of chat_completions"):
        parse_compaction("anthropic_messages", reply)


def test_words_of_the_user_among_what_was_compacted() -> None:
    """The endpoint gives back messages of users too; they stand in the next request as they are."""
    said = {
        "id": "msg_u",
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": [{"type": "input_text", "text": "plug?"}],
    }
    result = parse_compaction("openai_responses", COMPACTED | {"output": [said, answers.COMPACTION]})
    entries = [LoweringEntry.native(item, "openai_responses") for item in result.items]
    body = lower_request(SELECTIONS["openai_responses"], entries).arguments()
    assert body["input"] == [said, answers.COMPACTION]


def test_a_search_tool_in_the_providers_form() -> None:
    tool = ProviderTool("openai_responses", {"type": "web_search"})
    body = lower_request(
        SELECTIONS["openai_responses"], [LoweringEntry.user("x")], RequestOptions(tools=[tool])
    ).arguments()
    assert body["tools"] == [{"type": "web_search"}]
    assert request_complaints("/responses", body) == []
