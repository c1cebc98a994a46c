"""Memory, knowledge, skills, deferred tools."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

import laser as ls
import laser.prompt as lp
from tests.prompt.making import builder

pytestmark = pytest.mark.anyio


async def test_memory_facts_and_notes(laser: ls.Laser, scope: ls.ContextScope) -> None:
    memory = laser.memory("support")
    cell = memory.facts(tenant="shop", customer="ann")
    await cell.set("size", "M")
    await cell.set("old", "gone", expires_at=datetime(2020, 1, 1, tzinfo=UTC))
    await memory.facts(tenant="shop", customer="bob").set("size", "XXL")
    await memory.remember("prefers parcels on Friday", user="ann", application="shop")
    await memory.remember("a note about bob", user="bob", application="shop")
    made = lp.PromptBuilder(laser, [lp.MemoryFacts(memory)])
    prompt = await made.build(scope, "hi", tenant="shop", customer="ann")
    assert prompt.system_volatile == "<memory>\nsize: M\n- prefers parcels on Friday\n</memory>"
    # Also in a new session, and not for anybody else.
    other = laser.context(ls.new_conversation_id())
    assert "size: M" in (await made.build(other, "hi", tenant="shop", customer="ann")).system
    assert (await made.build(other, "hi", tenant="other", customer="ann")).system_volatile == ""
    assert (await made.build(other, "hi")).system_volatile == ""
    plain = lp.PromptBuilder(laser, [lp.MemoryFacts(memory, notes=0)])
    assert "Friday" not in (await plain.build(scope, "hi", tenant="shop", customer="ann")).system


async def test_without_a_customer_the_session_is_the_cell(laser: ls.Laser, scope: ls.ContextScope) -> None:
    memory = laser.memory("support")
    await memory.facts(session=scope.conversation).set("topic", "returns")
    made = lp.PromptBuilder(laser, [lp.MemoryFacts(memory)])
    assert "topic: returns" in (await made.build(scope, "hi")).system
    assert "returns" not in (await made.build(laser.context(ls.new_conversation_id()), "hi")).system


async def test_notes_selected_by_the_message(laser: ls.Laser, scope: ls.ContextScope) -> None:
    memory = laser.memory("support")
    for number in range(30):
        await memory.remember(f"note {number} about shoes", user="ann")
    await memory.remember("the garden gate code is 4711", user="ann")
    for number in range(30):
        await memory.remember(f"note {number} about hats", user="ann")
    made = lp.PromptBuilder(laser, [lp.MemoryFacts(memory, notes=3, select=True)])
    assert "4711" in (await made.build(scope, "what was the garden gate code?", customer="ann")).system
    assert "4711" not in (await made.build(scope, "", customer="ann")).system


@pytest.fixture
def garden(tmp_path: Path) -> Path:
    (tmp_path / "returns.md").write_text("# Returns\n\nWithin 30 days. See [[refunds]] and [[no such]].\n")
    (tmp_path / "refunds.md").write_text("Paid back within a week.\n\nSee [[taxes|the taxes]].\n")
    (tmp_path / "taxes.md").write_text("What the state takes.\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "shoes.md").write_text("How shoes are measured.\n")
    (tmp_path / "large.md").write_text("returns " * 10_000)
    (tmp_path / "link.md").symlink_to(tmp_path / "returns.md")
    return tmp_path


async def test_knowledge_of_a_directory(garden: Path) -> None:
    made = builder(lp.Knowledge(lp.DirectoryKnowledge(garden), top_k=1))
    prompt = await made.build(message="May I ask about returns?")
    # The match, and what it links to: one hop, not two.
    assert prompt.system_volatile == (
        "<knowledge>\nreturns: Within 30 days. See [[refunds]] and [[no such]].\n"
        "refunds: Paid back within a week.\n</knowledge>"
    )
    assert (await made.build(message="nothing of that")).system_volatile == ""
    assert (await made.build(message="")).system_volatile == ""
    (garden / "returns.md").write_text("Within 60 days.\n")
    assert "60 days" in (await made.build(message="returns")).system
    (garden / "returns.md").unlink()
    (garden / "refunds.md").unlink()
    assert (await made.build(message="returns")).system_volatile == ""


async def test_knowledge_of_a_graph(laser: ls.Laser, scope: ls.ContextScope) -> None:
    graph = laser.graph("people")
    await graph.upsert(
        [ls.Node("Person", "Alice", {"role": "lead"}), "Company:Acme", "City:Oslo"],
        [
            ls.Edge.between("Person:Alice", "works_at", "Company:Acme"),
            ls.Edge.between("Company:Acme", "located_in", "City:Oslo"),
        ],
    )
    made = lp.PromptBuilder(laser, [lp.Knowledge(lp.GraphKnowledge(graph))])
    prompt = await made.build(scope, "who is Alice?")
    assert prompt.system_volatile == "<knowledge>\nAlice: Person: role lead\nAcme: Company\n</knowledge>"
    await graph.unlink("Person:Alice", "works_at", "Company:Acme")
    assert "Acme" not in (await made.build(scope, "who is Alice?")).system


class Backwards:
    def __init__(self, *, fails: bool = False) -> None:
        self.seen: list[str] = []
        self.fails = fails

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        self.seen = [query, *texts]
        if self.fails:
            raise RuntimeError("down")
        return list(range(len(texts)))


class Listed:
    async def concepts(self, turn: lp.TurnContext) -> Sequence[lp.Concept]:
        return [
            lp.Concept("apples", "fruit apples", "password: hunter22-very-secret"),
            lp.Concept("pears", "fruit"),
            lp.Concept("bolts", "metal"),
        ]

    async def linked(self, concept: lp.Concept) -> Sequence[lp.Concept]:
        return []


async def test_a_reranker_reorders_matches_only() -> None:
    judge = Backwards()
    made = builder(lp.Knowledge(Listed(), top_k=1, rerank=judge))
    assert "pears" in (await made.build(message="apples fruit")).system
    assert len(judge.seen) == 3
    assert "hunter22" not in "".join(judge.seen)
    failing = builder(lp.Knowledge(Listed(), top_k=1, rerank=Backwards(fails=True)))
    assert "apples" in (await failing.build(message="apples fruit")).system


async def test_skills() -> None:
    skills = [
        lp.Skill("returns", "how returns\nwork", "the whole text of returns", triggers=["send back", "返品"]),
        lp.Skill("always", "never listed", "the whole text of always", eager=True),
        lp.Skill("alpha", "first by name"),
    ]
    made = builder(lp.Skills(skills), lp.ActiveSkills(skills), lp.ToolSearch({"z": "last", "a": "first"}))
    prompt = await made.build(message="hello")
    assert (
        "<available_skills>\nalpha: first by name\nreturns: how returns work\n</available_skills>"
        in prompt.system_identity
    )
    assert "<available_tools>\na: first\nz: last\n</available_tools>" in prompt.system_identity
    assert prompt.system_volatile == "<active_skill>\nalways\nthe whole text of always\n</active_skill>"
    for message, active in (("May I SEND BACK this?", True), ("返品したい", True), ("I send backpacks", False)):
        assert ("text of returns" in (await made.build(message=message)).system) == active


async def test_what_was_discovered(tmp_path: Path) -> None:
    (tmp_path / ".agents/prompts").mkdir(parents=True)
    (tmp_path / ".agents/prompts/instructions.md").write_text("Write short sentences.")
    (tmp_path / ".agents/skills/notes").mkdir(parents=True)
    (tmp_path / ".agents/skills/notes/SKILL.md").write_text("---\nname: notes\ndescription: Release notes.\n---\nBody.")
    found = await ls.discover(ls.Directory(tmp_path))
    made = lp.PromptBuilder(
        None, [lp.Identity("You are X.", *lp.discovered_texts(found)), lp.Skills(lp.discovered_skills(found))]
    )
    prompt = await made.build(message="hi")
    assert prompt.system_identity.startswith("You are X.\n\nWrite short sentences.")
    assert "<available_skills>\nnotes: Release notes.\n</available_skills>" in prompt.system_identity
    hidden = lp.PromptBuilder(None, [lp.Skills(lp.discovered_skills(found, eager=["notes"]))])
    assert "notes" not in (await hidden.build()).system


async def test_request_variables_leave_first() -> None:
    made = builder(lp.Request(), lp.History(), tokens=250)
    history = [{"role": "user", "content": "x" * 200}]
    prompt = await made.build(variables={"page": "y" * 600}, tenant="t", history=history)
    assert [one.category for one in prompt.trace.evicted] == ["request"]
    assert len(prompt.messages) == 1


def test_refused_settings(tmp_path: Path) -> None:
    for make in (
        lambda: lp.DirectoryKnowledge(tmp_path / "absent"),
        lambda: lp.Knowledge(object()),  # type: ignore[arg-type]
        lambda: lp.Knowledge(Listed(), top_k=-1),
        lambda: lp.Knowledge(Listed(), rerank=object()),  # type: ignore[arg-type]
        lambda: lp.MemoryFacts("support"),  # type: ignore[arg-type]
        lambda: lp.BriefingKnown("size"),  # type: ignore[arg-type]
        lambda: lp.Identity(7),  # type: ignore[arg-type]
        lambda: lp.PromptProfile(8_000),  # type: ignore[arg-type]
        lambda: lp.PromptProfile(providers="identity"),
        lambda: lp.FunctionProvider("A b", lambda turn: None),  # type: ignore[arg-type,return-value]
        lambda: lp.FunctionProvider("ab", 7),  # type: ignore[arg-type]
        lambda: lp.FunctionProvider("ab", print, layer="x"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ls.InvalidError):
            make()


async def test_a_provider_without_provide(caplog: pytest.LogCaptureFixture) -> None:
    class Empty(lp.BaseProvider):
        name = "empty"

    with caplog.at_level(logging.WARNING):
        prompt = await builder(Empty()).build()
    assert prompt.trace.warnings == ("empty failed and is left out",)
