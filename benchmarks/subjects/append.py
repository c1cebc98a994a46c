"""Appends: one by one, as batches, from many tasks at once, with payloads of many sizes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import anyio

from benchmarks.bench import SESSIONS, Bench, Clients
from benchmarks.figures import LASER, RAW, SDK, SDK_SINGLY, Line, make_line
from benchmarks.filling import AGENT, payloads
from benchmarks.measuring import Side, compare
from benchmarks.peers.sdk import append_singly, send_batch
from laser import Laser, derive_conversation_id

__all__ = ["run"]

_BATCH = 1_000
_TASKS = 50

Write = Callable[[str, Sequence[bytes]], Coroutine[Any, Any, object]]
"""Writes payloads to a conversation, in order, and returns when all of them are acknowledged."""


async def run(bench: Bench) -> list[Line]:
    """Measures on every engine."""
    lines: list[Line] = []
    for engine in bench.engines:
        async with bench.empty(engine, "append") as clients:
            lines += [await _one_by_one(bench, engine, clients, size) for size in bench.size.payloads]
            lines += [await _batches(bench, engine, clients), await _tasks(bench, engine, clients)]
    return lines


async def _one_by_one(bench: Bench, engine: str, clients: Clients, size: int) -> Line:
    content = payloads(bench.size.block, size)
    sides = {name: _side(clients, name, write, content) for name, write in _singly(clients).items()}
    rounds = bench.size.rounds if size == 256 else bench.size.slow_rounds
    samples = await compare(sides, rounds)
    return make_line(
        "append.one", "`append`, one by one", engine, samples,
        scale=1e3 / len(content), work=1, payload_bytes=size,
    )  # fmt: skip


async def _batches(bench: Bench, engine: str, clients: Clients) -> Line:
    content = payloads(_BATCH)
    writes: dict[str, Write] = {LASER: _append_many(clients.laser)}
    if clients.raw is not None:
        writes[RAW] = clients.raw.append
    if clients.sdk is not None:
        producer = clients.sdk.topic(SESSIONS).producer(create_topic=False)
        writes[SDK] = lambda conversation, some: send_batch(producer, conversation, some)
        writes[SDK_SINGLY] = _singly(clients)[SDK]
    sides = {name: _side(clients, name, write, content) for name, write in writes.items()}
    samples = await compare(sides, bench.size.slow_rounds)
    return make_line(
        "append.batch", f"`append_many` of {_BATCH:,}", engine, samples, work=_BATCH, payload_bytes=256
    )  # fmt: skip


async def _tasks(bench: Bench, engine: str, clients: Clients) -> Line:
    """Every task has a conversation of its own, and awaits each append."""
    content = payloads(max(1, bench.size.block // 10))
    sides = {name: _spread(clients, name, write, content) for name, write in _singly(clients).items()}
    samples = await compare(sides, bench.size.slow_rounds)
    return make_line(
        "append.tasks", f"`append` from {_TASKS} tasks at once", engine, samples,
        work=_TASKS * len(content), payload_bytes=256,
    )  # fmt: skip


def _singly(clients: Clients) -> dict[str, Write]:
    writes = {LASER: _append_singly(clients.laser)}
    sdk, raw = clients.sdk, clients.raw
    if sdk is not None:
        writes[SDK] = lambda conversation, content: append_singly(sdk.context(conversation), content)
    if raw is not None:

        async def append_raw(conversation: str, content: Sequence[bytes]) -> None:
            for payload in content:
                await raw.append(conversation, [payload])

        writes[RAW] = append_raw
    return writes


def _append_singly(laser: Laser) -> Write:
    async def write(conversation: str, content: Sequence[bytes]) -> None:
        context = laser.context(conversation)
        for payload in content:
            await context.append(SESSIONS, payload, agent=AGENT)

    return write


def _append_many(laser: Laser) -> Write:
    async def write(conversation: str, content: Sequence[bytes]) -> None:
        await laser.context(conversation).append_many(SESSIONS, content, agent=AGENT)

    return write


def _side(clients: Clients, name: str, write: Write, content: list[bytes]) -> Side:
    conversation = derive_conversation_id(name)

    async def read_back(_: object) -> list[bytes]:
        return await _newest(clients.laser, conversation, len(content))

    return Side(lambda: write(conversation, content), read_back)


def _spread(clients: Clients, name: str, write: Write, content: list[bytes]) -> Side:
    conversations = [derive_conversation_id(f"{name}-{task}") for task in range(_TASKS)]

    async def call() -> None:
        async with anyio.create_task_group() as group:
            for conversation in conversations:
                group.start_soon(write, conversation, content)

    async def read_back(_: object) -> list[list[bytes]]:
        return [await _newest(clients.laser, conversation, len(content)) for conversation in conversations]

    return Side(call, read_back)


async def _newest(laser: Laser, conversation: str, count: int) -> list[bytes]:
    return [message.payload for message in await laser.context(conversation).fetch(n=count)]
