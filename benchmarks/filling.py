"""Logs to read: conversations of agents that run side by side, so their records stand between each other's."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final

import anyio
import msgspec

import laser as ls

__all__ = ["AGENT", "Workload", "fill", "fill_conversations", "fill_single", "payloads"]

AGENT: Final = "planner"
CONVERSATIONS: Final = 50
PAYLOAD_BYTES: Final = 256
_BURST: Final = 20
_BATCH: Final = 1_000
_WRITERS: Final = 8
_QUIET_RECORDS: Final = 5
# Far enough back to be at the far end of what a fetch examines of its partition, and still within.
_AFTER_QUIET: Final = 24_000
_NOISE: Final = random.Random(1).randbytes(65_536).hex().encode()


class Workload(msgspec.Struct, frozen=True):
    """A filled log.

    Attributes:
        busy: conversations with about equally many records. quiet: one that has a few, written long before the end.
        records: of all together.
    """

    url: str
    stream: str
    busy: list[str]
    quiet: str
    records: int


def payloads(count: int, size: int = PAYLOAD_BYTES, *, start: int = 0) -> list[bytes]:
    """Payloads of ``size`` bytes, each different from the others."""
    numbers = range(start, start + count)
    return [(b"%012d " % number + _NOISE[number % 64 : number % 64 + size])[:size] for number in numbers]


async def fill(laser: ls.Laser, url: str, records: int) -> Workload:
    """Fills ``agent.sessions`` of a new stream."""
    busy = [ls.derive_conversation_id(f"busy-{number}") for number in range(CONVERSATIONS)]
    quiet = ls.derive_conversation_id("quiet")
    after = min(_AFTER_QUIET, records // 2)
    topic = ls.AgentTopic.Sessions
    await fill_conversations(laser, busy, records - after - _QUIET_RECORDS)
    await laser.context(quiet).append_many(topic, payloads(_QUIET_RECORDS), agent=AGENT)
    await fill_conversations(laser, busy, after, seed=2)
    return Workload(url, laser.stream, busy, quiet, records)


async def fill_single(laser: ls.Laser, url: str, records: int) -> Workload:
    """Fills ``agent.sessions`` of a new stream with one long conversation."""
    conversation = ls.derive_conversation_id("single")
    context, content = laser.context(conversation), payloads(_BATCH)
    for start in range(0, records, _BATCH):
        await context.append_many(ls.AgentTopic.Sessions, content[: records - start], agent=AGENT)
    return Workload(url, laser.stream, [conversation], conversation, records)


async def fill_conversations(
    laser: ls.Laser,
    conversations: Sequence[str],
    records: int,
    *,
    size: int = PAYLOAD_BYTES,
    burst: int = _BURST,
    seed: int = 1,
) -> None:
    """Appends records in bursts to conversations in random turns, from several tasks at once."""
    bursts = _bursts(conversations, records, burst, random.Random(seed))

    async def write() -> None:
        for conversation, count, start in bursts:
            await laser.context(conversation).append_many(
                ls.AgentTopic.Sessions, payloads(count, size, start=start), agent=AGENT
            )

    async with anyio.create_task_group() as group:
        for _ in range(_WRITERS):
            group.start_soon(write)


def _bursts(
    conversations: Sequence[str], records: int, burst: int, rng: random.Random
) -> Iterator[tuple[str, int, int]]:
    done = 0
    while done < records:
        count = min(rng.randint(1, 2 * burst - 1), records - done)
        yield rng.choice(conversations), count, done
        done += count
