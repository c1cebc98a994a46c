"""Requests go out through the official clients, answers come in through them, and what came goes back as it was."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from anthropic.types import Message
from openai.types.chat import ChatCompletion
from openai.types.responses import CompactedResponse, Response

from laser import models
from laser.models import API_KINDS, ApiKind, LoweredRequest, LoweringEntry, ModelReply, ReplyStream, lower_request
from tests.models import answers
from tests.models.answers import ANSWERS
from tests.models.contexts import FIND, NOW, SELECTIONS, everything, options
from tests.models.provider import Provider, run_provider

pytestmark = pytest.mark.anyio

CANARY = "canary-key-3f9a"
Client = openai.AsyncOpenAI | anthropic.AsyncAnthropic
OBJECTS: dict[str, type[Any]] = {
    "/responses": Response,
    "/responses/compact": CompactedResponse,
    "/v1/messages": Message,
    "/chat/completions": ChatCompletion,
}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with run_provider() as running:
        yield running


@pytest.fixture
async def clients(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[dict[ApiKind, Client]]:
    for name in os.environ:
        if name.lower().endswith("_proxy") or name.startswith(("OPENAI_", "ANTHROPIC_")):
            monkeypatch.delenv(name)
    provider.received.clear()
    async with (
        openai.AsyncOpenAI(api_key=CANARY, base_url=f"{provider.url}/openai", max_retries=0, timeout=120) as first,
        anthropic.AsyncAnthropic(api_key=CANARY, base_url=provider.url, max_retries=0, timeout=120) as second,
    ):
        yield {"openai_responses": first, "anthropic_messages": second, "chat_completions": first}


def create(client: Client, request: LoweredRequest, *, raw: bool = False) -> Any:
    """The client's own method for the request."""
    if isinstance(client, anthropic.AsyncAnthropic):
        return client.messages.with_streaming_response.create if raw else client.messages.create
    if request.api_kind == "openai_responses":
        return client.responses.with_streaming_response.create if raw else client.responses.create
    return client.chat.completions.with_streaming_response.create if raw else client.chat.completions.create


async def post(client: Client, request: LoweredRequest) -> bytes:
    """Sends the very bytes of a request, and gives those of the answer."""
    headers = {"headers": {"Content-Type": "application/json"}}
    given = await client.post(request.path, content=request.body, cast_to=httpx2.Response, options=headers)  # type: ignore[arg-type]
    return given.content


@pytest.mark.parametrize("api_kind", API_KINDS)
async def test_a_round_trip(api_kind: ApiKind, provider: Provider, clients: dict[ApiKind, Client]) -> None:
    """Three turns, byte for byte: what a provider gave is in the next request as it came, behind the same bytes."""
    context = [LoweringEntry.instruction("Help."), LoweringEntry.user("Which plug?")]
    made = options(api_kind, tools=[FIND, NOW], cache_key="session-1")
    sent: list[LoweredRequest] = []
    for turn in range(3):
        request = lower_request(SELECTIONS[api_kind], context, made)
        answer = json.dumps(ANSWERS[api_kind]).replace("a1", f"a{turn}1").replace("b2", f"b{turn}2").encode()
        provider.will_answer(json.loads(answer))
        given = await post(clients[api_kind], request)
        sent.append(request)
        assert provider.received[-1].body == request.body
        assert provider.received[-1].complaints == []
        assert provider.received[-1].headers["content-type"] == "application/json"
        reply = models.parse_reply(api_kind, given)
        assert reply == models.parse_reply(api_kind, answer)
        context += [LoweringEntry.native(item, api_kind) for item in reply.continuation]
        context += [LoweringEntry.tool_result(call.id, f"{call.name}: {turn}") for call in reply.calls]
    for earlier, later in pairwise(sent):
        end = earlier.spans[-1][1]
        assert later.body[:end] == earlier.body[:end]
        for entry, (begin, stop) in zip(context, later.spans, strict=False):
            if entry.kind == "native":
                inner = entry.payload.strip(b"[]") if api_kind == "anthropic_messages" else entry.payload
                core = inner.strip(b"{}") if api_kind == "chat_completions" else inner
                assert core in later.body[begin : stop + 1]


@pytest.mark.parametrize("api_kind", API_KINDS)
async def test_every_kind_of_entry_through_create(
    api_kind: ApiKind, provider: Provider, clients: dict[ApiKind, Client]
) -> None:
    request = lower_request(
        SELECTIONS[api_kind], everything(api_kind), options(api_kind, tools=[FIND, NOW], cache_key="s")
    )
    provider.will_answer(ANSWERS[api_kind])
    given = await create(clients[api_kind], request)(**request.arguments())
    assert isinstance(given, OBJECTS[request.path])
    # The client's object has the same facts; only the order of its keys is its own.
    assert same(models.parse_reply(api_kind, given.to_dict(mode="json"))) == same(
        models.parse_reply(api_kind, ANSWERS[api_kind])
    )
    assert provider.received[-1].complaints == []
    assert json.loads(provider.received[-1].body) == request.arguments()


@pytest.mark.parametrize("api_kind", API_KINDS)
async def test_streams(
    api_kind: ApiKind, provider: Provider, clients: dict[ApiKind, Client], anyio_backend_name: str
) -> None:
    request = lower_request(SELECTIONS[api_kind], everything(api_kind), options(api_kind, tools=[FIND]), stream=True)
    whole = models.parse_reply(api_kind, ANSWERS[api_kind])
    provider.will_answer(answers.body(api_kind, ANSWERS[api_kind]), stream=True)
    by_bytes = ReplyStream(api_kind)
    async with create(clients[api_kind], request, raw=True)(**request.arguments()) as given:
        async for chunk in given.iter_bytes():
            by_bytes.feed(chunk)
    streams = [by_bytes]
    # Behind [DONE] the client leaves a generator to the garbage collector, which trio reports.
    if anyio_backend_name == "asyncio":
        provider.will_answer(answers.body(api_kind, ANSWERS[api_kind]), stream=True)
        streams.append(ReplyStream(api_kind))
        async for event in await create(clients[api_kind], request)(**request.arguments()):
            streams[1].add(event.to_dict(mode="json"))
    assert [one.complaints for one in provider.received] == [[]] * len(streams)
    for stream in streams:
        reply = stream.close()
        assert same(reply) == same(whole)
        assert json.loads(reply.native) == json.loads(whole.native)


