"""D5: several runners on one session. One has it, the others are told before they write anything."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import laser as ls

pytestmark = pytest.mark.anyio

SESSIONS = ls.AgentTopic.Sessions


@asynccontextmanager
async def opened(laser: ls.Laser, engine_url: str, session: str) -> AsyncIterator[ls.Session]:
    """The session through a client of its own; a log in memory belongs to one client."""
    if engine_url == "memory:":
        yield await laser.sessions().open(session)
        return
    async with ls.Laser.connect(engine_url, stream=laser.stream) as other:
        yield await other.sessions().open(session)


async def texts(session: ls.Session) -> list[str]:
    return [message.text for message in await session.scope().fetch()]


async def test_the_second_of_two_runners_is_refused(laser: ls.Laser, engine_url: str) -> None:
    mine = await laser.sessions().start()
    await mine.scope().append(SESSIONS, "question", agent="user")
    async with opened(laser, engine_url, mine.id) as theirs:
        (last,) = await mine.scope().fetch()
        where = await theirs.checkpoint()
        async with mine.run([ls.NewEntry("user", b"question")], after=last, seen=0):
            with pytest.raises(ls.BusyError):
                await theirs.run(after=where).start()
            await mine.scope().append(SESSIONS, "my answer", agent="model")
        before = await theirs.active.read()
        for after in (last, where):
            with pytest.raises(ls.ConflictError, match=r"message .* came after what was seen") as caught:
                async with theirs.run([ls.NewEntry("user", b"question")], after=after):
                    raise AssertionError("it began")
            assert not isinstance(caught.value, ls.BusyError)
        with pytest.raises(ls.ConflictError, match="the run saw revision 0, the context is at 1"):
            await theirs.run([ls.NewEntry("user", b"question")], seen=0).start()
        assert await theirs.active.read() == before
        assert await texts(theirs) == ["question", "my answer"]
        newest = (await theirs.scope().fetch())[-1]
        for after in (newest, await theirs.checkpoint()):
            async with theirs.run(after=after, seen=before.revision):
                pass
        assert (await mine.active.read()).runs == 3


async def test_a_run_between_the_look_and_the_start_is_noticed(memory_laser: ls.Laser) -> None:
    """The other run came and went after the look at the conversation, and before the start was on the log."""
    session = await memory_laser.sessions().start()
    await session.scope().append(SESSIONS, "question", agent="user")
    (last,) = await session.scope().fetch()
    other = await memory_laser.sessions().open(session.id)
    late = session.run(after=last)
    look = late._unmoved
    assert look is not None

    async def look_and_wait() -> None:
        await look()
        async with other.run(after=last):
            await other.scope().append(SESSIONS, "answer", agent="model")

    late._unmoved = look_and_wait
    with pytest.raises(ls.ConflictError, match="another run was there meanwhile"):
        await late.start()
    assert await texts(session) == ["question", "answer"]
    assert (await session.active.read()).runs == 1


async def test_runners_at_once_make_one_chain(laser: ls.Laser, engine_url: str) -> None:
    """Each message names the one that its writer saw last: nobody wrote past what it saw."""
    mine = await laser.sessions().start()
    lost = ready = 0
    all_ready = anyio.Event()

    async def work(session: ls.Session, name: str) -> None:
        nonlocal lost, ready
        written = 0
        while written < 3:
            where = await session.checkpoint()
            # What this sees beyond the checkpoint only makes it lose.
            seen = await texts(session)
            ready += 1
            if ready == 4:
                all_ready.set()
            await all_ready.wait()
            try:
                async with session.run(after=where):
                    said = f"{name}{written} after {seen[-1].split()[0] if seen else 'nothing'}"
                    await session.scope().append(SESSIONS, said, agent=name)
                    await anyio.lowlevel.checkpoint()
                    await session.scope().append(SESSIONS, f"{said} done", agent=name)
                written += 1
            except ls.ConflictError:
                lost += 1

    async with opened(laser, engine_url, mine.id) as theirs, anyio.create_task_group() as tasks:
        for session, name in ((mine, "a"), (theirs, "b"), (mine, "c"), (theirs, "d")):
            tasks.start_soon(work, session, name)
    found = await texts(mine)
    assert len(found) == 24
    last = "nothing"
    for said, done in zip(found[::2], found[1::2], strict=True):
        assert done == f"{said} done", "another runner's message lies between"
        assert said.endswith(f"after {last}")
        last = said.split()[0]
    assert lost >= 3, "all began with one look, and one of them had it"


async def test_before_there_is_a_conversation() -> None:
    async with ls.Laser.connect("memory:") as laser:
        await laser.ensure_topic(ls.AgentTopic.Control)
        session = await laser.sessions().start()
        nothing = await session.checkpoint()
        async with session.run(after=nothing):
            await laser.ensure_topic(SESSIONS, partitions=2)
            await session.scope().append(SESSIONS, "first")
        with pytest.raises(ls.ConflictError, match="came after what was seen"):
            await session.run(after=nothing).start()


async def test_bad_arguments(memory_laser: ls.Laser) -> None:
    session, other = await memory_laser.sessions().start(), await memory_laser.sessions().start()
    await other.scope().append(SESSIONS, "hello")
    (foreign,) = await other.scope().fetch()
    await session.scope().append(ls.AgentTopic.Audit, "note")
    (note,) = await session.scope().fetch(topics=[ls.AgentTopic.Audit])
    bad: list[Any] = [foreign, note, await session.checkpoint([ls.AgentTopic.Audit]), 7, "now"]
    for after in bad:
        with pytest.raises(ls.InvalidError, match="after:"):
            session.run(after=after)
    for seen in (-1, True, "1", 2**63):
        with pytest.raises(ls.InvalidError, match="seen:"):
            session.run(seen=seen)  # type: ignore[arg-type]
    async with other.run(after=foreign):
        pass
    where = await other.checkpoint()
    await memory_laser.open_log().purge(memory_laser.stream, SESSIONS)
    with pytest.raises(ls.ConflictError, match=r"is not on 'agent\.sessions' any more"):
        await other.run(after=foreign).start()
    with pytest.raises(ls.StaleCheckpointError):
        await other.run(after=where).start()
    async with other.run(after=await other.checkpoint()):
        # At the same place, and yet another message.
        await other.scope().append(SESSIONS, "hello")
    (again,) = await other.scope().fetch()
    assert (again.partition, again.offset) == (foreign.partition, foreign.offset)
    with pytest.raises(ls.ConflictError, match="came after what was seen"):
        await other.run(after=foreign).start()
