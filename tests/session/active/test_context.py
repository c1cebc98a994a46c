"""The active context: edits, runs, turns, steering, and who wins when several write."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import laser as ls
from laser.engines.memory import MemoryLog
from laser.testing.faulty_log import FaultRates, FaultyLog
from tests.commands import ROOT, environment
from tests.session.talking import talk

pytestmark = pytest.mark.anyio

ACTIVE = "agent.active"


def texts(state: ls.ActiveState) -> list[str]:
    return [one.text for one in state.entries]


async def test_edits(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    assert await session.active.read() == ls.ActiveState(0, ())
    with pytest.raises(ls.NotFoundError):
        await laser.topic(ACTIVE)
    one = await session.active.add(
        0,
        ls.NewEntry("user", b"hi"),
        ls.NewEntry("instruction", b"second", key="b"),
        ls.NewEntry("instruction", b"first", key="a"),
    )
    assert (one.revision, texts(one)) == (1, ["first", "second", "hi"])
    two = await session.active.add(1, ls.NewEntry("instruction", b"FIRST", key="a"))
    assert (texts(two), [e.id for e in two.entries]) == (["FIRST", "second", "hi"], [3, 2, 1])
    three = await session.active.replace(2, 1, ls.NewEntry("user", b"hello"))
    four = await session.active.edit(3, [ls.Remove(2), ls.Add(ls.NewEntry("user", b"there"))])
    assert (texts(three), texts(four)) == (["FIRST", "second", "hello"], ["FIRST", "hello", "there"])
    for revision, state in enumerate([ls.ActiveState(0, ()), one, two, three, four]):
        assert await session.active.at(revision) == state
    with pytest.raises(ls.NotFoundError, match="never at 5"):
        await session.active.at(5)
    # All or none.
    with pytest.raises(ls.NotFoundError, match="no entry 99"):
        await session.active.edit(4, [ls.Remove(1), ls.Remove(99)])
    with pytest.raises(ls.ConflictError, match="saw revision 3, the context is at 4") as caught:
        await session.active.remove(3, 1)
    assert not isinstance(caught.value, ls.BusyError)
    assert await session.active.read() == four


async def test_catalogs_supersede_by_appending(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    state = await session.active.add(0, ls.NewEntry("catalog", b"v0", key="tools"), ls.NewEntry("user", b"hi"))
    for number in range(1, 9):
        before = state
        state = await session.active.add(state.revision, ls.NewEntry("catalog", b"v%d" % number, key="tools"))
        newest = state.entries[-1]
        assert (newest.text, newest.superseded) == (f"v{number}", False)
        assert newest.supersedes == next(e.id for e in reversed(before.entries) if e.kind == "catalog")
        # What was there stays as it was: the same bytes in the same order, but for the one over the cap.
        there = {e.id for e in state.entries}
        assert [(e.id, e.entry) for e in before.entries if e.id in there] == [
            (e.id, e.entry) for e in state.entries[:-1]
        ]
        assert len(before.entries) - len(state.entries[:-1]) == (number > 5)
    assert texts(state) == ["hi", "v3", "v4", "v5", "v6", "v7", "v8"]
    assert [e.superseded for e in state.entries] == [False, *[True] * 5, False]
    current = state.keyed("tools", "catalog")
    assert current is not None
    with pytest.raises(ls.InvalidError, match="a catalog is not replaced"):
        await session.active.replace(state.revision, current.id, ls.NewEntry("catalog", b"x", key="tools"))
    gone = await session.active.remove(state.revision, current.id)
    assert texts(gone) == ["hi"], "nobody shall read an old version as the current one"


async def test_a_key_belongs_to_one_entry_of_its_kind(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    state = await session.active.add(
        0,
        ls.NewEntry("instruction", b"i", key="k"),
        ls.NewEntry("skill", b"s", key="k"),
        ls.NewEntry("catalog", b"c", key="k"),
        ls.NewEntry("skill", b"t", key="other"),
    )
    assert texts(state) == ["i", "s", "c", "t"]
    with pytest.raises(ls.InvalidError, match="another one has the key k"):
        await session.active.replace(1, 4, ls.NewEntry("skill", b"t", key="k"))
    moved = await session.active.edit(1, [ls.Remove(2), ls.Replace(4, ls.NewEntry("skill", b"t2", key="k"))])
    assert texts(moved) == ["i", "c", "t2"]
    found = moved.keyed("k", "skill")
    assert found is not None
    assert found.text == "t2"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (ls.NewEntry("user"), "either a payload or a ref"),
        (ls.NewEntry("usr", b"x"), "kind 'usr'"),  # type: ignore[arg-type]
        (ls.NewEntry("instruction", b"x"), "needs a key"),
        (ls.NewEntry("catalog", b"x"), "needs a key"),
        (ls.NewEntry("skill", b"x"), "needs a key"),
        (ls.NewEntry("tool_call", b"x"), "call_id"),
        (ls.NewEntry("user", b"x", interim=True), "interim"),
        (ls.NewEntry("user", b"x", scope="turn"), "scope"),  # type: ignore[arg-type]
        (ls.NewEntry("user", b"x", tokens=-1), "tokens"),
        (ls.NewEntry("user", b"x", tokens=2**63), "tokens"),
        (ls.NewEntry("user", b"x", api="telepathy"), "api_kind"),
        (ls.NewEntry("user", "x"), "not bytes"),  # type: ignore[arg-type]
        (ls.NewEntry("user", b"x", key="\ud800"), "surrogate"),
        (ls.NewEntry("user", b"x", key=""), "key"),
        ("text", "expected a NewEntry"),
    ],
)
async def test_bad_entries_are_refused_everywhere(memory_laser: ls.Laser, entry: Any, said: str) -> None:
    session = await memory_laser.sessions().start()
    with pytest.raises(ls.InvalidError, match=said):
        await session.active.add(0, entry)
    with pytest.raises(ls.InvalidError, match=said):
        session.run([entry])
    with pytest.raises(ls.InvalidError, match=said):
        await session.active.steer(entry)
    assert (await session.active.read()).revision == 0


async def test_a_turn_is_frozen_and_steering_waits(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    other = await laser.sessions().open(session.id)
    async with session.run([ls.NewEntry("user", b"hi")]) as run:
        first = await run.turn()
        await other.active.steer(ls.NewEntry("user", b"wait"))
        state = await other.active.read()
        await other.active.add(state.revision, ls.NewEntry("user", b"edited in"))
        assert texts(first.context) == ["hi"], "a request that was sent does not change"
        with pytest.raises(ls.BusyError, match=r"turn .* is under way"):
            await run.turn()
        state = await first.finish([ls.NewEntry("assistant", b"hello")])
        assert [e.text for e in ls.compactable(state.entries)] == ["hi", "hello"], "no turn saw what came meanwhile"
        second = await run.turn()
        assert texts(second.context) == ["hi", "edited in", "hello", "wait"]
        assert second.context.steering == ()
        with pytest.raises(ls.ClosedError, match="finished already"):
            await first.finish()
        await second.finish()
    state = await session.active.read()
    assert state.run is not None
    assert (state.run.turns, state.run.state, state.run.id) == (2, "ended", run.id)
    await session.active.steer(ls.NewEntry("user", b"for the next run"))
    assert not (await session.active.read()).is_idle
    async with session.run() as run:
        assert texts((await run.turn()).context)[-1] == "for the next run"


async def test_a_turn_that_others_overtake_keeps_its_own_revision(memory_laser: ls.Laser) -> None:
    """Its context is that of its very place on the log, not what a later look finds."""
    session = await memory_laser.sessions().start()
    others = [await memory_laser.sessions().open(session.id) for _ in range(4)]

    async def edit(one: ls.Session) -> None:
        while True:
            try:
                await one.active.add((await one.active.read()).revision, ls.NewEntry("user", b"x"))
            except ls.ConflictError:
                await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        for one in others:
            tasks.start_soon(edit, one)
        for _ in range(20):
            async with session.run() as run:
                turn = await run.turn()
                assert turn.context.run is not None
                assert turn.context.run.revision == turn.context.revision
                await turn.finish()
        tasks.cancel_scope.cancel()


async def test_a_failed_turn_leaves_the_context_alone(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    async with session.run([ls.NewEntry("user", b"hi")]) as run:
        turn = await run.turn()
        state = await turn.fail([ls.NewEntry("assistant", b"hal")], {"input_tokens": 4})
        assert texts(state) == ["hi"]
        assert ls.compactable(state.entries) == [], "nobody has answered it yet"
        with pytest.raises(RuntimeError):
            async with await run.turn():
                raise RuntimeError("the provider is down")
        async with await run.turn() as turn:
            state = await turn.finish([ls.NewEntry("assistant", b"hello")])
        assert texts(state) == ["hi", "hello"]
        assert [e.text for e in ls.compactable(state.entries)] == ["hi", "hello"]
    detail = await session.read_run(run.id)
    assert [one.state for one in detail.turns] == ["failed", "failed", "ended"]


async def test_entries_of_a_run_leave_with_it(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    await session.active.add(0, ls.NewEntry("skill", b"for good", key="pdf"))
    with pytest.raises(ls.InvalidError, match="goes with a run, but none is under way"):
        await session.active.add(1, ls.NewEntry("skill", b"x", key="x", scope="run"))
    async with session.run([ls.NewEntry("skill", b"for now", key="pdf", scope="run")]) as run:
        state = await session.active.read()
        assert texts(state) == ["for good", "for now"]
        mine = state.keyed("pdf", "skill")
        assert mine is not None
        assert (mine.run, mine.text) == (run.id, "for now")
        await session.active.steer(ls.NewEntry("user", b"steered", scope="run"))
        await session.active.add(state.revision, ls.NewEntry("catalog", b"edited", key="c", scope="run"))
        async with await run.turn() as turn:
            state = await turn.finish([ls.NewEntry("assistant", b"given", scope="run")])
        assert [e.run for e in state.entries] == [None, *[run.id] * 4]
        before = state.revision
    state = await session.active.read()
    assert (texts(state), state.revision) == (["for good"], before + 1)


@pytest.mark.parametrize("how", ["raise", "cancel", "none"])
async def test_how_runs_end(laser: ls.Laser, how: str) -> None:
    session = await laser.sessions().start()
    with anyio.CancelScope() as scope:
        try:
            async with session.run([ls.NewEntry("user", b"hi")]):
                if how == "raise":
                    raise RuntimeError("no")
                if how == "cancel":
                    scope.cancel()
                    await anyio.lowlevel.checkpoint()
        except RuntimeError:
            pass
    state = await session.active.read()
    assert state.run is not None
    assert state.run.state == {"raise": "failed", "cancel": "cancelled", "none": "ended"}[how]
    assert state.is_idle
    assert texts(state) == ["hi"]


async def test_runs_cancelled_at_every_await_are_finished(memory_laser: ls.Laser) -> None:
    session = await memory_laser.sessions().start()

    async def work() -> None:
        async with session.run([ls.NewEntry("user", b"x", scope="run")]) as run, await run.turn() as turn:
            await turn.finish([ls.NewEntry("assistant", b"y", scope="run")])

    for steps in range(10_000):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        state = await session.active.read()
        assert state.is_idle, steps
        assert state.entries == ()
        assert await (await memory_laser.sessions().open(session.id)).active.read() == state
        if state.run is not None and state.run.state == "ended":
            break
    assert steps > 10


async def test_a_fold_that_was_cancelled_is_not_gone_on_from(memory_laser: ls.Laser) -> None:
    session = await memory_laser.sessions().start()
    other = await memory_laser.sessions().open(session.id)
    await session.active.read()
    for steps in range(10_000):
        await other.active.steer(ls.NewEntry("user", str(steps).encode()))
        with anyio.CancelScope() as scope:
            done: list[ls.ActiveState] = []

            async def read(done: list[ls.ActiveState]) -> None:
                done.append(await session.active.read())

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read, done)
                for _ in range(steps):
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
        assert not scope.cancelled_caught
        state = await session.active.read()
        assert [one.payload for one in state.steering] == [str(number).encode() for number in range(steps + 1)]
        if done:
            break
    assert steps > 3


async def test_a_run_whose_owner_died(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    run = session.run()
    await run.start()
    other = await laser.sessions().open(session.id)
    with pytest.raises(ls.BusyError, match=f"run {run.id} is under way"):
        await other.run().start()
    state = await other.active.read()
    assert state.run is not None
    state = await other.active.finish_run(state.run.id, output=ls.NewEntry("assistant", b"as far as it came"))
    assert state.is_idle
    with pytest.raises(ls.NotFoundError, match="is not under way"):
        await run.turn()
    with pytest.raises(ls.NotFoundError, match="is not under way"):
        await other.active.finish_run(run.id)


async def test_the_api_kind_is_fixed(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    with pytest.raises(ls.InvalidError, match="api_kind"):
        session.run(api="telepathy")  # type: ignore[arg-type]
    await talk(session, 1)
    assert (await session.active.read()).api is None
    async with session.run(api="anthropic_messages"):
        state = await session.active.read()
        assert state.api == "anthropic_messages"
        native = ls.NewEntry("assistant", b"{}", api="chat_completions")
        with pytest.raises(ls.InvalidError, match="API kind is anthropic_messages, not chat_completions"):
            await session.active.add(state.revision, native)
        with pytest.raises(ls.InvalidError, match="API kind is anthropic_messages"):
            await session.active.steer(native)
    again = await laser.sessions().open(session.id)
    with pytest.raises(ls.InvalidError, match="begin a new session"):
        await again.run(api="openai_responses").start()
    async with again.run(api="anthropic_messages") as run:
        turn = await run.turn()
        with pytest.raises(ls.InvalidError, match="API kind is anthropic_messages"):
            await turn.finish([native])
        await turn.finish([ls.NewEntry("assistant", b"{}", api="anthropic_messages")])
    mixed = await laser.sessions().start()
    with pytest.raises(ls.InvalidError, match="API kind"):
        await mixed.run([native], api="openai_responses").start()
    await mixed.active.add(0, native)
    assert (await mixed.active.read()).api == "chat_completions"


async def test_derived_input_is_refreshed_between_runs_only(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    rules, tools = ls.NewEntry("instruction", b"v1", key="rules"), ls.NewEntry("catalog", b"t1", key="tools")
    await session.active.add(0, ls.NewEntry("instruction", b"mine", key="own"))
    state = await session.active.refresh("files", [rules, tools])
    assert texts(state) == ["mine", "v1", "t1"]
    before = (await laser.topic(ACTIVE)).records
    assert await session.active.refresh("files", [rules, tools]) == state
    assert (await laser.topic(ACTIVE)).records == before, "nothing new, nothing written"
    newer = ls.NewEntry("catalog", b"t2", key="tools")
    state = await session.active.refresh("files", [newer])
    assert texts(state) == ["mine", "t1", "t2"]
    async with session.run():
        with pytest.raises(ls.BusyError, match=r"run .* is under way"):
            await session.active.refresh("files", [rules])
        assert await session.active.refresh("files", [newer])
    await session.active.steer(ls.NewEntry("user", b"wait"))
    with pytest.raises(ls.BusyError, match="input waits"):
        await session.active.refresh("files", [])
    for bad in (ls.NewEntry("user", b"x"), ls.NewEntry("skill", b"x", key="x", scope="run")):
        with pytest.raises(ls.InvalidError, match="derived input needs a key"):
            await session.active.refresh("files", [bad])


async def test_exactly_one_wins_each_revision(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    handles = [await laser.sessions().open(session.id) for _ in range(4)]
    won: list[int] = []
    lost = 0

    async def edit(number: int, handle: ls.Session) -> None:
        nonlocal lost
        for count in range(5):
            seen = (await handle.active.read()).revision
            try:
                state = await handle.active.add(seen, ls.NewEntry("user", f"{number}.{count}".encode()))
            except ls.ConflictError:
                lost += 1
            else:
                assert state.revision == seen + 1
                won.append(seen)

    async with anyio.create_task_group() as tasks:
        for number, handle in enumerate(handles):
            tasks.start_soon(edit, number, handle)
    state = await session.active.read()
    assert sorted(won) == list(range(state.revision))
    assert len(state.entries) == len(won) == 20 - lost


def _start(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)


async def test_processes_race(tmp_path: Path) -> None:
    url = f"embedded:{tmp_path / 'data'}"
    async with ls.Laser.connect(url, stream="s") as laser:
        await laser.ensure_topic(ls.AgentTopic.Control)
        session = await laser.sessions().start()
        command = [sys.executable, "-m", "tests.session.active.worker", url, "s", session.id]
        workers = [_start([*command, who, "25"]) for who in ("a", "b")]
        revisions: list[int] = []
        for worker in workers:
            said, _ = await anyio.to_thread.run_sync(worker.communicate)
            assert worker.returncode == 0
            revisions += [int(line) for line in said.splitlines()[1:]]
        assert sorted(revisions) == list(range(1, 51))
        state = await session.active.read()
        assert sorted(texts(state)) == sorted(f"{who} {number}" for who in "ab" for number in range(25))


@pytest.mark.parametrize("seed", range(8))
async def test_lost_answers_and_copies(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Each edit that returned is there once; each that was refused is not."""
    rates = FaultRates(lose_answer=0.2, lose_request=0.1, copy=0.2, short_page=0.3)
    async with ls.Laser.connect("memory:") as laser:
        await laser.ensure_topic(ls.AgentTopic.Control)
        session = await laser.sessions().start()
        log = FaultyLog(MemoryLog(), rates, seed)
        monkeypatch.setattr(laser, "open_log", lambda: log)
        kept: list[str] = []
        for number in range(40):
            try:
                state = await session.active.read()
                await session.active.add(state.revision, ls.NewEntry("user", str(number).encode()))
            except ls.AppendIndeterminateError:
                continue
            kept.append(str(number))
        assert len(kept) > 35
        log.rates = FaultRates()
        found = texts(await session.active.read())
        assert len(found) == len(set(found))
        assert [one for one in found if one in set(kept)] == kept
        assert log.struck["lose_answer"] > 0


