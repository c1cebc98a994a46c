# pyright: strict
"""Not run: what a user writes, and the types that every checker must see in it (mypy --strict, pyright strict)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import assert_type

import laser as ls
from laser import models


async def connects() -> None:
    client = await ls.Laser.connect("memory:", stream="app")
    assert_type(client, ls.Laser)
    await client.aclose()
    async with ls.Laser.connect() as laser:
        assert_type(laser, ls.Laser)
        retention = ls.TopicRetention(expire_after=timedelta(days=30))
        assert_type(await laser.bootstrap(partitions=4, retention=retention), list[ls.TopicInfo])
        assert_type(await laser.topics(), tuple[ls.TopicInfo, ...])
        assert_type(await laser.info(), ls.EngineInfo)


async def converses(laser: ls.Laser) -> None:
    ctx = laser.context(ls.new_conversation_id())
    assert_type(ctx, ls.ContextScope)
    assert_type(await ctx.append(ls.AgentTopic.Sessions, b"bytes"), ls.AppendReceipt)
    assert_type(await ctx.append("own.topic", "text", agent="planner", id=7), ls.AppendReceipt)
    assert_type(await ctx.append_many(ls.AgentTopic.Sessions, ["a", b"b"]), list[ls.AppendReceipt])
    messages = await ctx.fetch(topics=[ls.AgentTopic.Sessions], n=5, token_budget=100)
    assert_type(messages, ls.Messages)
    assert_type(messages[0], ls.ContextMessage)
    assert_type(messages[0].payload, bytes)
    assert_type(messages[0].provenance.agent, str | None)
    assert_type(messages.skipped, tuple[ls.SkippedRecord, ...])
    assert_type(await ctx.block(n=3), str)
    before = await ctx.checkpoint()
    assert_type(before, ls.Checkpoint)
    assert_type(await laser.assemble_context(ctx.conversation, from_checkpoint=before), ls.Messages)


class Short:
    """A policy of a user's own, by shape alone."""

    name = "short"
    version = "1"

    def selection(self, history: Sequence[ls.ContextMessage]) -> ls.Selection:
        return ls.Selection(list(history[:1]), list(history[1:]), self.name)


def newest(messages: list[ls.ContextMessage]) -> list[ls.ContextMessage]:
    return messages[-1:]


def count(message: ls.ContextMessage) -> int:
    return len(message.payload)


async def selects(ctx: ls.ContextScope) -> None:
    budget = ls.TokenBudget(100, estimator=count)
    chain = ls.Chain([Short(), newest, budget, ls.RoleFilter(["user"]), ls.ChatRoles({"user"}), ls.ToolPairs()])
    assert_type(await ctx.fetch_with(["own.topic"], chain), ls.Messages)
    assert_type(await ctx.fetch_with(["own.topic"], newest), ls.Messages)
    assert_type(chain.selection([]), ls.Selection)


async def folds(ctx: ls.ContextScope) -> None:
    def tally(total: int, message: ls.ContextMessage) -> int:
        return total + len(message.payload)

    assert_type(await ctx.state([ls.AgentTopic.Sessions], 0, tally, full=True), int)


async def relates(laser: ls.Laser, ctx: ls.ContextScope) -> None:
    graph = ctx.graph("people")
    assert_type(graph, ls.Graph)
    assert_type(laser.graph("people"), ls.Graph)
    alice = ls.Node("Person", "Alice", {"age": 30})
    edge = ls.Edge.between(alice, "knows", "Person:Bob", valid_from=datetime.now(UTC), valid_to=None)
    assert_type(edge.valid_from, int | None)
    await graph.upsert([alice, "Person:Bob"], [edge], source=(await ctx.fetch())[0])
    assert_type(await graph.link(alice, "knows", "Person:Bob"), str)
    assert_type(await graph.unlink(alice, "knows", "Person:Bob"), bool)
    assert_type(await graph.relink(alice, "knows", "Person:Bob", at=5), int)
    assert_type(await graph.node(alice.id), ls.Node | None)
    assert_type(await graph.find("Person"), list[ls.Node])
    hits = await graph.neighbors(alice, "both", depth=2)
    assert_type(hits, list[ls.GraphHit])
    assert_type(hits[0].edge.asserted, ls.GraphAssertion | None)
    hops: list[ls.Hop | str] = ["knows", ls.Hop("knows", "in", label="Person")]
    assert_type(await graph.traverse(alice, hops), list[ls.Node])
    assert_type(await graph.traverse([alice], hops, returns="edges"), list[ls.Edge])
    assert_type(await graph.traverse(alice.id, hops, returns="paths"), list[ls.GraphPath])
    assert_type(await graph.traverse(alice, hops, returns="triplets"), list[ls.Triplet])
    assert_type(await graph.export(), ls.GraphExport)


class Words:
    """An embedder and a reranker of a user's own, by shape alone."""

    model = "words-1"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[float(len(text))] for text in texts]

    async def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        return [float(query in text) for text in texts]


def shortest(bodies: list[bytes]) -> bytes:
    return min(bodies)


