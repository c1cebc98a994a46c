"""Results that come late, in two parts, or never: every request is one that the provider takes."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

import laser as ls
from laser import models
from laser.session.active.answering import late_results, unanswered

pytestmark = pytest.mark.anyio

OPTIONS: dict[str, models.RequestOptions] = {
    "openai_responses": models.RequestOptions(),
    "anthropic_messages": models.RequestOptions(parameters={"max_tokens": 100}),
    "chat_completions": models.RequestOptions(),
}


def calling(api: models.ApiKind, *ids: str) -> models.ModelReply:
    """An answer that calls a tool once for each id."""
    value: dict[str, Any]
    if api == "openai_responses":
        made = [{"type": "function_call", "call_id": one, "name": "f", "arguments": "{}"} for one in ids]
        value = {"id": "r", "object": "response", "status": "completed", "model": "m", "output": made}
    elif api == "anthropic_messages":
        blocks = [{"type": "tool_use", "id": one, "name": "f", "input": {}} for one in ids]
        value = {"id": "m", "type": "message", "role": "assistant", "stop_reason": "tool_use", "content": blocks}
    else:
        calls = [{"id": one, "type": "function", "function": {"name": "f", "arguments": "{}"}} for one in ids]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        value = {"object": "chat.completion", "choices": [{"finish_reason": "tool_calls", "message": message}]}
    return models.parse_reply(api, json.dumps(value).encode())


def result(call_id: str, text: str, **more: Any) -> ls.NewEntry:
    return ls.NewEntry("tool_result", text.encode(), call_id=call_id, **more)


def pairs(api: models.ApiKind, request: models.LoweredRequest) -> list[tuple[str, str]]:
    """Each call with its result, as the provider reads the request; what it would refuse fails here."""
    body, found, open_ids = json.loads(request.body), [], []
    for message in body["input"] if api == "openai_responses" else body["messages"]:
        if api == "openai_responses":
            calls = [message["call_id"]] if message["type"] == "function_call" else []
            results = [(message["call_id"], message["output"])] if message["type"].endswith("_output") else []
        elif api == "anthropic_messages":
            blocks = message["content"] if isinstance(message["content"], list) else []
            calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
            results = [(one["tool_use_id"], one["content"]) for one in blocks if one["type"] == "tool_result"]
        else:
            calls = [call["id"] for call in message.get("tool_calls") or ()]
            results = [(message["tool_call_id"], message["content"])] if message["role"] == "tool" else []
        for call_id, said in results:
            open_ids.remove(call_id)
            found.append((call_id, said if isinstance(said, str) else said[0]["text"]))
        open_ids += calls
    assert open_ids == []
    return found


@pytest.mark.parametrize("api", models.API_KINDS)
async def test_i18_an_interim_result_and_the_final_one(memory_laser: ls.Laser, api: models.ApiKind) -> None:
    session = await memory_laser.sessions().start()
    model = models.ModelSelection("p", api, "m")
    requests: list[models.LoweredRequest] = []
    outputs = [
        [result("c", "working", interim=True)],
        [result("c", "half </tool_result> way", interim=True), ls.NewEntry("user", b"and?")],
        [result("c", "done", is_error=True)],
    ]
    async with session.run([ls.NewEntry("user", b"go")]) as run:
        async with await run.turn() as turn:
            await turn.finish_reply(calling(api, "c"), outputs[0])
        for more in [*outputs[1:], []]:
            async with await run.turn() as turn:
                request = await turn.request(model, OPTIONS[api])
                assert pairs(api, request) == [("c", "working")]
                requests.append(request)
                state = await turn.finish(more)
    for before, after in pairwise(requests):
        end = max(stop for _, stop in before.spans)
        assert after.body[:end] == before.body[:end], "what was sent stays as it was"
    last = json.dumps(json.loads(requests[-1].body), ensure_ascii=False)
    assert r"<tool_result call=\"c\" state=\"interim\">\nhalf &lt;/tool_result> way\n</tool_result>" in last
    assert r"<tool_result call=\"c\" error=\"true\">\ndone\n</tool_result>" in last
    assert len(ls.compactable(state.entries)) == len(state.entries), "the final result closes the call"


@pytest.mark.parametrize("api", models.API_KINDS)
async def test_e1_a_call_whose_result_never_came(memory_laser: ls.Laser, api: models.ApiKind) -> None:
    session = await memory_laser.sessions().start()
    model = models.ModelSelection("p", api, "m")
    async with session.run([ls.NewEntry("user", b"go")]) as run, await run.turn() as turn:
        await turn.finish_reply(calling(api, "c1", "c2"), [result("c2", "two")])
    earlier: models.LoweredRequest | None = None
    for word in ("hello?", "again"):
        async with session.run([ls.NewEntry("user", word.encode())]) as run, await run.turn() as turn:
            before = await session.active.read()
            with pytest.raises(ls.InvalidError, match="call 'c1' has no result"):
                await turn.request(model, OPTIONS[api])
            request = await turn.request(model, OPTIONS[api], open_calls="answer")
            found = dict(pairs(api, request))
            assert found["c2"] == "two"
            assert found["c1"].startswith("There is no result: the call was interrupted.")
            assert await session.active.read() == before, "the log stays as it is"
            if earlier is not None:
                end = max(stop for _, stop in earlier.spans)
                assert request.body[:end] == earlier.body[:end]
            earlier = request
            with pytest.raises(ls.InvalidError, match="open_calls"):
                await turn.request(model, OPTIONS[api], open_calls="drop")  # type: ignore[arg-type]
            await turn.finish([ls.NewEntry("assistant", b"yes")])
    # The calls of the last turn are still waited for.
    async with session.run([ls.NewEntry("user", b"more")]) as run:
        async with await run.turn() as turn:
            await turn.finish_reply(calling(api, "c3"))
        async with await run.turn() as turn:
            body = (await turn.request(model, OPTIONS[api], open_calls="answer")).body
            assert body.count(b"There is no result") == 1
            # Then it comes after all, late.
            await turn.finish([result("c3", "three"), result("c1", "one")])
        async with await run.turn() as turn:
            last = await turn.request(model, OPTIONS[api])
            assert dict(pairs(api, last)) == {"c1": "one", "c2": "two", "c3": "three"}
            await turn.finish()


async def test_native_results_behind_an_interim_one(memory_laser: ls.Laser) -> None:
    session = await memory_laser.sessions().start()
    model = models.ModelSelection("p", "openai_responses", "m")
    native = b'{"type":"function_call_output","call_id":"c","output":"x"}'
    last = ls.NewEntry("tool_result", native, call_id="c", api="openai_responses")
    parts = models.encode_content([models.TextPart("see <TOOL_RESULT>"), models.ImagePart(url="https://example.org/a")])
    async with session.run([ls.NewEntry("user", b"go")]) as run:
        async with await run.turn() as turn:
            await turn.finish_reply(calling("openai_responses", "c"), [result("c", "soon", interim=True)])
        async with await run.turn() as turn:
            await turn.finish(
                [ls.NewEntry("tool_result", parts, call_id="c", media_type=models.CONTENT_TYPE, interim=True)]
            )
        async with await run.turn() as turn:
            said = json.loads((await turn.request(model)).body)["input"][-1]["content"]
            assert [part["type"] for part in said] == ["input_text", "input_text", "input_image", "input_text"]
            assert said[1]["text"] == "see &lt;TOOL_RESULT>"
            await turn.finish([last])
        async with await run.turn() as turn:
            with pytest.raises(ls.InvalidError, match="has no native form; give it as text"):
                await turn.request(model)
            await turn.finish()


def test_an_id_that_is_called_again() -> None:
    call = ls.NewEntry("tool_call", b"{}", call_id="c", api="openai_responses")
    made = [call, result("c", "soon", interim=True), call, result("c", "other"), call]
    entries = [ls.ContextEntry(number, 1, entry) for number, entry in enumerate(made, 1)]
    assert late_results(entries) == frozenset(), "it is the first one of the later call"
    assert unanswered(entries) == {}
    entries.append(ls.ContextEntry(6, 1, ls.NewEntry("user", b"x")))
    assert unanswered(entries) == {5: ["c"]}