def same(reply: ModelReply) -> tuple[object, ...]:
    items = [(item.kind, json.loads(item.payload), item.call, item.text) for item in reply.items]
    return reply.completed, reply.stop, items, reply.text, reply.reasoning, reply.usage, reply.calls


@pytest.mark.parametrize("api_kind", API_KINDS)
async def test_a_connection_that_is_cut(api_kind: ApiKind, provider: Provider, clients: dict[ApiKind, Client]) -> None:
    request = lower_request(SELECTIONS[api_kind], everything(api_kind), options(api_kind, tools=[FIND]), stream=True)
    data = answers.body(api_kind, ANSWERS[api_kind])
    provider.will_answer(data, stream=True, cut=len(data) // 2)
    stream = ReplyStream(api_kind)
    with pytest.raises(Exception) as caught:
        async with create(clients[api_kind], request, raw=True)(**request.arguments()) as given:
            async for chunk in given.iter_bytes():
                stream.feed(chunk)
    assert type(caught.value).__module__.partition(".")[0] in ("httpx2", "httpx", "openai", "anthropic")
    assert (stream.close().completed, stream.close().stop) == (False, "interrupted")


async def test_anthropics_own_fold_gives_the_same(provider: Provider, clients: dict[ApiKind, Client]) -> None:
    client = clients["anthropic_messages"]
    assert isinstance(client, anthropic.AsyncAnthropic)
    request = lower_request(
        SELECTIONS["anthropic_messages"], everything("anthropic_messages"), options("anthropic_messages")
    )
    data = answers.body("anthropic_messages", answers.MESSAGE)
    provider.will_answer(data, stream=True)
    async with client.messages.stream(**request.arguments()) as given:
        theirs = (await given.get_final_message()).to_dict(mode="json")
    ours = ReplyStream("anthropic_messages")
    ours.feed(data)
    reply = json.loads(ours.close().native)
    assert theirs["content"] == reply["content"]
    assert (theirs["stop_reason"], theirs["usage"]) == (reply["stop_reason"], reply["usage"])


async def test_the_compact_endpoint(provider: Provider, clients: dict[ApiKind, Client]) -> None:
    context = everything("openai_responses")
    made = options(
        "openai_responses", tools=[FIND], cache_key="s", parameters={"temperature": 1, "service_tier": "flex"}
    )
    request = models.lower_compaction(SELECTIONS["openai_responses"], context, made, target_tokens=500)
    assert request.path == "/responses/compact"
    answer = {
        "id": "resp_c",
        "object": "response.compaction",
        "created_at": 1763000000,
        "output": [answers.CITED, answers.COMPACTION],
        "usage": answers.RESPONSE["usage"],
    }
    provider.will_answer(answer)
    provider.will_answer(answer)
    result = models.parse_compaction("openai_responses", await post(clients["openai_responses"], request))
    client = clients["openai_responses"]
    assert isinstance(client, openai.AsyncOpenAI)
    given = await client.responses.compact(**request.arguments())
    assert [one.complaints for one in provider.received] == [[], []]
    again = models.parse_compaction("openai_responses", given.to_dict(mode="json"))
    assert [json.loads(item.payload) for item in again.items] == [json.loads(item.payload) for item in result.items]
    assert [item.kind for item in result.items] == ["message", "compaction"]
    entries = [LoweringEntry.native(item, "openai_responses") for item in result.items]
    after = lower_request(SELECTIONS["openai_responses"], [*context[:2], *entries, LoweringEntry.user("Go on.")])
    assert after.arguments()["input"][:2] == answer["output"]
    assert b'{"id":"cmp_01","type":"compaction","encrypted_content":"gAAAA-compacted"}' in after.body


@pytest.mark.parametrize("api_kind", ["anthropic_messages", "chat_completions"])
async def test_a_summary(api_kind: ApiKind, provider: Provider, clients: dict[ApiKind, Client]) -> None:
    request = models.lower_compaction(
        SELECTIONS[api_kind], everything(api_kind), options(api_kind, tools=[FIND], cache_key="s"), target_tokens=300
    )
    said = "They want a plug."
    answer = answers.message([{"type": "text", "text": said}], stop="end_turn")
    if api_kind == "chat_completions":
        answer = answers.completion({"role": "assistant", "content": said}, stop="stop")
    provider.will_answer(answer)
    given = await create(clients[api_kind], request)(**request.arguments())
    assert provider.received[-1].complaints == []
    assert models.parse_compaction(api_kind, given.to_dict(mode="json")).summary == said


async def test_no_credential_is_in_a_request(provider: Provider, clients: dict[ApiKind, Client]) -> None:
    for api_kind in API_KINDS:
        request = lower_request(SELECTIONS[api_kind], everything(api_kind), options(api_kind))
        provider.will_answer(ANSWERS[api_kind])
        reply = models.parse_reply(api_kind, await post(clients[api_kind], request))
        assert CANARY in str(provider.received[-1].headers)
        assert CANARY.encode() not in provider.received[-1].body
        assert CANARY not in repr((request, reply, SELECTIONS[api_kind]))
