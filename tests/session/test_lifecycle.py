"""Sessions: a recorded lifecycle, of which exactly one end counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

import laser as ls

pytestmark = pytest.mark.anyio

CONTROL = ls.AgentTopic.Control


async def test_start_and_status(laser: ls.Laser) -> None:
    session = await laser.sessions().start("Ticket 7 · größer", agent="planner")
    status = await session.status()
    assert status == ls.SessionStatus(
        id=session.id,
        label="Ticket 7 · größer",
        agent="planner",
        started_at_micros=status.started_at_micros,
    )
    assert status.state == "running"
    assert status.started_at_micros > 0
    assert (session.parent, session.root) == (None, None)
    assert repr(session) == f"Session({session.id!r})"
    bare = await laser.sessions().start()
    assert (await bare.status()).label is None
    assert bare.id != session.id


async def test_its_scope_is_the_conversation_of_its_id(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    await session.scope().append(ls.AgentTopic.Sessions, "hello", agent="planner")
    assert await laser.context(session.id).block() == "hello"
    assert (await session.checkpoint()) == await laser.context(session.id).checkpoint()
    assert (await session.checkpoint([CONTROL])).topics().keys() == {CONTROL}


@pytest.mark.parametrize(
    ("finish", "state", "error"),
    [
        (lambda session: session.end(), "ended", None),
        (lambda session: session.cancel(), "cancelled", None),
        (lambda session: session.fail("no more tokens"), "failed", "no more tokens"),
        (lambda session: session.fail({"code": 7, "at": [1, None]}), "failed", {"code": 7, "at": [1, None]}),
        (
            lambda session: session.fail(ValueError("bad \ud800 text")),
            "failed",
            {"type": "ValueError", "message": "bad ? text"},
        ),
        (lambda session: session.fail(None), "failed", None),
    ],
    ids=["end", "cancel", "text", "json", "exception", "nothing"],
)
async def test_each_end(
    laser: ls.Laser, finish: Callable[[ls.Session], Awaitable[ls.SessionStatus]], state: str, error: Any
) -> None:
    session = await laser.sessions().start(agent="planner")
    status = await finish(session)
    assert (status.state, status.error) == (state, error)
    assert status.finished_at_micros is not None
    assert status.finished_at_micros >= status.started_at_micros
    assert status.decided_by is not None
    assert await session.status() == status
    before = (await laser.topic(CONTROL)).records
    assert await finish(session) == status, "the same end again is no error, and writes nothing"
    assert (await laser.topic(CONTROL)).records == before
    others = {"ended": session.end, "cancelled": session.cancel, "failed": lambda: session.fail("late")}
    for other, call in others.items():
        if other != state:
            with pytest.raises(ls.ConflictError, match=f"finished as {state} before it could be {other}"):
                await call()
    assert await session.status() == status
    # The conversation itself stays usable: the end is a fact about it, no lock.
    await session.scope().append(ls.AgentTopic.Sessions, "a last word")


async def test_d5_of_eight_ends_at_once_exactly_one_wins(laser: ls.Laser) -> None:
    """D5: the losing writers are told."""
    session = await laser.sessions().start()
    opened = [await laser.sessions().open(session.id, agent=f"agent-{number}") for number in range(8)]
    ends = [lambda one: one.end(), lambda one: one.cancel(), lambda one: one.fail("gone"), lambda one: one.fail("lost")]
    won: list[ls.SessionStatus] = []
    lost: list[ls.ConflictError] = []

    async def finish(number: int) -> None:
        try:
            won.append(await ends[number % 4](opened[number]))
        except ls.ConflictError as error:
            lost.append(error)

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(finish, number)
    assert len(won) + len(lost) == 8
    status = await session.status()
    assert won
    assert all(one == status for one in won)
    assert len(lost) >= 4, "two agents asked for each end but the winning one"
    assert all(f"finished as {status.state} before" in str(error) for error in lost)
    assert await (await laser.sessions().open(session.id)).status() == status


async def test_parents_and_roots(laser: ls.Laser) -> None:
    sessions = laser.sessions()
    root = await sessions.start("root")
    child = await sessions.start("child", parent=root)
    grandchild = await sessions.start("grandchild", parent=child.id.lower())
    assert (child.parent, child.root) == (root.id, root.id)
    assert (grandchild.parent, grandchild.root) == (child.id, root.id)
    again = await sessions.open(grandchild.id)
    assert (again.parent, again.root) == (child.id, root.id)
    status = await again.status()
    assert (status.parent, status.root) == (child.id, root.id)

    await root.scope().append(ls.AgentTopic.Sessions, "of the root")
    await again.scope().append(ls.AgentTopic.Sessions, "of the grandchild", agent="helper")
    (message,) = await grandchild.scope().fetch()
    assert message.provenance.parent_conversation_id == child.id
    assert message.provenance.root_conversation_id == root.id
    assert message.provenance.agent == "helper"
    found = await laser.assemble_context(root.id, across_subconversations=True)
    assert [one.text for one in found] == ["of the root", "of the grandchild"]
    assert [one.text for one in await root.scope().fetch()] == ["of the root"]

    # A provenance of the caller's own goes before the session's.
    own = ls.Provenance(parent_conversation_id=root.id)
    await again.scope().append(ls.AgentTopic.Sessions, "adopted", provenance=own)
    adopted = (await grandchild.scope().fetch())[-1].provenance
    assert (adopted.parent_conversation_id, adopted.root_conversation_id) == (root.id, root.id)


async def test_list_and_filter(laser: ls.Laser) -> None:
    sessions = laser.sessions()
    assert await sessions.list() == []
    root = await sessions.start("0")
    made = [root, *[await sessions.start(f"{number}", parent=root if number % 2 else None) for number in range(1, 6)]]
    await made[1].end()
    await made[2].fail("x")
    # What is no lifecycle record on that topic, and ends of what never began, are no sessions.
    await laser.context(ls.new_conversation_id()).append(CONTROL, "go on")
    await laser.context(ls.new_conversation_id()).append(CONTROL, '{"laser.session":"ended"}')

    async def labels(**filters: Any) -> list[str | None]:
        return [status.label for status in await sessions.list(**filters)]

    assert await labels() == ["5", "4", "3", "2", "1", "0"]
    assert await labels(limit=2) == ["5", "4"]
    assert await labels(state="running") == ["5", "4", "3", "0"]
    assert await labels(state="ended") == ["1"]
    assert await labels(state="failed") == ["2"]
    assert await labels(state="cancelled") == []
    assert await labels(parent=root.id) == ["5", "3", "1"]
    assert await labels(parent=root.id.lower(), state="running", limit=1) == ["5"]
    assert await labels(parent=made[4].id) == []
    assert await sessions.list(limit=1) == [await made[5].status()]


async def test_open_of_what_is_not_there(laser: ls.Laser) -> None:
    sessions = laser.sessions()
    unknown = ls.new_conversation_id()
    await laser.context(unknown).append(ls.AgentTopic.Sessions, "a conversation, but no session")
    await laser.context(unknown).append(CONTROL, '{"laser.session":"ended"}')
    with pytest.raises(ls.NotFoundError, match=unknown) as caught:
        await sessions.open(unknown)
    assert (caught.value.stream, caught.value.topic) == (laser.stream, CONTROL)
    with pytest.raises(ls.IdError):
        await sessions.open("no id")
    with pytest.raises(ls.NotFoundError):
        await sessions.start(parent=unknown)
    with pytest.raises(ls.IdError):
        await sessions.start(parent="no id")


async def test_without_the_topic(engine_url: str, stream_name: str) -> None:
    async with ls.Laser.connect(engine_url, stream=stream_name) as laser:
        with pytest.raises(ls.NotFoundError) as caught:
            await laser.sessions().start()
        assert caught.value.topic == CONTROL
        with pytest.raises(ls.NotFoundError):
            await laser.sessions().open(ls.new_conversation_id())
        assert await laser.sessions().list() == []


async def test_another_process_opens_it_after_a_restart(laser: ls.Laser, engine_url: str, stream_name: str) -> None:
    if engine_url == "memory:":
        pytest.skip("a log in memory belongs to one client")
    session = await laser.sessions().start("long", agent="first")
    await session.scope().append(ls.AgentTopic.Sessions, "before")
    await laser.aclose()
    async with ls.Laser.connect(engine_url, stream=stream_name) as later:
        again = await later.sessions().open(session.id, agent="second")
        assert (await again.status()).agent == "first"
        assert await again.scope().block() == "before"
        status = await again.end()
        assert [one.id for one in await later.sessions().list(state="ended")] == [session.id]
        (record,) = [
            message
            for message in await later.context(session.id).fetch(topics=[CONTROL])
            if message.record_id == status.decided_by
        ]
        assert record.provenance.agent == "second"


async def test_a_session_whose_records_retention_took(memory_laser: ls.Laser) -> None:
    session = await memory_laser.sessions().start()
    await memory_laser.purge_topic(CONTROL)
    for call in (session.status, session.end, session.cancel):
        with pytest.raises(ls.NotFoundError):
            await call()
    assert (await memory_laser.topic(CONTROL)).records == 0


@pytest.mark.parametrize("label", ["", "  ", 5, b"x", "a\nb", "\x00", "x" * 1025, "é" * 513, "\ud800", "a\x7fb"])
async def test_labels(memory_laser: ls.Laser, label: Any) -> None:
    with pytest.raises(ls.InvalidError) as caught:
        await memory_laser.sessions().start(label)
    assert caught.value.argument == "label"
    assert (await memory_laser.topic(CONTROL)).records == 0
    assert (await (await memory_laser.sessions().start("é" * 512)).status()).label == "é" * 512


@pytest.mark.parametrize(
    "error", [float("nan"), {"a": [float("inf")]}, (1, 2), b"x", {1: 2}, {1}, object(), "\ud800"], ids=repr
)
async def test_h6_errors_that_json_would_change_are_refused(memory_laser: ls.Laser, error: Any) -> None:
    """H6: no NaN that becomes null in the report of a failure."""
    session = await memory_laser.sessions().start()
    with pytest.raises(ls.InvalidError, match=r"^error: \$\.error") as caught:
        await session.fail(error)
    assert caught.value.argument == "error"
    assert (await session.status()).state == "running"


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": -1}, "limit"),
        ({"limit": True}, "limit"),
        ({"limit": 1.5}, "limit"),
        ({"state": "done"}, "state"),
        ({"state": ""}, "state"),
        ({"parent": "no id"}, "conversation_id"),
    ],
)
async def test_bad_filters(memory_laser: ls.Laser, arguments: dict[str, Any], argument: str) -> None:
    with pytest.raises(ls.InvalidError) as caught:
        await memory_laser.sessions().list(**arguments)
    assert caught.value.argument == argument


@pytest.mark.parametrize("agent", ["", "a\nb", "x" * 256, 5])
async def test_bad_agents(memory_laser: ls.Laser, agent: Any) -> None:
    with pytest.raises(ls.InvalidError):
        await memory_laser.sessions().start(agent=agent)
    assert (await memory_laser.topic(CONTROL)).records == 0
