"""Compaction by a provider: its account takes the place of the conversation, and only a whole one counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

import laser as ls
from laser import models

pytestmark = pytest.mark.anyio

KEPT = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "my order is A-7"}]}
COMPACTED = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA-opaque"}
CLAUDE = {"id": "m", "type": "message", "role": "assistant", "model": "m", "usage": {"input_tokens": 9}}
CHAT = {"id": "c", "object": "chat.completion", "model": "m", "usage": {"prompt_tokens": 9}}


def answer(api: str, *, cut: bool = False) -> bytes:
    """What the provider says; cut off, it is no account."""
    value: dict[str, Any]
    if api == "openai_responses":
        value = {"id": "r", "object": "response.compaction", "output": [KEPT] if cut else [KEPT, COMPACTED]}
    elif api == "anthropic_messages":
        text = [{"type": "text", "text": "They asked for A-7."}]
        value = CLAUDE | {"content": text, "stop_reason": "max_tokens" if cut else "end_turn"}
    else:
        message = {"role": "assistant", "content": "They asked for A-7."}
        value = CHAT | {"choices": [{"index": 0, "finish_reason": "length" if cut else "stop", "message": message}]}
    return json.dumps(value).encode()


@pytest.mark.parametrize("api", models.API_KINDS)
async def test_each_api(memory_laser: ls.Laser, api: models.ApiKind) -> None:
    session = await memory_laser.sessions().start()
    await session.active.add(
        0,
        ls.NewEntry("instruction", b"be brief", key="a"),
        ls.NewEntry("catalog", b"old tools", key="tools"),
        ls.NewEntry("catalog", b"new tools", key="tools"),
    )
    async with session.run([ls.NewEntry("user", b"my order is A-7")], api=api) as run, await run.turn() as turn:
        await turn.finish([ls.NewEntry("assistant", b"which one?")])
    state = await session.active.read()
    before = await session.active.add(state.revision, ls.NewEntry("user", b"unread"))

    sent: list[models.LoweredRequest] = []
    cut = True

    async def send(request: models.LoweredRequest) -> bytes:
        sent.append(request)
        return answer(api, cut=cut)

    model = models.ModelSelection("p", api, "m")
    parameters = {"max_tokens": 500} if api == "anthropic_messages" else {}
    options = models.RequestOptions(parameters=parameters)
    compactor = ls.provider_compactor(model, send, options, target_tokens=100)
    with pytest.raises(ls.CodecError):
        await session.compact(compactor, mode="provider_standalone")
    assert await session.active.read() == before, "half an account is none"

    cut = False
    state = await session.compact(compactor, mode="provider_standalone")
    body = sent[-1].body.decode()
    assert "my order is A-7" in body
    assert "be brief" in body
    assert "unread" not in body
    assert ("old tools" in body) == (api != "openai_responses"), "a summary is asked for behind what was sent before"
    kinds = [one.kind for one in state.entries]
    account = ["summary", "compaction"] if api == "openai_responses" else ["summary"]
    assert kinds == ["instruction", "catalog", *account, "user"] or kinds == [
        "instruction",
        *account,
        "catalog",
        "user",
    ]
    assert state.entries[-1].text == "unread"
    # The account goes back as it came.
    async with session.run() as run:
        turn = await run.turn()
        again = (await turn.request(model, options)).body.decode()
        assert ("gAAA-opaque" if api == "openai_responses" else "They asked for A-7.") in again
        assert "which one?" not in again
        await turn.finish([ls.NewEntry("assistant", b"I see")])
    # The next one covers the account of before too.
    state = await session.compact(compactor, mode="provider_standalone")
    assert [one.kind for one in state.entries].count("summary") == 1


async def test_nothing_to_be_won(memory_laser: ls.Laser) -> None:
    session = await memory_laser.sessions().start()
    await session.active.add(0, ls.NewEntry("instruction", b"be brief", key="a"), ls.NewEntry("user", b"unread"))

    async def send(request: models.LoweredRequest) -> bytes:
        raise AssertionError("nobody is asked")

    before = await session.active.read()
    model = models.ModelSelection("p", "chat_completions", "m")
    assert await session.compact(ls.provider_compactor(model, send, target_tokens=10)) == before
