"""Forks: a session that begins with another one's past, and shares nothing with its future."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

import laser as ls
from laser.models import ModelSelection
from tests.session.talking import said, talk

pytestmark = pytest.mark.anyio

SESSIONS, ACTIVE = ls.AgentTopic.Sessions, "agent.active"


async def test_h14_neither_branch_sees_the_others_later_events(laser: ls.Laser) -> None:
    session = await laser.sessions().start("main", agent="planner")
    await talk(session, 2)
    fork = await session.fork(label="another way", agent="critic")
    before = await session.active.read()
    assert await fork.active.read() == before
    assert await said(fork) == await said(session) == ["question 0", "answer 0", "question 1", "answer 1"]

    await talk(session, 1, "main")
    await talk(fork, 1, "fork")
    common = ["question 0", "answer 0", "question 1", "answer 1"]
    assert await said(session) == [*common, "main 0", "answer 0"]
    assert await said(fork) == [*common, "fork 0", "answer 0"]
    ours, theirs = await session.active.read(), await fork.active.read()
    assert [one.text for one in ours.entries] == [*[one.text for one in before.entries], "main 0", "answer 0"]
    assert [one.text for one in theirs.entries] == [*[one.text for one in before.entries], "fork 0", "answer 0"]
    # Each state of the common past is there in both.
    for revision in range(before.revision + 1):
        assert (await fork.active.at(revision)).entries == (await session.active.at(revision)).entries

    status = await (await laser.sessions().open(fork.id)).status()
    assert (status.label, status.agent, status.parent, status.root) == ("another way", "critic", None, None)
    assert status.origin is not None
    assert (status.origin.session, status.origin.messages) == (session.id, 4)
    assert status.origin.revision == before.revision
    assert (await session.status()).origin is None
    assert {one.id for one in await laser.sessions().list()} == {session.id, fork.id}


async def test_copies_keep_their_provenance_and_know_where_they_are_from(laser: ls.Laser) -> None:
    root = await laser.sessions().start()
    child = await laser.sessions().start(parent=root)
    about = ls.Provenance(target_agent_id="coder", causal_parent="1:7", cost_usd=0.5, input_tokens=3)
    await child.scope().append(SESSIONS, b"", agent="planner", provenance=about)
    await child.scope().append(SESSIONS, b"\xff\x00", agent="coder")
    originals = await child.scope().fetch()
    fork = await child.fork()
    copies = await fork.scope().fetch()
    assert [one.payload for one in copies] == [b"", b"\xff\x00"]
    for original, copy in zip(originals, copies, strict=True):
        assert copy.provenance.conversation_id == fork.id
        for name in ("agent", "target_agent_id", "causal_parent", "cost_usd", "input_tokens"):
            assert getattr(copy.provenance, name) == getattr(original.provenance, name), name
        assert copy.record_id != original.record_id
        origin = await fork.origin_of(copy)
        assert origin == ls.MessageOrigin(child.id, original.partition, original.offset, original.timestamp_micros)
        assert await child.origin_of(original) is None
    # Who reads the tree of the original sees nothing twice.
    assert len(await laser.assemble_context(root.id, across_subconversations=True)) == 2
    again = await (await fork.fork()).scope().fetch()
    assert [one.payload for one in again] == [b"", b"\xff\x00"]


async def test_h15_at_a_message_and_at_a_checkpoint(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    await talk(session, 1)
    middle = await session.checkpoint([SESSIONS, ACTIVE])
    roughly = await session.checkpoint()
    state = await session.active.read()
    await talk(session, 2, "later")
    messages = await session.scope().fetch()
    for moment in (middle, roughly, messages[1]):
        fork = await session.fork(moment)
        assert await said(fork) == ["question 0", "answer 0"], moment
        context = await fork.active.read()
        if moment is not messages[1]:
            # The run ended after its last message was written: a checkpoint knows that, a message does not.
            assert context == state
        assert [one.text for one in context.entries] == [one.text for one in state.entries]
        await talk(fork, 1, "on")
        assert (await said(fork))[2:] == ["on 0", "answer 0"]
    assert await said(session) == [one.text for one in messages]


async def test_what_is_under_way_does_not_go_on(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    async with session.run([ls.NewEntry("user", b"go"), ls.NewEntry("skill", b"s", key="s", scope="run")]) as run:
        turn = await run.turn()
        fork = await session.fork()
        state = await fork.active.read()
        assert state.run is not None
        assert (state.run.state, state.is_idle) == ("cancelled", True)
        assert [one.text for one in state.entries] == ["go"], "what goes with a run ends with it"
        (detail,) = await fork.runs()
        assert (detail.state, [one.state for one in detail.turns]) == ("cancelled", ["failed"])
        await turn.finish([ls.NewEntry("assistant", b"done")])
    state = await session.active.read()
    started, proceed = anyio.Event(), anyio.Event()

    async def work(_: ls.ActiveState) -> None:
        started.set()
        await proceed.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.compact, work)
        await started.wait()
        other = await session.fork()
        context = await other.active.read()
        assert (context.pending, context.entries) == (None, state.entries)
        await other.active.add(context.revision, ls.NewEntry("user", b"free"))
        proceed.set()


async def test_refusals(laser: ls.Laser) -> None:
    session, other = await laser.sessions().start(), await laser.sessions().start()
    await other.scope().append(SESSIONS, "elsewhere")
    await session.scope().append(SESSIONS, "here")
    (foreign,) = await other.scope().fetch()
    for bad in (foreign, await session.checkpoint([ls.AgentTopic.Control]), "0:1"):
        with pytest.raises(ls.InvalidError, match=r"^at: "):
            await session.fork(bad)  # type: ignore[arg-type]
    with pytest.raises(ls.InvalidError, match=r"^label: "):
        await session.fork(label=" ")
    assert len(await laser.sessions().list()) == 2


async def test_a_fork_of_nothing(laser: ls.Laser) -> None:
    fork = await (await laser.sessions().start()).fork()
    assert await said(fork) == []
    assert (await fork.active.read()).revision == 0
    await talk(fork, 1)
    assert await said(await (await laser.sessions().open(fork.id)).fork()) == ["question 0", "answer 0"]


async def test_large_ones_go_over_in_batches(memory_laser: ls.Laser) -> None:
    session = await memory_laser.sessions().start()
    await session.scope().append_many(SESSIONS, [b"%d" % number for number in range(1_234)])
    await session.scope().append_many(SESSIONS, [b"x" * 3_000_000] * 3)
    fork = await session.fork()
    copies = await fork.scope().fetch(n=10_000)
    assert [one.payload for one in copies[:1_234]] == [b"%d" % number for number in range(1_234)]
    assert [len(one.payload) for one in copies[1_234:]] == [3_000_000] * 3


async def test_the_parents_retention_takes_nothing_from_a_fork(tmp_path: Path) -> None:
    async with small(tmp_path) as laser:
        session = await laser.sessions().start()
        await session.scope().append_many(SESSIONS, [b"%03d" % number * 3_000 for number in range(10)])
        want = await said(session)
        fork = await session.fork()
        await flood(laser, fork.id)
        with pytest.raises(ls.RetentionGapError, match="the beginning of the session is gone by retention"):
            await said(session)
        assert await said(fork) == want
        assert await said(await laser.sessions().open(fork.id)) == want


async def test_content_is_held_by_the_fork_too(tmp_path: Path) -> None:
    async with ls.Laser.connect(f"embedded:{tmp_path / 'data'}") as laser:
        for topic in (ls.AgentTopic.Control, SESSIONS):
            await laser.ensure_topic(topic)
        content = laser.content("acme", over=10)
        session = await laser.sessions().start()
        await session.scope().append(SESSIONS, "short")
        await session.scope().append(SESSIONS, "a long text that is kept as content", content=content)
        ref = await content.put("a plan of many pages", media_type="text/markdown")
        await session.keep(content, ref)
        await session.active.add(0, ls.NewEntry("instruction", ref=ref, key="plan"))
        with pytest.raises(ls.InvalidError, match=r"^content: the session refers to content"):
            await session.fork()
        with pytest.raises(ls.InvalidError, match=r"^content: "):
            await session.clone()
        fork = await session.fork(content=content)
        copies = await fork.scope().fetch(resolve=content)
        assert [one.text for one in copies] == ["short", "a long text that is kept as content"]
        clone = await session.clone(content=content)
        for one in (fork, clone):
            held = await content.held(f"session:{one.id}")
            assert ref.digest in held
            state = await one.active.read()
            assert state.entries[0].entry.ref == ref
            async with one.run([ls.NewEntry("user", b"hi")]) as run:
                turn = await run.turn()
                model = ModelSelection("p", "openai_responses", "m")
                with pytest.raises(ls.UnsupportedError, match="give resolve"):
                    await turn.request(model)
                request = await turn.request(model, resolve=content.get)
                assert b"a plan of many pages" in request.body
        assert len(await content.held(f"session:{fork.id}")) == 2


async def test_an_interrupted_fork_leaves_no_session(memory_laser: ls.Laser) -> None:
    """Cancelled at every step that it takes: there is a whole fork, or none."""
    session = await memory_laser.sessions().start()
    await talk(session, 2)
    for steps in range(10_000):
        done: list[ls.Session] = []
        known = len(await memory_laser.sessions().list())

        async def fork(done: list[ls.Session]) -> None:
            done.append(await session.fork())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fork, done)
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        now = await memory_laser.sessions().list()
        assert len(now) - known in ((1,) if done else (0, 1))
        if len(now) > known:
            assert await said(await memory_laser.sessions().open(now[0].id)) == await said(session)
        if done:
            break
    assert steps > 10


async def test_clones_have_the_setup_only(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    state = await session.active.add(
        0,
        ls.NewEntry("instruction", b"be brief", key="a"),
        ls.NewEntry("catalog", b"v1", key="tools"),
        ls.NewEntry("skill", b"pdf", key="pdf"),
    )
    await session.active.add(state.revision, ls.NewEntry("catalog", b"v2", key="tools"))
    async with session.run([ls.NewEntry("user", b"hi"), ls.NewEntry("skill", b"x", key="x", scope="run")]) as run:
        async with await run.turn() as turn:
            await turn.finish([ls.NewEntry("assistant", b"hello")])
        clone = await session.clone(label="fresh")
    context = await clone.active.read()
    assert [one.text for one in context.entries] == ["be brief", "pdf", "v2"]
    assert (context.run, await said(clone)) == (None, [])
    assert (await clone.status()).origin is None
    assert (await (await (await laser.sessions().start()).clone()).active.read()).entries == ()


async def test_a_parent_without_its_beginning_is_refused(tmp_path: Path) -> None:
    async with small(tmp_path) as laser:
        session = await laser.sessions().start()
        await session.scope().append_many(SESSIONS, [b"%03d" % number * 3_000 for number in range(10)])
        await session.fork()
        await flood(laser, session.id)
        left = [one.text for one in await session.scope().fetch()]
        assert 0 < len(left) < 10
        with pytest.raises(ls.RetentionGapError, match="is gone by retention"):
            await session.fork()
        assert len(await laser.sessions().list()) == 2
        fork = await session.fork(partial=True)
        assert [one.text for one in await fork.scope().fetch()] == left


def small(path: Path) -> AbstractAsyncContextManager[ls.Laser]:
    """A client on a log whose transcripts have little room."""

    @asynccontextmanager
    async def open_small() -> AsyncIterator[ls.Laser]:
        async with ls.Laser.connect(f"embedded:{path / 'data'}") as laser:
            await laser.ensure_topic(ls.AgentTopic.Control)
            await laser.ensure_topic(SESSIONS, partitions=1, retention=ls.TopicRetention(max_size=230_000))
            yield laser

    return open_small()


async def flood(laser: ls.Laser, session_id: str) -> None:
    """Writes to another conversation until retention has taken some of the oldest records."""
    other = laser.context(ls.new_conversation_id())
    for _ in range(200):
        (part,) = (await laser.topic(SESSIONS)).partitions
        if part.first:
            return
        await other.append(SESSIONS, b"x" * 2_000)
        await laser.topic(SESSIONS)
    raise AssertionError(f"nothing of {session_id} was taken")
