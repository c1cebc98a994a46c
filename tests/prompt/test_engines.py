"""Prompts on every engine: what is noted by one client is in the prompt of another."""

from __future__ import annotations

import json

import pytest

import laser as ls
import laser.prompt as lp
from laser.ports.summarizer import Summary, SummaryRequest
from tests.prompt.making import contents, user

pytestmark = pytest.mark.anyio


class Scribe:
    async def summarize(self, request: SummaryRequest) -> Summary:
        return Summary(f"{len(request.text.split('question')) - 1} questions")


async def test_a_turn_on_every_engine(engine_url: str, stream_name: str) -> None:
    briefing = lp.Briefing("size", "budget")
    async with ls.Laser.connect(engine_url, stream=stream_name) as laser:
        for topic in (ls.AgentTopic.Sessions, ls.AgentTopic.Control):
            await laser.ensure_topic(topic)
        session = await laser.sessions().start("x")
        scope = session.scope()
        await scope.append_many(ls.AgentTopic.Sessions, [json.dumps(user(f"question {n}")) for n in range(30)])
        await briefing.update(laser, scope, "size", "M")
        await laser.memory("m").facts(customer="ann").set("city", "Oslo")

        async def build(client: ls.Laser) -> lp.BuiltPrompt:
            providers = [
                lp.Identity("x"),
                lp.History(),
                lp.MemoryFacts(client.memory("m")),
                lp.BriefingKnown(briefing),
                lp.Recitation(briefing),
            ]
            builder = lp.PromptBuilder(client, providers, agent="bot")
            return await builder.build(client.context(scope.conversation), "and now?", customer="ann")

        first = await build(laser)
        assert len(first.messages) == 32
        assert "size: M" in first.system
        assert "city: Oslo" in first.system
        settings = lp.CompactionSettings(compact_after=20, keep_last=10)
        assert await lp.SessionCompactor(laser, Scribe(), settings).compact(session.scope()) is not None
        second = await build(laser)
        assert contents(second)[0].startswith("<conversation_summary>\n[laser: summary of the conversation so far")
        assert len(second.messages) == 13
        if engine_url != "memory:":
            async with ls.Laser.connect(engine_url, stream=stream_name) as another:
                third = await build(another)
                assert (third.system, third.messages) == (second.system, second.messages)
                assert third.trace.invalidated is None
        assert second.trace.invalidated is None
        traces = await lp.read_traces(scope)
        assert [trace.history.summarised for trace in traces][:2] == [0, 20]
