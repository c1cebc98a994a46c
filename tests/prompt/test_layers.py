"""Layers: identity first whatever the priority, fingerprints, and what the doctor says."""

from __future__ import annotations

import hashlib
import tomllib
from typing import Any

import pytest

import laser as ls
import laser.prompt as lp
from laser.prompt.doctor import EXTRAS
from tests.commands import ROOT
from tests.prompt.making import IDENTITY, TOOLS, builder, says, user

pytestmark = pytest.mark.anyio


async def test_identity_comes_first_whatever_the_priority() -> None:
    providers = [
        says("loud", "volatile", priority=1_000),
        says("quiet", "stable text", priority=-5, layer="identity"),
        says("soft", "more", priority=1),
    ]
    prompt = await builder(*providers).build()
    assert prompt.system_identity == f"{IDENTITY}\n\n{lp.FENCE_NOTICE}\n\nstable text"
    assert prompt.system_volatile == "<loud>\nvolatile\n</loud>\n\n<soft>\nmore\n</soft>"
    assert prompt.system == f"{prompt.system_identity}\n\n{prompt.system_volatile}"
    assert [section.category for section in prompt.sections] == ["identity", "fence", "quiet", "loud", "soft"]


async def test_the_order_does_not_depend_on_who_is_ready_first() -> None:
    names = [f"p{number}" for number in range(6)]
    providers = [says(name, name, priority=7) for name in names]
    prompts = [(await builder(*providers).build()).system for _ in range(3)]
    assert len(set(prompts)) == 1
    assert [prompts[0].index(f"<{name}>") for name in names] == sorted(prompts[0].index(f"<{name}>") for name in names)


async def test_a_volatile_provider_cannot_give_an_identity_fragment() -> None:
    class Sly(lp.BaseProvider):
        name = "sly"

        async def provide(self, turn: lp.TurnContext) -> list[lp.Fragment]:
            return [lp.Fragment("sly", f"now {len(turn.message)}", 200, "identity")]

    prompt = await builder(Sly()).build(message="hello")
    assert "now" not in prompt.system_identity
    assert "now 5" in prompt.system_volatile


async def test_hooks_keep_the_layers_consistent() -> None:
    prompt = await builder(says("x", "volatile")).build()
    changed = prompt.with_system("all new")
    assert (changed.system, changed.system_identity, changed.system_volatile) == ("all new", "all new", "")
    both = prompt.with_layers("stable", "not")
    assert (both.system, both.system_identity, both.system_volatile) == ("stable\n\nnot", "stable", "not")
    assert prompt.with_layers("stable", "").system == "stable"


async def test_cache_breakpoints_for_anthropic() -> None:
    marked = await builder(says("x", "volatile"), prompt_caching=True).build()
    first, second = marked.system_blocks()
    assert first["cache_control"] == {"type": "ephemeral"}
    assert (first["text"], second) == (marked.system_identity, {"type": "text", "text": marked.system_volatile})
    assert len((await builder(prompt_caching=True).build()).system_blocks()) == 1
    plain = await builder(says("x", "volatile")).build()
    assert all("cache_control" not in block for block in plain.system_blocks())
    alone = lp.PromptBuilder(
        None, [says("x", "volatile")], profile=lp.PromptProfile(fencing=False, prompt_caching=True)
    )
    blocks = (await alone.build()).system_blocks()
    assert [block.keys() for block in blocks] == [{"type", "text"}]
    assert (await plain_builder().build()).system_blocks() == []
    assert marked.chat_messages()[0] == {"role": "system", "content": marked.system}


def plain_builder() -> lp.PromptBuilder:
    return lp.PromptBuilder(None, [], profile=lp.PromptProfile(fencing=False))


async def test_fingerprints_are_sha256() -> None:
    prompt = await builder(says("memory", "m")).build(tools=TOOLS)
    found = prompt.trace.fingerprints
    assert found.identity == hashlib.sha256(prompt.system_identity.encode()).hexdigest()
    assert found.tools == hashlib.sha256(b"[" + b",".join(prompt.tools) + b"]").hexdigest()
    assert found.prefix == hashlib.sha256(f"{found.tools}{found.identity}".encode()).hexdigest()
    assert found.volatile == {"memory": hashlib.sha256(b"<memory>\nm\n</memory>").hexdigest()}


async def test_the_first_changed_part_is_named(laser: ls.Laser, scope: ls.ContextScope) -> None:
    skills: list[lp.Skill] = [lp.Skill("a", "first")]
    text = "one"
    tools: list[dict[str, Any]] = [dict(TOOLS[0])]

    async def listed(turn: lp.TurnContext) -> list[lp.Skill]:
        return skills

    async def volatile(turn: lp.TurnContext) -> str:
        return text

    def make() -> lp.PromptBuilder:
        providers = [lp.Identity("You are X."), lp.Skills(listed), lp.FunctionProvider("memory", volatile)]
        return lp.PromptBuilder(laser, providers, agent="bot")

    async def turn(made: lp.PromptBuilder | None = None) -> lp.PromptTrace:
        return (await (made or same).build(scope, "x", tools=tools)).trace

    same = make()
    first = await turn()
    assert first.invalidated is None
    text = "two"
    second = await turn()
    # A change of volatile material is no change of the prefix, and shows in its own digest.
    assert second.invalidated is None
    assert second.fingerprints.prefix == first.fingerprints.prefix
    assert second.fingerprints.volatile != first.fingerprints.volatile
    skills = [lp.Skill("a", "first"), lp.Skill("b", "second")]
    assert (await turn()).invalidated == "skills"
    tools[0]["description"] = "new"
    skills = []
    assert (await turn()).invalidated == "tools"
    skills = [lp.Skill("z", "back")]
    # Another process finds the turn before on the log.
    assert (await turn(make())).invalidated == "skills"
    assert (await turn(make())).invalidated is None
    other = lp.PromptBuilder(laser, [lp.Identity("You are Y.")], agent="other")
    assert (await other.build(scope, "x")).trace.invalidated is None
    traces = await lp.read_traces(scope)
    assert [trace.invalidated for trace in traces] == [None, None, "skills", "tools", "skills", None, None]