async def test_a_missing_beginning_is_an_error(tmp_path: Path) -> None:
    async with ls.Laser.connect(f"embedded:{tmp_path / 'data'}") as laser:
        await laser.ensure_topic(ls.AgentTopic.Control)
        await laser.ensure_topic(ACTIVE, partitions=1, retention=ls.TopicRetention(max_size=100_000))
        session, idle = await laser.sessions().start(), await laser.sessions().start()
        state = await session.active.read()
        for number in range(30):
            state = await session.active.add(state.revision, ls.NewEntry("user", b"%03d" % number * 3_000))
        (part,) = (await laser.topic(ACTIVE)).partitions
        assert part.first
        opened = await laser.sessions().open(session.id)
        for call in (opened.active.read, lambda: opened.active.at(1), opened.runs, opened.read, opened.fork):
            with pytest.raises(ls.RetentionGapError) as caught:
                await call()
            assert caught.value.first >= part.first
        # One that never had events before the cut: known where this handle started it, and refused where it may have.
        assert (await idle.active.read()).revision == 0
        with pytest.raises(ls.RetentionGapError):
            await (await laser.sessions().open(idle.id)).active.read()
        late = await laser.sessions().start()
        assert (await (await laser.sessions().open(late.id)).active.read()).revision == 0


async def test_an_event_that_anothers_snapshot_holds_already(memory_laser: ls.Laser) -> None:
    """What became of it is asked of the log, not of a snapshot that was saved between the write and the look."""
    session = await memory_laser.sessions().start()
    other = await memory_laser.sessions().open(session.id)
    await session.active.steer(ls.NewEntry("user", b"one"))
    log, theirs = session._active, other._active._tail
    write = log._write

    async def write_and_lose_the_fold(records: list[Any]) -> None:
        await write(records)
        await theirs.catch_up()
        await theirs._save()
        log._tail._whole = False

    log._write = write_and_lose_the_fold  # type: ignore[method-assign]
    state = await session.active.steer(ls.NewEntry("user", b"two"))
    assert [one.payload for one in state.steering] == [b"one", b"two"]
