"""Compaction of the active context: whatever goes wrong, nothing is lost."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import msgspec
import pytest

import laser as ls
from laser.models.selection import API_KINDS
from laser.session.active.events import CompactionCommitted, CompactionRequested, encode_active
from tests.session.talking import talk

pytestmark = pytest.mark.anyio

SUMMARY = ls.NewEntry("summary", b"they talked", tokens=2)


async def account(state: ls.ActiveState) -> ls.Account:
    return ls.Account([one.id for one in ls.compactable(state.entries)], [SUMMARY])


def texts(state: ls.ActiveState) -> list[str]:
    return [one.text for one in state.entries]


async def test_what_stays_and_where_the_account_comes(laser: ls.Laser) -> None:
    """I21, I18, I20: instructions, skills, current catalogs, open calls and input that nobody has read."""
    session = await laser.sessions().start()
    state = await session.active.add(
        0,
        ls.NewEntry("instruction", b"be brief", key="a"),
        ls.NewEntry("skill", b"pdf", key="pdf"),
        ls.NewEntry("catalog", b"v1", key="tools"),
    )
    await talk(session, 2)
    async with session.run([ls.NewEntry("user", b"do it")]) as run, await run.turn() as turn:
        await turn.finish(
            [
                ls.NewEntry("tool_call", b"closed", call_id="1"),
                ls.NewEntry("tool_result", b"its result", call_id="1"),
                ls.NewEntry("tool_call", b"open", call_id="2"),
                ls.NewEntry("tool_result", b"not the last word", call_id="2", interim=True),
            ]
        )
    state = await session.active.read()
    state = await session.active.add(state.revision, ls.NewEntry("catalog", b"v2", key="tools"))
    before = texts(state)
    state = await session.active.add(state.revision, ls.NewEntry("user", b"unread"))
    state = await session.compact(account)
    # The result of the closed call was read by no turn yet: so it stays, and its call with it.
    assert texts(state) == [
        "be brief",
        "pdf",
        "they talked",
        "closed",
        "its result",
        "open",
        "not the last word",
        "v2",
        "unread",
    ]
    assert (state.is_idle, state.revision) == (True, (await session.active.read()).revision)
    assert before == texts(await session.active.at(state.revision - 2)), "what was compacted can still be seen"

    async with session.run() as run:
        async with await run.turn() as turn:
            await turn.finish([ls.NewEntry("tool_result", b"at last", call_id="2")])
        async with await run.turn() as turn:
            await turn.finish([ls.NewEntry("assistant", b"done")])
    state = await session.compact(account)
    assert texts(state) == ["be brief", "pdf", "they talked", "v2"]


async def test_i1_i4_i5_a_failure_changes_nothing(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    await talk(session, 2)
    before = await session.active.read()
    removed = tuple(one.id for one in ls.compactable(before.entries))

    async def give(value: object) -> None:
        async def work(_: ls.ActiveState) -> ls.Account | None:
            if isinstance(value, Exception):
                raise value
            return value  # type: ignore[return-value]

        await session.compact(work)

    for value, error in (
        (RuntimeError("no \ud800 model"), RuntimeError),
        (TimeoutError(), TimeoutError),
        (ls.DisconnectedError("gone"), ls.DisconnectedError),
        ("text", ls.InvalidError),
        (ls.Account(removed, []), ls.InvalidError),
        (ls.Account([], [SUMMARY]), ls.InvalidError),
        (ls.Account(removed, [ls.NewEntry("summary", b" \n\t")]), ls.InvalidError),
        (ls.Account(removed, [ls.NewEntry("summary", b"")]), ls.InvalidError),
        (ls.Account(removed, [msgspec.structs.replace(SUMMARY, scope="run")]), ls.InvalidError),
        (ls.Account([*removed, 999], [SUMMARY]), ls.InvalidError),
    ):
        with pytest.raises(error):
            await give(value)
        assert await session.active.read() == before, value
    await give(None)
    assert await session.active.read() == before
    state = await session.compact(account)
    assert texts(state) == ["they talked"]


async def test_i9_cancelled_at_every_await(memory_laser: ls.Laser) -> None:
    """Either all of it happened or nothing, and the context can be used right away."""
    session = await memory_laser.sessions().start()
    await talk(session, 2)
    before = await session.active.read()

    async def work(state: ls.ActiveState) -> ls.Account:
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        return await account(state)

    for steps in range(10_000):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.compact, work)
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        state = await session.active.read()
        assert state.pending is None, steps
        other = await (await memory_laser.sessions().open(session.id)).active.read()
        assert other == state, "a fold that was cancelled half-way was gone on from"
        if state.entries != before.entries:
            assert texts(state) == ["they talked"]
            break
        assert state == before, steps
        async with session.run() as run:
            pass
        before = msgspec.structs.replace(before, run=(await session.active.read()).run, runs=before.runs + 1)
        assert run.id
    assert steps > 10


async def test_meanwhile_runs_and_edits_are_refused(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    other = await laser.sessions().open(session.id)
    await talk(session, 1)
    seen = await session.active.read()

    async def work(state: ls.ActiveState) -> ls.Account:
        assert state.pending is not None
        assert not state.is_idle
        with pytest.raises(ls.BusyError, match=r"compaction .* is under way"):
            await other.active.add(seen.revision, ls.NewEntry("user", b"no"))
        with pytest.raises(ls.BusyError, match=r"compaction .* is under way"):
            await other.run().start()
        with pytest.raises(ls.BusyError, match=r"compaction .* is under way"):
            await other.compact(account)
        # Input is admitted; it waits, and survives.
        await other.active.steer(ls.NewEntry("user", b"and then?"))
        return await account(state)

    state = await session.compact(work)
    assert (texts(state), [one.payload for one in state.steering]) == (["they talked"], [b"and then?"])
    async with session.run() as run:
        assert texts((await run.turn()).context) == ["they talked", "and then?"]
        with pytest.raises(ls.BusyError, match=r"run .* is under way"):
            await other.compact(account)


async def test_stale_ones_touch_nothing(laser: ls.Laser) -> None:
    """I7, I11: the log decides, whatever a handle believes."""
    session = await laser.sessions().start()
    await talk(session, 1)
    state = await session.active.read()
    with pytest.raises(ls.ConflictError, match=f"saw revision {state.revision - 1}"):
        await session.compact(account, seen=state.revision - 1)
    late = encode_active(
        CompactionCommitted("a" * 26, state.revision, tuple(one.id for one in state.entries), (SUMMARY,))
    )
    await session.scope().append("agent.active", late)
    assert await session.active.read() == state

    async def given_up(now: ls.ActiveState) -> ls.Account:
        other = await laser.sessions().open(session.id)
        assert now.pending is not None
        found = await other.active.fail_compaction(now.pending.request, "took too long")
        assert found.pending is None
        await other.active.add(found.revision, ls.NewEntry("user", b"quick"))
        return await account(now)

    with pytest.raises(ls.ConflictError, match="is not under way"):
        await session.compact(given_up)
    assert texts(await session.active.read()) == [*texts(state), "quick"]
    with pytest.raises(ls.ConflictError, match="is not under way"):
        await session.active.fail_compaction("a" * 26)


async def test_one_whose_owner_died(laser: ls.Laser) -> None:
    """After its lease, by the log's clock, the next request takes over; anybody can give it up before."""
    session = await laser.sessions().start()
    await talk(session, 1)
    seen = (await session.active.read()).revision
    for lease in (0.000_001, 600.0):
        request = CompactionRequested(ls.new_conversation_id(), seen, "strategy", lease)
        await session.scope().append("agent.active", encode_active(request))
        state = await session.active.read()
        assert state.pending is not None
        assert state.pending.expires_at_micros == state.pending.requested_at_micros + int(lease * 1e6)
        if lease < 1:
            # Its microsecond is over when the next record is written.
            await session.scope().append(ls.AgentTopic.Sessions, "later")

            async def nothing(_: ls.ActiveState) -> None:
                return None

            assert (await session.compact(nothing)).pending is None
        else:
            with pytest.raises(ls.BusyError):
                await session.compact(account)
            assert (await session.active.fail_compaction(state.pending.request)).pending is None
    assert texts(await session.compact(account)) == ["they talked"]