async def test_traces_on_the_log_hold_counts_only(laser: ls.Laser, scope: ls.ContextScope) -> None:
    memory = laser.memory("m")
    await memory.facts(customer="ann").set("secret", "canary-fact")
    await scope.append(ls.AgentTopic.Sessions, '{"role":"user","content":"canary-history"}')
    providers = [lp.Identity("canary-identity"), lp.History(), lp.MemoryFacts(memory), lp.Request()]
    made = lp.PromptBuilder(laser, providers, agent="bot")
    prompt = await made.build(scope, "canary-message", customer="ann", variables={"page": "canary-variable"})
    assert prompt.text.count("canary") == 5
    (record,) = await scope.fetch(topics=[ls.AgentTopic.Audit])
    assert b"canary" not in record.payload
    assert lp.decode_trace(record.payload) == prompt.trace
    assert sum(one.tokens for one in prompt.trace.categories) > 0
    await made.record_usage(prompt, lp.TraceUsage(100, 10, 80, 0))
    (trace,) = await lp.read_traces(scope)
    assert trace.usage == lp.TraceUsage(100, 10, 80, 0)
    with pytest.raises(ls.InvalidError, match="usage"):
        await made.record_usage(prompt, lp.TraceUsage(-1))
    await made.build(scope, "x", record=False)
    assert len(await lp.read_traces(scope)) == 1
    with pytest.raises(ls.InvalidError, match="without a log"):
        await builder().record_usage(await builder().build(), lp.TraceUsage())


@pytest.mark.parametrize("payload", [b'{"laser.prompt":2}', b'{"laser.prompt":1}', b'{"laser.prompt_usage":9}'])
def test_damaged_and_newer_traces(payload: bytes) -> None:
    with pytest.raises(ls.CodecError):
        lp.decode_trace(payload)
    assert lp.decode_trace(b"{}") is None
    assert lp.decode_trace(b"x") is None
    assert lp.decode_trace(b"[1]") is None


async def test_a_damaged_trace_holds_nobody_up(laser: ls.Laser, scope: ls.ContextScope) -> None:
    await laser.ensure_topic(ls.AgentTopic.Audit)
    await scope.append(ls.AgentTopic.Audit, '{"laser.prompt":1}')
    made = lp.PromptBuilder(laser, [lp.Identity("x")])
    await made.build(scope)
    assert len(await lp.read_traces(scope)) == 1


async def test_the_tail_is_the_last_before_the_current_message(laser: ls.Laser, scope: ls.ContextScope) -> None:
    briefing = lp.Briefing("size")
    made = lp.PromptBuilder(laser, [lp.History(), lp.Recitation(briefing)])
    tail = b"still missing: size"
    await scope.append(ls.AgentTopic.Sessions, '{"role":"user","content":"hello"}')
    # Not on the log yet; on the log already; told to be on the log; waiting for results.
    for message, place in (("new", -2), ("hello", -2), ("", -2)):
        prompt = await made.build(scope, message)
        assert [tail in one for one in prompt.messages].index(True) == len(prompt.messages) + place
        assert sum(b"hello" in one for one in prompt.messages) == 1
    await scope.append(ls.AgentTopic.Sessions, '{"role":"assistant","content":"hi"}')
    prompt = await made.build(scope, "hello")
    assert sum(b"hello" in one for one in prompt.messages) == 2
    assert tail in prompt.messages[-2]


async def test_explicit_history_is_the_callers(laser: ls.Laser, scope: ls.ContextScope) -> None:
    await scope.append(ls.AgentTopic.Sessions, '{"role":"user","content":"stored"}')
    made = lp.PromptBuilder(laser, [lp.History()])
    prompt = await made.build(scope, history=[user("given")])
    assert prompt.messages == (b'{"role":"user","content":"given"}',)


class _Volatile(lp.Request):
    layer = "identity"


async def test_the_doctor_finds_volatile_providers_declared_identity() -> None:
    made = lp.PromptBuilder(None, [lp.Identity("x"), lp.History(), _Volatile(), says("own", "x", layer="identity")])
    found = {(one.subject, one.level) for one in lp.check_builder(made)}
    assert ("request", "error") in found
    assert ("own", "warning") in found
    assert not {("identity", "error"), ("fence", "warning"), ("history", "warning")} & found


def test_the_doctor_on_other_settings() -> None:
    made = lp.PromptBuilder(
        None, [says("a", "x")], profile=lp.PromptProfile(lp.PromptBudget(900, 100), providers=["a", "nobody"])
    )
    found = {one.subject: one for one in lp.check_builder(made)}
    assert {"profile", "identity", "history", "budget", "tokens"} <= set(found)
    assert "nobody" in found["profile"].text
    assert all(one.advice for one in found.values())
    assert lp.check_compaction(lp.CompactionSettings(), summarizer=None)[0].subject == "compaction"
    assert lp.check_compaction(None, summarizer=None) == []


def test_the_doctor_knows_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS) == set(extras) - {"bench", "fuzz", "lint", "test", "testing"}
    assert all(one.advice.startswith("pip install") for one in lp.check_extras())
