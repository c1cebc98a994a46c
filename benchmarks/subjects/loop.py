"""How long the event loop of a program has to wait while a large read is under way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import anyio

import laser as ls
from benchmarks.bench import DURABILITY, RETENTION, SESSIONS, Bench, Clients
from benchmarks.figures import LASER, SDK, Line, make_line
from benchmarks.filling import AGENT, PAYLOAD_BYTES, payloads
from benchmarks.measuring import Measured, Side, compare, largest_gap
from benchmarks.subjects.folds import weigh

__all__ = ["run"]

_IDLE: Final = "nothing"
_IDLE_SECONDS: Final = 0.5
_BATCH: Final = 1_000


async def run(bench: Bench) -> list[Line]:
    """Measures on every engine. All records are one conversation's; beside them the pauses of an idle loop."""
    lines: list[Line] = []
    for engine in bench.engines:
        lines += [await _fetch(bench, engine), await _fold(bench, engine)]
    return lines


async def _fetch(bench: Bench, engine: str) -> Line:
    """From several topics: a read examines 10,000 records of a partition, so that many take several to fetch."""
    total = bench.size.loop_records
    per_topic = min(total, ls.CONTEXT_READ_WINDOW)
    topics = [f"loop-{number}" for number in range(-(-total // per_topic))]
    conversation = ls.derive_conversation_id("loop")
    async with bench.empty(engine, "loop") as clients:
        for topic in topics:
            await clients.laser.ensure_topic(topic, 4, RETENTION, DURABILITY)
            await _append(clients, conversation, topic, per_topic)
        return await _measure(
            bench, engine, clients, "fetch", f"fetch of {total:,} records",
            lambda client: client.context(conversation).fetch(topics=topics, n=total), len,
        )  # fmt: skip


async def _fold(bench: Bench, engine: str) -> Line:
    total = bench.size.loop_records
    workload = await bench.single(engine, total)
    async with bench.clients(workload.url, workload.stream) as clients:
        return await _measure(
            bench, engine, clients, "fold", f"fold of {total:,} records",
            lambda client: client.context(workload.busy[0]).state([SESSIONS], 0, weigh, full=True), int,
        )  # fmt: skip


async def _append(clients: Clients, conversation: str, topic: str, records: int) -> None:
    content = payloads(_BATCH)
    context = clients.laser.context(conversation)
    for start in range(0, records, _BATCH):
        await context.append_many(topic, content[: records - start], agent=AGENT)


async def _measure(
    bench: Bench,
    engine: str,
    clients: Clients,
    name: str,
    title: str,
    read: Callable[[Any], Awaitable[Any]],
    size: Callable[[Any], int],
) -> Line:
    async def ours() -> Measured:
        # A client of its own each time: what is remembered from the last one would make it easy.
        async with ls.Laser.connect(clients.url, stream=clients.stream) as laser:
            return await _gap(read, laser, size)

    sides = {LASER: Side(ours)}
    if clients.sdk is not None:
        sides[SDK] = Side(partial(_gap, read, clients.sdk, size))
    samples = await compare(sides, bench.size.slow_rounds)
    samples[_IDLE] = [await largest_gap(partial(anyio.sleep, _IDLE_SECONDS)) for _ in samples[LASER]]
    return make_line(
        f"loop.{name}", f"longest pause of the event loop, {title}", engine, samples,
        records=bench.size.loop_records, payload_bytes=PAYLOAD_BYTES,
    )  # fmt: skip


async def _gap(read: Callable[[Any], Awaitable[Any]], client: Any, size: Callable[[Any], int]) -> Measured:
    # What was read is let go of when the clock has stopped: when that happens is the reader's business.
    results: list[Any] = []

    async def work() -> None:
        results.append(await read(client))

    gap = await largest_gap(work)
    return Measured(gap, [size(result) for result in results])