async def test_the_lease_bounds_the_work(memory_laser: ls.Laser) -> None:
    session = await memory_laser.sessions().start()
    await talk(session, 1)
    before = await session.active.read()

    async def forever(_: ls.ActiveState) -> None:
        await anyio.sleep_forever()

    with pytest.raises(TimeoutError):
        await session.compact(forever, lease=0.05)
    assert await session.active.read() == before
    for lease in (0, -1, True, "5", 86_401, float("nan")):
        with pytest.raises(ls.InvalidError, match=r"^lease: "):
            await session.compact(account, lease=lease)  # type: ignore[arg-type]
    await session.compact(account, lease=86_400)


async def test_a_tool_call_and_its_results_go_together(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    async with session.run([ls.NewEntry("user", b"go")]) as run:
        async with await run.turn() as turn:
            pair = [ls.NewEntry("tool_call", b"c", call_id="1"), ls.NewEntry("tool_result", b"r", call_id="1")]
            await turn.finish(pair)
        async with await run.turn() as turn:
            await turn.finish([ls.NewEntry("assistant", b"ok")])
    before = await session.active.read()
    call, result = (next(one.id for one in before.entries if one.kind == kind) for kind in ("tool_call", "tool_result"))
    for torn in (call, result):

        async def work(_: ls.ActiveState, torn: int = torn) -> ls.Account:
            return ls.Account([torn], [SUMMARY])

        with pytest.raises(ls.InvalidError, match="both go or both stay"):
            await session.compact(work)
        assert await session.active.read() == before


async def test_thresholds(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    await talk(session, 2)
    state = await session.active.read()
    assert ls.compactable_tokens(state.entries) == 12
    assert [ls.compaction_due(state, threshold) for threshold in (12, 13)] == [True, False]
    for bad in (0, -1, True, 1.5, None):
        with pytest.raises(ls.InvalidError, match=r"^threshold: "):
            ls.compaction_due(state, bad)  # type: ignore[arg-type]
    async with session.run([ls.NewEntry("user", b"?", tokens=2**63 - 1)]) as run:
        turn = await run.turn()
        assert not ls.compaction_due(turn.context, 1), "not between its turns"
        # What the provider counted is never put in the place of an estimate.
        await turn.finish([ls.NewEntry("assistant", b"!")], {"input_tokens": 10**9})
    state = await session.active.read()
    assert (ls.compactable_tokens(state.entries), ls.compaction_due(state, 1)) == (None, False)
    state = await session.active.replace(state.revision, state.entries[-1].id, ls.NewEntry("assistant", b"!", tokens=1))
    async with session.run() as run, await run.turn() as turn:
        await turn.finish()
    state = await session.active.read()
    assert ls.compactable_tokens(state.entries) is None, "the sum overflows"
    assert not ls.compaction_due(state, 1)


@pytest.mark.parametrize("api", API_KINDS)
async def test_provider_triggered_is_for_responses(laser: ls.Laser, api: str) -> None:
    session = await laser.sessions().start()
    await talk(session, 2)
    async with session.run([ls.NewEntry("user", b"more")], api=api) as run:  # type: ignore[arg-type]
        turn = await run.turn()
        later = await session.active.read()
        await session.active.add(later.revision, ls.NewEntry("user", b"meanwhile"))
        outputs = [ls.NewEntry("compaction", b'{"type":"compaction"}', api=api), ls.NewEntry("assistant", b"hi")]
        if api != "openai_responses":
            with pytest.raises(ls.InvalidError, match="OpenAI Responses only"):
                await turn.finish(outputs)
            assert not (await session.active.read()).is_idle
        else:
            state = await turn.finish(outputs)
            assert texts(state) == ["meanwhile", '{"type":"compaction"}', "hi"]
    if api == "openai_responses":
        await session.compact(account, mode="provider_triggered")
    else:
        with pytest.raises(ls.InvalidError, match="mode provider_triggered goes with openai_responses"):
            await session.compact(account, mode="provider_triggered")
        await session.compact(account, mode="provider_standalone")
    with pytest.raises(ls.InvalidError, match=r"^mode: "):
        await session.compact(account, mode="soon")  # type: ignore[arg-type]


async def test_a_run_reads_in_full_afterwards(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    answer = ls.NewEntry("assistant", b"the whole of it" * 10_000, tokens=1)
    async with session.run([ls.NewEntry("user", b"why?")]) as run:
        async with await run.turn() as turn:
            await turn.fail([ls.NewEntry("assistant", b"half")], {"input_tokens": 5})
        await session.active.steer(ls.NewEntry("user", b"please"))
        async with await run.turn() as turn:
            await turn.finish([answer], {"input_tokens": 7, "output_tokens": 3})
        await run.finish(answer)
    await talk(session, 1)
    await session.compact(account)
    assert "the whole" not in "".join(texts(await session.active.read()))
    detail = await session.read_run(run.id)
    assert (detail.state, detail.output, detail.inputs) == ("ended", answer, (ls.NewEntry("user", b"why?"),))
    failed, good = detail.turns
    assert (failed.state, failed.outputs) == ("failed", (ls.NewEntry("assistant", b"half"),))
    assert (good.state, good.outputs) == ("ended", (answer,))
    assert good.steered == (ls.NewEntry("user", b"please"),)
    assert detail.usage == {"input_tokens": 12, "output_tokens": 3}
    assert detail.finished_at_micros is not None
    assert detail.finished_at_micros >= detail.started_at_micros > 0
    newest, older = await session.runs()
    assert (older, len(newest.turns)) == (detail, 1)
    assert await session.runs(limit=1) == [newest]
    with pytest.raises(ls.NotFoundError, match="had no run"):
        await session.read_run("nope")
