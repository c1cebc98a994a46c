"""What it costs that an acknowledged record survives more: the same appends at each durability, in turns."""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

import anyio

import laser as ls
from benchmarks.bench import DURABILITY, RETENTION, Bench
from benchmarks.figures import LASER, LASER_MEMORY, LASER_POWER, Line, make_line
from benchmarks.filling import AGENT, PAYLOAD_BYTES, payloads
from benchmarks.measuring import Side, compare

__all__ = ["run"]

_TOPICS: Final[dict[str, ls.Durability]] = {LASER_MEMORY: "memory", LASER: DURABILITY, LASER_POWER: "power"}
_TASKS: Final = 50
_BATCH: Final = 1_000


class _Work(NamedTuple):
    """So many tasks, each of which appends so many records to a conversation of its own, singly or as one batch."""

    name: str
    title: str
    tasks: int
    records: int
    batch: bool = False


async def run(bench: Bench) -> list[Line]:
    """Measures on every engine, each time on the disk that its log is on."""
    block = bench.size.block
    works = (
        _Work("one", "`append`, one by one", 1, block),
        _Work("tasks", f"`append` from {_TASKS} tasks at once", _TASKS, max(1, block // 10)),
        _Work("batch", f"`append_many` of {_BATCH:,}", 1, _BATCH, batch=True),
    )
    lines: list[Line] = []
    for engine in bench.engines:
        url, stream = bench.place(engine, "durability")
        async with ls.Laser.connect(url, stream=stream) as laser:
            for durability in _TOPICS.values():
                await laser.ensure_topic(durability, 4, RETENTION, durability)
            lines += [await _measure(bench, engine, laser, work) for work in works]
            for durability in _TOPICS.values():
                await laser.delete_topic(durability)
    return lines


async def _measure(bench: Bench, engine: str, laser: ls.Laser, work: _Work) -> Line:
    content = payloads(work.records)
    scopes = [laser.context(ls.derive_conversation_id(f"{work.name}-{task}")) for task in range(work.tasks)]

    async def write(topic: str, scope: ls.ContextScope) -> None:
        if work.batch:
            await scope.append_many(topic, content, agent=AGENT)
            return
        for payload in content:
            await scope.append(topic, payload, agent=AGENT)

    async def call(topic: str) -> None:
        async with anyio.create_task_group() as group:
            for scope in scopes:
                group.start_soon(write, topic, scope)

    async def read_back(topic: str, _: object) -> list[list[bytes]]:
        found = [await scope.fetch(topics=[topic], n=len(content)) for scope in scopes]
        return [[message.payload for message in messages] for messages in found]

    sides = {side: Side(partial(call, topic), partial(read_back, topic)) for side, topic in _TOPICS.items()}
    samples = await compare(sides, bench.size.slow_rounds)
    return make_line(
        f"durability.{work.name}", work.title, engine, samples,
        work=work.tasks * len(content), payload_bytes=PAYLOAD_BYTES,
    )  # fmt: skip
