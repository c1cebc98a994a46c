"""Background batching: many conversations append one record at a time, and all of them are acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import anyio

from benchmarks.bench import SESSIONS, Bench, Clients
from benchmarks.figures import LASER, RAW, SDK, SDK_SINGLY, Line, make_line
from benchmarks.filling import AGENT, PAYLOAD_BYTES, payloads
from benchmarks.measuring import Side, compare
from benchmarks.peers.facts import provenance_headers
from benchmarks.peers.sdk import append_singly
from laser import derive_conversation_id

__all__ = ["run"]

_CONVERSATIONS = 20

Write = Callable[[Sequence[str], Sequence[bytes]], Coroutine[Any, Any, object]]
"""Writes the payloads to each of the conversations, side by side, and returns when all are acknowledged."""


async def run(bench: Bench) -> list[Line]:
    """Measures on every engine."""
    lines: list[Line] = []
    for engine in bench.engines:
        async with bench.empty(engine, "batching") as clients:
            content = payloads(bench.size.block)
            sides = {name: _side(clients, name, write, content) for name, write in _writers(clients).items()}
            samples = await compare(sides, bench.size.slow_rounds)
            lines.append(
                make_line(
                    "batching.spread", f"`batching()`, {_CONVERSATIONS} conversations at once", engine, samples,
                    work=_CONVERSATIONS * len(content), payload_bytes=PAYLOAD_BYTES,
                )
            )  # fmt: skip
    return lines


def _writers(clients: Clients) -> dict[str, Write]:
    async def ours(conversations: Sequence[str], content: Sequence[bytes]) -> None:
        async with clients.laser.batching() as batch:

            async def write(conversation: str) -> None:
                for payload in content:
                    await batch.append(conversation, SESSIONS, payload, agent=AGENT)

            await _at_once(write, conversations)

    writers: dict[str, Write] = {LASER: ours}
    sdk, raw = clients.sdk, clients.raw
    if sdk is not None:

        async def theirs(conversations: Sequence[str], content: Sequence[bytes]) -> None:
            async def write(conversation: str) -> None:
                headers = provenance_headers(conversation)
                batch = sdk.topic(SESSIONS).batching(partition_key=conversation)
                for payload in content:
                    await batch.send(payload, headers=headers)
                await batch.close()

            await _at_once(write, conversations)

        async def singly(conversations: Sequence[str], content: Sequence[bytes]) -> None:
            await _at_once(lambda conversation: append_singly(sdk.context(conversation), content), conversations)

        writers |= {SDK: theirs, SDK_SINGLY: singly}
    if raw is not None:

        async def batches(conversations: Sequence[str], content: Sequence[bytes]) -> None:
            await _at_once(lambda conversation: raw.append(conversation, content), conversations)

        writers[RAW] = batches
    return writers


async def _at_once(write: Callable[[str], Coroutine[Any, Any, object]], conversations: Sequence[str]) -> None:
    async with anyio.create_task_group() as group:
        for conversation in conversations:
            group.start_soon(write, conversation)


def _side(clients: Clients, name: str, write: Write, content: list[bytes]) -> Side:
    conversations = [derive_conversation_id(f"{name}-{number}") for number in range(_CONVERSATIONS)]

    async def read_back(_: object) -> list[list[bytes]]:
        found = [await clients.laser.context(one).fetch(n=len(content)) for one in conversations]
        return [[message.payload for message in messages] for messages in found]

    return Side(lambda: write(conversations, content), read_back)
