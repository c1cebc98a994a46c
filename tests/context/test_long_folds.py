"""Folds over more than one read looks at: the whole range, in constant memory, with the event loop free."""

from __future__ import annotations

import itertools
import time
import tracemalloc

import anyio
import pytest

import laser as ls
from laser.limits import CONTEXT_READ_WINDOW, MAX_BATCH_RECORDS
from tests.context.folding import SESSIONS, count

pytestmark = pytest.mark.anyio

ONE = "one.partition"


async def _fill(scope: ls.ContextScope, topic: str, records: int, size: int = 8) -> None:
    for start in range(0, records, MAX_BATCH_RECORDS):
        end = min(records, start + MAX_BATCH_RECORDS)
        await scope.append_many(topic, [f"{number}".rjust(size) for number in range(start, end)])


def total(state: int, message: ls.ContextMessage) -> int:
    return state + int(message.payload)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_fold_reads_its_whole_range_and_last_n_the_window(laser: ls.Laser) -> None:
    """K7 turned round: a fetch looks at the newest 10,000 records of a partition, a fold at all that it was given."""
    await laser.ensure_topic(ONE)
    scope = laser.context(ls.new_conversation_id())
    records = CONTEXT_READ_WINDOW + 500
    await scope.append_many(ONE, [f"{number}" for number in range(5)])
    early = await scope.checkpoint([ONE])
    await scope.append_many(ONE, [f"{number}" for number in range(5, 500)])
    await scope.append_many(ONE, [f"{number}" for number in range(500, records)])

    assert await scope.state([ONE], 0, total, full=True) == sum(range(records))
    assert await scope.state([ONE], 0, total, from_checkpoint=early) == sum(range(5, records))
    assert await scope.state([ONE], 0, total, at=early) == sum(range(5))
    assert await scope.state([ONE], 0, total, from_offsets={ONE: {0: 7}}) == sum(range(7, records))
    assert await scope.state([ONE], 0, total, last_n=2 * records) == sum(range(500, records))
    assert await scope.state([ONE], 0, total, last_n=3) == sum(range(records - 3, records))
    assert len(await scope.fetch(topics=[ONE], n=2 * records)) == CONTEXT_READ_WINDOW


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_quiet_conversation_on_a_busy_partition_is_folded_whole(laser: ls.Laser) -> None:
    await laser.ensure_topic(ONE)
    quiet, busy = (laser.context(ls.new_conversation_id()) for _ in range(2))
    await quiet.append_many(ONE, ["1", "2"])
    await _fill(busy, ONE, CONTEXT_READ_WINDOW)
    assert await quiet.fetch(topics=[ONE]) == []
    assert await quiet.state([ONE], 0, total, last_n=5) == 0
    assert await quiet.state([ONE], 0, total, full=True) == 3
    await quiet.append(ONE, "4")
    assert await quiet.state([ONE], 0, total, full=True) == 7
    assert await busy.state([ONE], 0, count, full=True) == CONTEXT_READ_WINDOW


LONG = 200_000
MEASURED = 40_000


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("engine_url", ["memory", "embedded"], indirect=True)
async def test_k2_constant_memory_and_a_free_event_loop(laser: ls.Laser) -> None:
    """K2: 200,000 messages of 40 MB in all, folded in a few MB, while other tasks run on."""
    scope = laser.context(ls.new_conversation_id())
    await _fill(scope, SESSIONS[0], LONG, size=200)
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            # The thread's own time: what others on the machine take is none of the fold's.
            ticks.append(time.thread_time())
            await anyio.sleep(0.001)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        assert await scope.state(SESSIONS, 0, total, full=True) == sum(range(LONG))
        tasks.cancel_scope.cancel()
    assert len(ticks) > 50
    gaps = sorted(after - before for before, after in itertools.pairwise(ticks))
    # One long pause may be the collector's; the loop as a whole must have had its turns.
    assert gaps[len(gaps) * 99 // 100] < 0.1

    # Tracing every allocation is slow, so the second fold begins further on.
    middle = {part.id: max(0, part.end - MEASURED) for part in (await laser.topic(SESSIONS[0])).partitions}
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        assert await scope.state(SESSIONS, 0, count, from_offsets={SESSIONS[0]: middle}) == MEASURED
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < 6 << 20