async def remembers(laser: ls.Laser, ctx: ls.ContextScope) -> None:
    embedder: ls.Embedder = Words()
    reranker: ls.Reranker = Words()
    kind: ls.MemoryKind = "message"
    notes = laser.memory_with("notes", embedder=embedder, rerank=ls.Rerank(reranker, top_k=5))
    assert_type(notes, ls.Memory)
    assert_type(laser.memory("notes"), ls.Memory)
    scoped = ctx.memory("notes")
    assert_type(scoped, ls.ScopedMemory)
    assert_type(ctx.memory(notes).handle, ls.Memory)
    assert_type(await scoped.remember("text", kind=kind, dedup=True, user="u"), str)
    found = await notes.recall("text", strategy="hybrid", user="u", limit=3)
    assert_type(found, list[ls.MemoryItem])
    assert_type(found[0].body, bytes)
    assert_type(found[0].score, float | None)
    assert_type(await notes.search("text"), list[ls.MemoryItem])
    assert_type(await notes.get(found[0].id), ls.MemoryItem | None)
    assert_type(await scoped.block(500), str)
    assert_type(await notes.improve(found[0].id, 1.0), str)
    await notes.forget(found[0].id)
    assert_type(await notes.clear(user="u"), int)
    assert_type(await notes.consolidate(10, summarizer=shortest), ls.ConsolidationReport)
    facts = notes.facts(tenant="t", customer="c")
    assert_type(facts, ls.FactCell)
    assert_type(await facts.set("k", "v", expires_at=datetime.now(UTC)), str)
    assert_type(await facts.get("k"), ls.Fact | None)
    assert_type(await facts.history("k"), list[ls.Fact])
    assert_type(await notes.sweep(), int)
    assert_type(await notes.rebuild(), int)


async def turns(laser: ls.Laser) -> None:
    session = await laser.sessions().start(agent="planner")
    state = await session.active.add(0, ls.NewEntry("instruction", b"be brief", key="tone"))
    assert_type(state, ls.ActiveState)
    assert_type(state.entries, tuple[ls.ContextEntry, ...])
    assert_type(state.entries[0].entry.visible(), str)
    assert_type(await session.active.edit(1, [ls.Remove(1), ls.Add(ls.NewEntry("user", b"hi"))]), ls.ActiveState)
    async with session.run([ls.NewEntry("user", b"hi")], api="openai_responses") as run:
        assert_type(run, ls.Run)
        async with await run.turn() as turn:
            assert_type(turn, ls.Turn)
            model = models.ModelSelection("openai", "openai_responses", "gpt-5")
            request = await turn.request(model, open_calls="answer")
            assert_type(request, models.LoweredRequest)
            reply = models.parse_reply("openai_responses", b"{}")
            assert_type(await turn.finish_reply(reply, content=laser.content("acme")), ls.ActiveState)
            assert_type(await turn.finish([], {"input_tokens": 1}), ls.ActiveState)

    async def account(seen: ls.ActiveState) -> ls.Account | None:
        return ls.Account([one.id for one in ls.compactable(seen.entries)], [ls.NewEntry("summary", b"so far")])

    assert_type(await session.compact(account, mode="provider_standalone"), ls.ActiveState)
    assert_type(ls.compaction_due(state, 1_000), bool)
    found = await session.discover(ls.Directory("."))
    assert_type(found, ls.Discovery)
    assert_type(await session.activate([ls.Directory(".")], found.skills[0], scope="session"), ls.ActiveState)
    page = await session.transcript(limit=10)
    assert_type(page.messages, tuple[ls.ContextMessage, ...])
    assert_type(page.older, str | None)
    assert_type(session.run(seen=state.revision, after=page.messages[0]), ls.Run)
    assert_type(session.run(after=await session.checkpoint()), ls.Run)
    fork = await session.fork(page.messages[0], label="x")
    assert_type(fork, ls.Session)
    assert_type(await fork.origin_of(page.messages[0]), ls.MessageOrigin | None)
    assert_type((await fork.status()).origin, ls.ForkOrigin | None)
    assert_type(await session.clone(), ls.Session)
    assert_type((await session.read()).context, ls.ActiveState)
    assert_type(await session.read_run(run.id), ls.RunDetail)
    assert_type((await session.runs())[0].turns, tuple[ls.TurnDetail, ...])


async def keeps_content(laser: ls.Laser, ctx: ls.ContextScope) -> None:
    content = laser.content("acme", over=1_000)
    assert_type(content, ls.Content)
    ref = await content.put(b"bytes", media_type="image/png", children=["0" * 64])
    assert_type(ref, ls.ContentRef)
    assert_type(await content.get(ref, start=1), bytes)
    async for chunk in content.stream(ref.digest):
        assert_type(chunk, bytes)
    assert_type(await content.head(ref), ls.ContentHead)
    assert_type(await content.release("holder"), int)
    entry = await content.entry(ref, kind="image", provenance_ref=ref)
    assert_type(entry, ls.ContentEntry)
    assert_type(await ctx.append_content("own.topic", entry, content=content), ls.AppendReceipt)
    assert_type(await ctx.append("own.topic", "text", content=content), ls.AppendReceipt)
    messages = await ctx.fetch(resolve=content)
    assert_type(messages[0].content, ls.ContentEntry | None)
    assert_type(await content.collect(dry_run=True), ls.CollectReport)
    assert_type(await laser.collect_content(grace=60), ls.CollectReport)
