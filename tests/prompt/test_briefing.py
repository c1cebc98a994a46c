"""The briefing: what is known in the system text, what is missing at the tail and only there."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

import laser as ls
import laser.prompt as lp

pytestmark = pytest.mark.anyio

FIELDS = lp.Briefing("size", "budget", "delivery_day")


def agent(laser: ls.Laser, briefing: lp.Briefing = FIELDS) -> lp.PromptBuilder:
    return lp.PromptBuilder(
        laser, [lp.Identity("x"), lp.History(), lp.BriefingKnown(briefing), lp.Recitation(briefing)]
    )


async def test_two_places(laser: ls.Laser, scope: ls.ContextScope) -> None:
    await FIELDS.update(laser, scope, "size", "M")
    await FIELDS.set_next_step(laser, scope, "send the payment link\ntomorrow at 10")
    await scope.append(ls.AgentTopic.Sessions, '{"role":"user","content":"hello"}')
    prompt = await agent(laser).build(scope, "and now?")
    assert prompt.system_volatile == "<briefing>\nknown:\n  size: M\n</briefing>"
    tail = json.loads(prompt.messages[-2])
    assert tail == {
        "role": "user",
        "content": "<recitation>\nstill missing: budget, delivery_day\n"
        "next step: send the payment link tomorrow at 10\n</recitation>",
    }
    assert "missing" not in prompt.system
    assert "next step" not in prompt.system
    assert prompt.text.count("still missing") == 1


async def test_nothing_to_say(laser: ls.Laser, scope: ls.ContextScope) -> None:
    prompt = await agent(laser).build(scope, "hi")
    assert prompt.system_volatile == ""
    for field in FIELDS.fields:
        await FIELDS.update(laser, scope, field, "known")
    prompt = await agent(laser).build(scope, "hi")
    assert len(prompt.messages) == 1
    off = lp.Briefing()
    prompt = await agent(laser, off).build(scope, "hi")
    assert (prompt.system_volatile, len(prompt.messages), off.tools()) == ("", 1, [])


async def test_the_tools(laser: ls.Laser, scope: ls.ContextScope) -> None:
    names = [tool["function"]["name"] for tool in FIELDS.tools()]
    assert names == ["update_briefing", "set_next_step"]
    assert FIELDS.tools()[0]["function"]["parameters"]["properties"]["field"]["enum"] == list(FIELDS.fields)

    async def call(name: str, arguments: str) -> dict[str, object]:
        answer: dict[str, object] = json.loads(await FIELDS.call(laser, scope, name, arguments))
        return answer

    assert await call("update_briefing", '{"field":"size","value":" M "}') == {"ok": True}
    assert await call("set_next_step", '{"text":"call back"}') == {"ok": True}
    state = await FIELDS.read(laser, scope)
    assert (state, state.missing, state.next_step) == ({"size": "M"}, ("budget", "delivery_day"), "call back")
    before = (await laser.topic(lp.NOTES_TOPIC)).records
    unknown = await call("update_briefing", '{"field":"colour","value":"red"}')
    assert unknown == {"error": "unknown field 'colour'; declared: size, budget, delivery_day"}
    for name, arguments in (
        ("update_briefing", "{bad"),
        ("update_briefing", "[]"),
        ("update_briefing", '{"field":"size"}'),
        ("update_briefing", '{"field":"size","value":7}'),
        ("set_next_step", ""),
        ("no_such_tool", "{}"),
    ):
        assert "error" in await call(name, arguments)
    assert (await laser.topic(lp.NOTES_TOPIC)).records == before
    assert await call("update_briefing", '{"field":"size","value":"  "}') == {"ok": True}
    assert await call("set_next_step", '{"text":""}') == {"ok": True}
    state = await FIELDS.read(laser, scope)
    assert (state, state.next_step) == ({}, None)


async def test_stored_fields_that_are_not_declared_any_more(laser: ls.Laser, scope: ls.ContextScope) -> None:
    await FIELDS.update(laser, scope, "size", "M")
    prompt = await agent(laser, lp.Briefing("budget")).build(scope, "hi")
    assert "size" not in prompt.text
    assert "still missing: budget" in prompt.text
    assert await FIELDS.read(laser, scope) == {"size": "M"}


async def test_sessions_are_apart(laser: ls.Laser, scope: ls.ContextScope) -> None:
    other = laser.context(ls.new_conversation_id())
    await FIELDS.update(laser, scope, "size", "M")
    assert await FIELDS.read(laser, other) == {}
    await FIELDS.update(laser, other, "size", "S")
    assert await FIELDS.read(laser, scope) == {"size": "M"}


async def test_it_survives_resume(tmp_path: Path) -> None:
    url = f"embedded:{tmp_path}"
    async with ls.Laser.connect(url) as laser:
        await laser.ensure_topic(ls.AgentTopic.Control)
        session = await laser.sessions().start("x")
        await FIELDS.update(laser, session.scope(), "size", "M")
    async with ls.Laser.connect(url) as laser:
        session = await laser.sessions().open(session.id)
        assert await FIELDS.read(laser, session.scope()) == {"size": "M"}
        # Another client writes meanwhile; this one sees it at its next read.
        async with ls.Laser.connect(url) as other:
            await FIELDS.update(other, session.scope(), "budget", "50")
        assert await FIELDS.read(laser, session.scope()) == {"size": "M", "budget": "50"}


async def test_writers_at_once_lose_nothing(laser: ls.Laser, scope: ls.ContextScope) -> None:
    many = lp.Briefing(*(f"f{number}" for number in range(20)))
    async with anyio.create_task_group() as tasks:
        for name in many.fields:
            tasks.start_soon(many.update, laser, scope, name, f"value of {name}")
            tasks.start_soon(many.read, laser, scope)
    assert await many.read(laser, scope) == {name: f"value of {name}" for name in many.fields}


async def test_foreign_records_on_the_topic(laser: ls.Laser, scope: ls.ContextScope) -> None:
    await FIELDS.update(laser, scope, "size", "M")
    for payload in ("x", "[]", '{"laser.note":2,"kind":"briefing","field":"size","text":"L"}', '{"laser.note":1}'):
        await scope.append(lp.NOTES_TOPIC, payload)
    await scope.append(lp.NOTES_TOPIC, '{"laser.note":1,"kind":"summary","summary":{"text":1}}')
    assert await FIELDS.read(laser, scope) == {"size": "M"}


async def test_a_topic_that_was_made_anew(laser: ls.Laser, scope: ls.ContextScope) -> None:
    await FIELDS.update(laser, scope, "size", "M")
    assert await FIELDS.read(laser, scope) == {"size": "M"}
    await laser.delete_topic(lp.NOTES_TOPIC)
    assert await FIELDS.read(laser, scope) == {}
    await FIELDS.update(laser, scope, "budget", "9")
    assert await FIELDS.read(laser, scope) == {"budget": "9"}


@pytest.mark.parametrize("fields", [("a b",), ("",), ("1a",), ("a", "a"), (7,)])
def test_refused_fields(fields: tuple[object, ...]) -> None:
    with pytest.raises(ls.InvalidError):
        lp.Briefing(*fields)  # type: ignore[arg-type]
