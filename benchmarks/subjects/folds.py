"""Folds: the whole of a conversation for the first and the second time, and what came after a checkpoint."""

from __future__ import annotations

import time
from typing import Any

import laser as ls
from benchmarks.bench import SESSIONS, Bench
from benchmarks.figures import LASER, RAW, SDK, Line, make_line
from benchmarks.filling import AGENT, PAYLOAD_BYTES, Workload, payloads
from benchmarks.measuring import Measured, Side, compare

__all__ = ["run", "weigh"]

_TOPICS = [SESSIONS]


def weigh(total: int, message: Any) -> int:
    """The fold: bytes of payload so far. Every client's messages have them."""
    return total + len(message.payload)


async def run(bench: Bench) -> list[Line]:
    """Measures on every engine."""
    lines: list[Line] = []
    for engine in bench.engines:
        workload = await bench.workload(engine)
        title = "full fold, first time in a process"
        lines += [await _first(bench, engine, workload, "fold.first", title), await _again(bench, engine, workload)]
        lines += [await _checkpoint(bench, engine, workload)]
        workload = await bench.single(engine, bench.size.loop_records)
        lines += [await _first(bench, engine, workload, "fold.long", "full fold of one long conversation, first time")]
    return lines


async def _first(bench: Bench, engine: str, workload: Workload, name: str, title: str) -> Line:
    """Each of our samples is of a client of its own, so that nothing is remembered; connecting does not count."""
    conversation = workload.busy[0]

    async def fold() -> Measured:
        async with ls.Laser.connect(workload.url, stream=workload.stream) as laser:
            context = laser.context(conversation)
            begun = time.perf_counter()
            total = await context.state(_TOPICS, 0, weigh, full=True)
            return Measured(time.perf_counter() - begun, total)

    async with bench.clients(workload.url, workload.stream) as clients:
        sides = {LASER: Side(fold)}
        if clients.sdk is not None:
            theirs = clients.sdk.context(conversation)
            sides[SDK] = Side(lambda: theirs.state(_TOPICS, 0, weigh, full=True))
        if clients.raw is not None:
            raw = clients.raw
            sides[RAW] = Side(lambda: raw.count_bytes(conversation))
        samples = await compare(sides, bench.size.slow_rounds)
    return make_line(
        name, title, engine, samples,
        records=workload.records, payload_bytes=PAYLOAD_BYTES,
    )  # fmt: skip


async def _again(bench: Bench, engine: str, workload: Workload) -> Line:
    conversation = workload.busy[0]
    async with bench.clients(workload.url, workload.stream) as clients:
        context = clients.laser.context(conversation)
        sides = {LASER: Side(lambda: context.state(_TOPICS, 0, weigh, full=True))}
        if clients.sdk is not None:
            theirs = clients.sdk.context(conversation)
            sides[SDK] = Side(lambda: theirs.state(_TOPICS, 0, weigh, full=True))
        samples = await compare(sides, bench.size.slow_rounds)
    return make_line(
        "fold.again", "full fold, second time in a process", engine, samples,
        records=workload.records, payload_bytes=PAYLOAD_BYTES,
    )  # fmt: skip


async def _checkpoint(bench: Bench, engine: str, workload: Workload) -> Line:
    """One record of the conversation stands after the checkpoint. Each client gets a checkpoint of its own making."""
    conversation = workload.busy[0]
    async with bench.clients(workload.url, workload.stream) as clients:
        context = clients.laser.context(conversation)
        ours = await context.checkpoint()
        sides = {LASER: Side(lambda: context.state(_TOPICS, 0, weigh, from_checkpoint=ours))}
        if clients.sdk is not None:
            their_context = clients.sdk.context(conversation)
            theirs = await their_context.checkpoint()
            sides[SDK] = Side(lambda: their_context.state(_TOPICS, 0, weigh, from_checkpoint=theirs))
        await context.append(SESSIONS, payloads(1)[0], agent=AGENT)
        samples = await compare(sides, bench.size.rounds)
    return make_line(
        "fold.checkpoint", "`state(from_checkpoint=…)`, 1 new record", engine, samples,
        records=workload.records, payload_bytes=PAYLOAD_BYTES,
    )  # fmt: skip
