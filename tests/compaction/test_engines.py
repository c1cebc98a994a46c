"""Compaction on every engine, with clients that see each other, partitions that are added, and a log that fails."""

from __future__ import annotations

import time

import anyio
import pytest

import laser as ls
from laser.client.opening import read_target
from laser.compaction.registry import StrategyRegistry
from laser.engines.memory import MemoryLog
from laser.model.topics import TopicConfig
from laser.testing.compaction_cases.base import Desk
from laser.testing.compaction_checks import check_request
from laser.testing.faulty_log import FaultRates, FaultyLog
from laser.testing.summarizers import NotingSummarizer

pytestmark = pytest.mark.anyio

WINDOW = 4_000


@pytest.mark.parametrize("name", ["rolling", "lcm"])
async def test_what_one_client_compacts_another_one_sees(name: str, laser: ls.Laser, engine_url: str) -> None:
    session = await laser.sessions().start("long")
    desk = Desk(laser, session.id, StrategyRegistry())
    await desk.compaction.switch(name)
    for turn in range(0, 60, 6):
        await desk.talk(6, first=turn)
        await desk.prepare()
    before = await desk.prepare(100_000)
    assert before.observation.covered > 100
    if engine_url == "memory:":
        return
    async with ls.Laser.connect(engine_url, stream=laser.stream) as other:
        again = Desk(other, session.id, StrategyRegistry())
        assert (await again.prepare(100_000)).inputs == before.inputs
        await again.talk(30, first=60)
        await again.prepare()
    check_request(await desk.compaction.prepare(window=WINDOW), await desk.transcript())
    assert (await desk.compaction.observe()).rows == 360


@pytest.mark.parametrize("engine_url", ["memory", "embedded"], indirect=True)
@pytest.mark.parametrize("name", ["rolling", "lcm"])
async def test_partitions_that_are_added_meanwhile(name: str, laser: ls.Laser) -> None:
    moved = 0
    for number in range(6):
        desk = Desk(laser, ls.derive_conversation_id(f"{name} {number}"), StrategyRegistry())
        await desk.compaction.switch(name)
        await desk.talk(30)
        await desk.compaction.compact(window=WINDOW)
        first = await desk.compaction.prepare(window=100_000)
        await laser.add_partitions(ls.AgentTopic.Sessions, 1)
        await desk.talk(30, first=30)
        transcript = await desk.transcript()
        moved += len({message.partition for message in transcript}) > 1
        for handle in (desk.compaction, desk.open()):
            prepared = await handle.prepare(window=100_000)
            assert prepared.observation.rows == 240
            seqs = [one.source.seq for one in prepared.inputs if one.source]
            assert seqs == sorted(set(seqs))
            assert len(seqs) + prepared.observation.covered == 240
            assert prepared.inputs[: len(first.inputs)] == first.inputs
        await desk.compaction.compact(window=WINDOW)
        prepared = await desk.compaction.prepare(window=100_000)
        assert prepared.inputs == (await desk.open().prepare(window=100_000)).inputs
        assert [one.payload for one in prepared.inputs if one.source][-1] == transcript[-1].payload
    assert moved


@pytest.mark.parametrize("name", ["rolling", "lcm"])
async def test_a_log_that_fails_and_lies(name: str) -> None:
    rates = FaultRates(refuse=0.04, lose_answer=0.06, lose_request=0.04, copy=0.05, read_fault=0.04, short_page=0.3)
    for seed in range(3):
        log = FaultyLog(MemoryLog(), FaultRates(), seed)
        async with ls.Laser(log, read_target("memory:", None, "app", None, 30.0)) as laser:
            for topic in (ls.AgentTopic.Sessions, "agent.compaction"):
                await log.ensure_topic(laser.stream, topic, TopicConfig(1))
            desk = Desk(laser, ls.new_conversation_id(), StrategyRegistry())
            await desk.compaction.switch(name)
            failed = 0
            for turn in range(0, 60, 3):
                await desk.talk(3, first=turn)
                log.rates = rates
                try:
                    await desk.compaction.prepare(window=WINDOW)
                except ls.LaserError:
                    failed += 1
                log.rates = FaultRates()
            assert failed or seed
            transcript = await desk.transcript()
            check_request(await desk.compaction.prepare(window=WINDOW), transcript)
            found = [await handle.prepare(window=100_000) for handle in (desk.compaction, desk.open())]
            assert found[0].inputs == found[1].inputs
            check_request(found[0], transcript)
            assert found[0].observation.covered > 100


async def test_tools_answer_while_a_summary_is_made(memory_laser: ls.Laser) -> None:
    desk = Desk(memory_laser, ls.new_conversation_id(), StrategyRegistry())
    await desk.talk(60)
    begun, answered = anyio.Event(), anyio.Event()

    async def wait() -> None:
        begun.set()
        await answered.wait()

    desk.summarizer.during = wait
    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(desk.compaction.compact, "lcm")
            await begun.wait()
            assert (await desk.compaction.lcm.grep("question-7 ")).hits
            assert (await desk.compaction.lcm.list()).folds == ()
            assert (await desk.compaction.observe(window=WINDOW)).over_window
            assert await desk.compaction.strategy() == "lcm"
            answered.set()
    assert (await desk.compaction.observe()).covered > 0


async def test_the_event_loop_stays_free(memory_laser: ls.Laser) -> None:
    desk = Desk(memory_laser, ls.new_conversation_id(), StrategyRegistry())
    for turn in range(0, 1_500, 250):
        await desk.talk(250, first=turn)
    gap, done = 0.0, False

    async def tick() -> None:
        nonlocal gap
        # The thread's own time: what others on the machine take is none of the compaction's.
        last = time.thread_time()
        while not done:
            await anyio.sleep(0.001)
            now = time.thread_time()
            gap, last = max(gap, now - last), now

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        await desk.compaction.prepare(window=1_000_000)
        await desk.compaction.compact("lcm", window=50_000)
        await desk.compaction.lcm.grep("question-7 ")
        done = True
    # A blocked loop would stand still for seconds.
    assert gap < 0.5


async def test_a_summarizer_of_its_own_for_each_handle(memory_laser: ls.Laser) -> None:
    desk = Desk(memory_laser, ls.new_conversation_id(), StrategyRegistry())
    await desk.talk(60)
    other = NotingSummarizer()
    await desk.open(other).compact(window=WINDOW)
    assert (desk.summarizer.asked, other.asked > 0) == (0, True)
