"""From the active context to a provider's request and back: the provider's own bytes, and a prefix that stays."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

import laser as ls
from laser import models
from tests.models import answers

pytestmark = pytest.mark.anyio

PARAMETERS: dict[str, dict[str, Any]] = {"anthropic_messages": {"max_tokens": 100}}
TOOLS = [models.ToolDefinition("look_up", "Looks an order up.", {"type": "object", "properties": {}})]


def reply(api: str, number: int) -> models.ModelReply:
    """An answer with text only."""
    text = f"answer {number} – ü"
    value: dict[str, Any]
    if api == "openai_responses":
        content = [{"type": "output_text", "text": text, "annotations": []}]
        item = {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }
        usage = {"input_tokens": 10 + number, "output_tokens": 3}
        value = {"id": "r", "object": "response", "status": "completed", "model": "m", "output": [item], "usage": usage}
    elif api == "anthropic_messages":
        usage = {"input_tokens": 10 + number, "output_tokens": 3}
        value = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
        value |= {"content": [{"type": "text", "text": text}], "usage": usage}
    else:
        message = {"role": "assistant", "content": text}
        usage = {"prompt_tokens": 10 + number, "completion_tokens": 3}
        value = {"id": "c", "object": "chat.completion", "model": "m", "usage": usage}
        value |= {"choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
    return models.parse_reply(api, json.dumps(value, ensure_ascii=False).encode())  # type: ignore[arg-type]


@pytest.mark.parametrize("api", models.API_KINDS)
async def test_each_request_begins_with_the_one_before(laser: ls.Laser, api: models.ApiKind) -> None:
    session = await laser.sessions().start()
    model = models.ModelSelection("p", api, "m")
    options = models.RequestOptions(tools=TOOLS, cache=False, parameters=PARAMETERS.get(api, {}))
    await session.active.add(
        0, ls.NewEntry("instruction", b"be brief", key="a"), ls.NewEntry("catalog", b"v1", key="tools")
    )
    before: models.LoweredRequest | None = None
    for number in range(6):
        if number == 3:
            state = await session.active.read()
            await session.active.add(state.revision, ls.NewEntry("catalog", b"v2", key="tools"))
        async with session.run([ls.NewEntry("user", f"question {number}".encode())], api=api) as run:
            turn = await run.turn()
            request = await turn.request(model, options)
            if before is not None:
                # Up to the end of the last entry that both have.
                end = max(stop for _, stop in before.spans)
                assert request.body[:end] == before.body[:end]
            before = request
            answer = reply(api, number)
            state = await turn.finish_reply(answer)
            assert [one.entry.payload for one in state.entries][-1] == answer.items[-1].payload
    state = await session.active.read()
    assert state.run is not None
    assert state.run.usage == {"input_tokens": 15, "output_tokens": 3}
    # Another handle, which knows nothing of the requests before, writes the same bytes.
    other = await laser.sessions().open(session.id)
    async with session.run([ls.NewEntry("user", b"again")]) as run:
        turn = await run.turn()
        body = (await turn.request(model, options)).body
        entries = await ls.lowering_entries((await other.active.read()).entries, api)
        keyed = msgspec.structs.replace(options, cache_key=session.id)
        assert models.lower_request(model, entries, keyed).body == body
        if api != "anthropic_messages":
            assert json.loads(body)["prompt_cache_key"] == session.id
        with pytest.raises(ls.InvalidError, match=f"API kind is {api}"):
            others = [kind for kind in models.API_KINDS if kind != api]
            await turn.request(models.ModelSelection("p", others[0], "m"))


async def test_native_items_come_back_byte_for_byte(memory_laser: ls.Laser) -> None:
    session = await memory_laser.sessions().start()
    model = models.ModelSelection("p", "openai_responses", "m")
    output = [answers.REASONING, answers.CITED, answers.CALL]
    value = {"id": "r", "object": "response", "status": "completed", "model": "m", "output": output, "usage": None}
    answer = models.parse_reply("openai_responses", json.dumps(value).encode())
    async with session.run([ls.NewEntry("user", b"go")], api="openai_responses") as run:
        async with await run.turn() as turn:
            (call,) = answer.calls
            await turn.finish_reply(answer, [ls.NewEntry("tool_result", b"found", call_id=call.id)])
        turn = await run.turn()
        kinds = [one.kind for one in turn.context.entries]
        assert kinds == ["user", "reasoning", "assistant", "tool_call", "tool_result"]
        body = (await turn.request(model)).body
        assert all(item.payload in body for item in answer.items)
        assert json.loads(body)["input"][1:4] == output
        await turn.fail()
    detail = await session.read_run(run.id)
    assert [one.payload for one in detail.turns[0].outputs][:3] == [item.payload for item in answer.items]


async def test_an_answer_that_was_cut_off_enters_no_context(memory_laser: ls.Laser) -> None:
    session = await memory_laser.sessions().start()
    value = {"id": "r", "object": "response", "status": "incomplete", "model": "m", "output": [answers.CITED]}
    value["incomplete_details"] = {"reason": "max_output_tokens"}
    value["usage"] = {"input_tokens": 7, "output_tokens": 9}
    answer = models.parse_reply("openai_responses", json.dumps(value).encode())
    assert not answer.completed
    async with session.run([ls.NewEntry("user", b"go")], api="openai_responses") as run:
        turn = await run.turn()
        state = await turn.finish_reply(answer)
        assert [one.kind for one in state.entries] == ["user"]
        assert state.run is not None
        assert state.run.usage == {"input_tokens": 7, "output_tokens": 9}
    (failed,) = (await session.read_run(run.id)).turns
    assert (failed.state, len(failed.outputs)) == ("failed", 1)


@pytest.mark.parametrize("api", models.API_KINDS)
async def test_plain_text_of_an_assistant_can_be_lowered(memory_laser: ls.Laser, api: models.ApiKind) -> None:
    session = await memory_laser.sessions().start()
    model, options = models.ModelSelection("p", api, "m"), models.RequestOptions(parameters=PARAMETERS.get(api, {}))
    said = [ls.NewEntry("user", b"hi"), ls.NewEntry("assistant", b"hello there"), ls.NewEntry("user", b"and?")]
    async with session.run(said) as run:
        turn = await run.turn()
        body = json.loads((await turn.request(model, options)).body)
        rows = body["input"] if api == "openai_responses" else body["messages"]
        assert [row["role"] for row in rows] == ["user", "assistant", "user"]
        assert "hello there" in json.dumps(rows[1])
        await turn.finish()
        state = await session.active.read()
        await session.active.add(state.revision, ls.NewEntry("reasoning", b"hm"))
        turn = await run.turn()
        with pytest.raises(ls.InvalidError, match="a reasoning goes back in its native form"):
            await turn.request(model, options)


async def test_an_answer_with_an_image_is_kept_as_content(tmp_path: Path) -> None:
    """What is too large for an event goes into content, comes back byte for byte, and is held by the session."""
    async with ls.Laser.connect(f"embedded:{tmp_path / 'data'}") as laser:
        await laser.bootstrap(partitions=2, retention=ls.TopicRetention(expire_after=timedelta(days=30)))
        content = laser.content("acme")
        session = await laser.sessions().start()
        image = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "QUJD" * 400_000}
        answer = models.parse_reply("openai_responses", json.dumps(answers.response([image])).encode())
        scan = b"page " * 300_000
        async with session.run([ls.NewEntry("user", b"draw")], api="openai_responses") as run:
            async with await run.turn() as turn:
                with pytest.raises(ls.LimitError, match="keep it as content"):
                    await turn.finish_reply(answer)
                await turn.finish_reply(answer, content=content)
            async with await run.turn() as turn:
                model = models.ModelSelection("openai", "openai_responses", "gpt-5")
                request = await turn.request(model, resolve=content.get)
                assert answer.items[0].payload in request.body
                with pytest.raises(ls.InvalidError, match="results: expected a list"):
                    await turn.finish_reply(answer, "no")  # type: ignore[arg-type]
                await turn.finish([ls.NewEntry("tool_call", b"{}", call_id="c", api="openai_responses")])
            async with await run.turn() as turn:
                said = models.parse_reply("openai_responses", json.dumps(answers.response([answers.CITED])).encode())
                await turn.finish_reply(said, [ls.NewEntry("tool_result", scan, call_id="c")], content=content)
        result = (await session.active.read()).entries[-1].entry
        assert result.payload is None
        assert result.ref is not None
        assert result.ref.media_type == "text/plain"
        assert await content.get(result.ref) == scan
        report = await content.collect(grace=timedelta(0))
        assert (report.removed, report.complete) == (0, True), "the session holds them"
