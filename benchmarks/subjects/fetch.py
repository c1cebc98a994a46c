"""Fetches: the newest messages of a conversation; warm, first of a process, many, and of large payloads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import laser as ls
from benchmarks.bench import SESSIONS, Bench, Clients
from benchmarks.figures import LASER, RAW, SDK, Line, make_line
from benchmarks.filling import AGENT, PAYLOAD_BYTES, Workload, fill_conversations, payloads
from benchmarks.fresh import run_fresh
from benchmarks.measuring import Measured, Side, compare
from benchmarks.peers.facts import our_facts
from benchmarks.peers.sdk import sdk_facts

__all__ = ["run"]

_NO_CACHE: Final = "laser, cache=0"
_SIZED_BYTES: Final = 64_000_000
_NEW: Final = 10


async def run(bench: Bench) -> list[Line]:
    """Measures on every engine."""
    lines: list[Line] = []
    for engine in bench.engines:
        workload = await bench.workload(engine)
        async with bench.clients(workload.url, workload.stream) as clients:
            if engine == "embedded":
                lines += [await _warm(bench, engine, workload, clients, "fetch.newest", "`fetch(n=50)`", n=50)]
            else:
                title = "warm `fetch(n=50)`, nothing new"
                lines += [await _warm(bench, engine, workload, clients, "fetch.unchanged", title, n=50)]
                lines += [await _ten_new(bench, workload, clients)]
            lines += [await _warm(bench, engine, workload, clients, "fetch.thousand", "`fetch(n=1000)`", n=1_000)]
        lines += [await _first(bench, engine, workload, "busy", workload.busy)]
        lines += [await _first(bench, engine, workload, "quiet", [workload.quiet])]
        for size in bench.size.payloads:
            lines += [await _sized(bench, engine, size)]
    return lines


async def _warm(
    bench: Bench, engine: str, workload: Workload, clients: Clients, name: str, title: str, *, n: int
) -> Line:
    sides = _sides(clients, workload.busy[0], n)
    if engine == "iggy":
        async with ls.Laser.connect(workload.url, stream=workload.stream, cache=0) as uncached:
            context = uncached.context(workload.busy[0])
            sides[_NO_CACHE] = Side(lambda: context.fetch(n=n), our_facts)
            samples = await compare(sides, bench.size.rounds)
    else:
        samples = await compare(sides, bench.size.rounds, times=20)
    return make_line(name, title, engine, samples, n=n, records=workload.records, payload_bytes=PAYLOAD_BYTES)


async def _ten_new(bench: Bench, workload: Workload, clients: Clients) -> Line:
    """Another client appends to the conversation before each round, so each side finds the same ten new records."""
    conversation = workload.busy[1]
    async with ls.Laser.connect(workload.url, stream=workload.stream) as writer:

        async def append() -> None:
            await writer.context(conversation).append_many(SESSIONS, payloads(_NEW), agent=AGENT)

        samples = await compare(_sides(clients, conversation, 50), bench.size.rounds, before=append, warm_up=0)
    return make_line(
        "fetch.ten_new", f"warm `fetch(n=50)`, {_NEW} new records since", "iggy", samples,
        n=50, records=workload.records, payload_bytes=PAYLOAD_BYTES,
    )  # fmt: skip


async def _first(bench: Bench, engine: str, workload: Workload, kind: str, conversations: Sequence[str]) -> Line:
    """Each sample is of a process of its own; connecting does not count."""
    names = [LASER, SDK] if engine == "iggy" and "laser-sdk" not in bench.skipped else [LASER]
    turn = dict.fromkeys(names, 0)

    async def call(name: str) -> Measured:
        conversation = conversations[turn[name] % len(conversations)]
        turn[name] += 1
        fresh = await run_fresh("fetch", name, workload.url, workload.stream, conversation)
        return Measured(fresh.seconds, fresh.facts)

    samples = await compare({name: Side(partial(call, name)) for name in names}, bench.size.processes, warm_up=0)
    return make_line(
        f"fetch.first_{kind}", f"first `fetch(n=50)` of a process, {kind} conversation", engine, samples,
        n=50, records=workload.records, payload_bytes=PAYLOAD_BYTES,
    )  # fmt: skip


async def _sized(bench: Bench, engine: str, size: int) -> Line:
    """On a log of at most 64 MB, with 10 conversations."""
    records = min(bench.size.records, 10_000, _SIZED_BYTES // size)
    conversations = [ls.derive_conversation_id(f"sized-{number}") for number in range(10)]
    async with bench.empty(engine, f"fetch-{size}") as clients:
        await fill_conversations(clients.laser, conversations, records, size=size, burst=5)
        samples = await compare(_sides(clients, conversations[0], 50), bench.size.slow_rounds)
    return make_line(
        "fetch.payload", "`fetch(n=50)` by payload", engine, samples, n=50, records=records, payload_bytes=size
    )


def _sides(clients: Clients, conversation: str, n: int) -> dict[str, Side]:
    context = clients.laser.context(conversation)
    sides = {LASER: Side(lambda: context.fetch(n=n), our_facts)}
    if clients.sdk is not None:
        theirs = clients.sdk.context(conversation)
        sides[SDK] = Side(lambda: theirs.fetch(n=n), sdk_facts)
    if clients.raw is not None:
        raw = clients.raw
        sides[RAW] = Side(lambda: raw.newest(conversation, n))
    return sides
