"""Summarizers: the three model APIs, the extractive one, and what counts as a summary."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

import laser as ls
from laser.compaction.rows import make_row
from laser.compaction.sizes import message_cost, text_cost
from laser.compaction.summarizers.extractive import ExtractiveSummarizer
from laser.compaction.summarizers.models import ModelSummarizer
from laser.compaction.summarizing import OversizedSummaryError, ask, piece_limit, pieces_of, summarize_all
from laser.model.transcript import SourceRef
from laser.models import LoweredRequest, ModelSelection
from laser.ports.summarizer import Summarizer, Summary, SummaryRequest
from laser.testing.compaction_cases.base import user
from laser.testing.summarizers import FAULTS, NotingSummarizer

pytestmark = pytest.mark.anyio

REQUEST = SummaryRequest("rolling", "Summarise.", "user: hello", "Before that, a greeting.", 200)

_USAGE = {"input_tokens": 9, "output_tokens": 3}
ANSWERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "chat_completions": (
        {"choices": [{"index": 0, "message": {"role": "assistant", "content": "They met."}, "finish_reason": "stop"}]},
        {"choices": [{"index": 0, "message": {"role": "assistant", "content": "They m"}, "finish_reason": "length"}]},
    ),
    "openai_responses": (
        {
            "status": "completed",
            "output": [
                {"type": "reasoning", "id": "r", "summary": []},
                {
                    "type": "message",
                    "id": "m",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "They met.", "annotations": []}],
                },
            ],
        },
        {
            "status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"},
            "output": [
                {
                    "type": "message",
                    "id": "m",
                    "role": "assistant",
                    "status": "incomplete",
                    "content": [{"type": "output_text", "text": "They m", "annotations": []}],
                }
            ],
        },
    ),
    "anthropic_messages": (
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": "They "}, {"type": "text", "text": "met."}],
            "stop_reason": "end_turn",
            "usage": _USAGE,
        },
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": "They m"}],
            "stop_reason": "max_tokens",
            "usage": _USAGE,
        },
    ),
}


@pytest.mark.parametrize("api", ANSWERS)
@pytest.mark.parametrize("as_bytes", [True, False])
async def test_the_three_apis(api: Any, as_bytes: bool) -> None:
    whole, cut = ANSWERS[api]
    sent: list[LoweredRequest] = []
    answer: Any = whole

    async def send(request: LoweredRequest) -> Any:
        sent.append(request)
        return json.dumps(answer).encode() if as_bytes else answer

    summarizer = ModelSummarizer(send, ModelSelection("someone", api, "some-model"), {"temperature": 0}, headroom=50)
    assert isinstance(summarizer, Summarizer)
    assert await summarizer.summarize(REQUEST) == Summary("They met.")
    (request,) = sent
    body = request.arguments()
    assert (request.api_kind, body["model"], body["temperature"]) == (api, "some-model", 0)
    assert 250 in body.values()
    assert not {"tools", "tool_choice", "functions", "stream"} & set(body)
    assert body.get("store", False) is False
    said = request.body.decode()
    assert "user: hello" in said
    assert "Before that, a greeting." in said
    assert "Summarise." in said
    answer = cut
    assert not (await summarizer.summarize(REQUEST)).complete
    with pytest.raises(ls.SummaryError, match="cut off"):
        await ask(summarizer, REQUEST, 1)
    for strange in (
        {},
        {"error": {"message": "x"}},
        {"choices": []},
        {"output": 3},
        {"content": [{"type": "text"}]},
        [1],
    ):
        answer = strange
        with pytest.raises(ls.SummaryError):
            await ask(summarizer, REQUEST, 1)


@pytest.mark.parametrize("api", ANSWERS)
def test_tools_and_odd_parameters_are_refused(api: Any) -> None:
    async def send(request: LoweredRequest) -> bytes:
        raise AssertionError

    for name in ("tools", "tool_choice", "parallel_tool_calls", "stream", "model", "no_such"):
        with pytest.raises(ls.InvalidError):
            ModelSummarizer(send, ModelSelection("p", api, "m"), {name: 1})
    for headroom in (-1, 0.5, True):
        with pytest.raises(ls.InvalidError) as caught:
            ModelSummarizer(send, ModelSelection("p", api, "m"), headroom=headroom)  # type: ignore[arg-type]
        assert caught.value.argument == "headroom"
    with pytest.raises(ls.InvalidError):
        ModelSummarizer(send, ModelSelection("p", api, " "))


@pytest.mark.parametrize(
    "message",
    [
        {
            "content": None,
            "tool_calls": [{"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"content": None, "refusal": "no"},
    ],
)
async def test_a_model_that_calls_or_refuses(message: dict[str, Any]) -> None:
    async def send(request: LoweredRequest) -> Mapping[str, Any]:
        reason = "tool_calls" if "tool_calls" in message else "stop"
        return {"choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}]}

    summarizer = ModelSummarizer(send, ModelSelection("p", "chat_completions", "m"), limit_parameter="max_tokens")
    with pytest.raises(ls.SummaryError):
        await summarizer.summarize(REQUEST)


@pytest.mark.parametrize("fault", FAULTS)
async def test_what_is_no_summary(fault: str) -> None:
    summarizer = NotingSummarizer()
    summarizer.fault = FAULTS[fault]
    with pytest.raises(ls.SummaryError):
        await ask(summarizer, REQUEST, 0.05)


@pytest.mark.parametrize(
    "text",
    [
        "The user saw an error: disk full. It was fixed.",
        "Errors in the report were corrected.",
        "Failed logins were investigated; the cause was a stale token.",
        "404 pages were printed.",
        "Timeouts: the user asked to raise them to 30 s.",
        "{name} was renamed.",
        "Sorry-looking data was cleaned up.",
        "あ",
    ],
)
async def test_what_is_one_although_it_speaks_of_errors(text: str) -> None:
    async def answer(_: SummaryRequest) -> Summary:
        return Summary(f"  {text}\n")

    summarizer = NotingSummarizer()
    summarizer.fault = answer
    assert (await ask(summarizer, REQUEST, 1)).text == text


async def test_a_cancelled_request_is_cancelled() -> None:
    summarizer = NotingSummarizer()
    summarizer.fault = FAULTS["hangs"]
    with anyio.move_on_after(0.05) as scope:
        await ask(summarizer, REQUEST, 60)
    assert scope.cancelled_caught


async def test_chunks_carry_the_summary_and_hold_everything() -> None:
    rows = [
        make_row(SourceRef("s", number), user(f"text-{number} " + "Grüße 你好 " * 40), message_cost)
        for number in range(50)
    ]
    summarizer = NotingSummarizer()
    counted: list[int] = []

    async def asked(request: SummaryRequest) -> Summary:
        return await ask(summarizer, request, 1)

    pieces = pieces_of(rows, piece_limit(600, 60))
    text = await summarize_all(
        asked, "rolling", pieces, previous="Earlier.", max_tokens=60, chunk_tokens=600, done=counted.append
    )
    assert text.startswith(f"Account {len(summarizer.requests)}")
    assert len(summarizer.requests) > 5
    assert summarizer.requests[0].previous == "Earlier."
    for request, before in zip(summarizer.requests[1:], summarizer.requests, strict=False):
        assert request.previous is not None
        assert request.previous.startswith(f"Account {summarizer.requests.index(before) + 1} of")
    for request in summarizer.requests:
        assert text_cost(request.text.encode()) + text_cost((request.previous or "").encode()) <= 600
    assert "".join(summarizer.seen.split()).count("你好") == 50 * 40
    assert sum(counted) >= sum(row.tokens for row in rows) * 0.9


async def test_a_summary_far_too_long_is_asked_for_again_and_then_refused() -> None:
    summarizer = NotingSummarizer(length=4_000)
    limits: list[int] = []

    async def asked(request: SummaryRequest) -> Summary:
        limits.append(request.max_tokens)
        return await ask(summarizer, request, 1)

    row = make_row(SourceRef("s", 1), user("hello"), message_cost)
    with pytest.raises(OversizedSummaryError):
        await summarize_all(
            asked, "leaf", pieces_of([row], 100), previous=None, max_tokens=100, chunk_tokens=400, done=lambda _: None
        )
    assert limits == [100, 50]


async def test_the_extractive_one_keeps_its_bound_and_says_the_same_twice() -> None:
    summarizer = ExtractiveSummarizer()
    assert isinstance(summarizer, Summarizer)
    for paragraphs in (1, 2, 30, 3_000):
        for limit in (1, 16, 100, 2_000):
            text = "\n\n".join(f"user: wish {number} über 你好 {'long ' * 50}" for number in range(paragraphs))
            request = SummaryRequest("leaf", "", text, "Before: nothing.", limit)
            found = await summarizer.summarize(request)
            assert found == await summarizer.summarize(request)
            assert found.text.strip()
            assert text_cost(found.text.encode()) <= max(limit, 3)


async def test_bad_arguments_of_the_client(memory_laser: ls.Laser) -> None:
    session = ls.new_conversation_id()
    with pytest.raises(ls.InvalidError) as caught:
        memory_laser.compaction(session, summarizer=object())  # type: ignore[arg-type]
    assert caught.value.argument == "summarizer"
    for timeout in (0, -1, float("nan"), float("inf"), True, "5"):
        with pytest.raises(ls.InvalidError) as caught:
            memory_laser.compaction(session, timeout=timeout)  # type: ignore[arg-type]
        assert caught.value.argument == "timeout"
    with pytest.raises(ls.IdError):
        memory_laser.compaction("not an id")
    compaction = memory_laser.compaction(session)
    with pytest.raises(ls.InvalidError) as caught:
        await compaction.compact()
    assert caught.value.argument == "summarizer"
    with pytest.raises(ls.InvalidError) as caught:
        await compaction.prepare(context=["text"])  # type: ignore[list-item]
    assert caught.value.argument == "context"


async def test_without_a_summarizer_the_request_says_so(memory_laser: ls.Laser) -> None:
    session = await memory_laser.sessions().start()
    await session.scope().append_many(ls.AgentTopic.Sessions, [user(f"{number} " + "x" * 400) for number in range(50)])
    prepared = await memory_laser.compaction(session).prepare(window=4_000)
    assert (prepared.observation.status, prepared.observation.over_window) == ("no_summarizer", True)
    assert len(prepared.inputs) == 50
