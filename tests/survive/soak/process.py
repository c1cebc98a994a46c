"""A process of agents on one log: ``python -m tests.survive.soak.process ARGUMENTS``, one JSON object.

Each line that it prints is one JSON array: ``["begin", …]`` and ``["done", …]`` as those of ``tests.survive.writer``,
``["held", …]`` with the fields of ``Held``, and at the end ``["end", counts, seen, longest, left]``; ``left`` is what
is still open after every client was closed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

import anyio
import msgspec

import laser as ls
from tests.survive.histories import PARTITIONS, TOPIC
from tests.survive.resources import Held, look
from tests.survive.soak.agent import Soak, say
from tests.survive.soak.coming import come_and_go
from tests.survive.soak.staying import stay

# Seconds. A driver on a machine that does other things too may need some of them.
_LETS_GO_IN: Final = 10.0


class Arguments(msgspec.Struct):
    """What the process is to do; the rest as ``Soak`` has it.

    Attributes:
        agents: that come and go. every: seconds between two looks at what is held.
        fill: records of each partition before they begin, of ``padding`` bytes: so that their reads are as long at the
            start as at the end, and what caches may hold is held from the beginning on.
    """

    url: str
    stream: str
    seed: int
    seconds: float
    pause: float
    life: float
    timeout: float
    cache: int | None
    agents: int
    every: float
    fill: int
    padding: int


async def main(arguments: Arguments) -> None:
    soak = Soak(
        arguments.url, arguments.stream, arguments.seed,
        pause=arguments.pause, life=arguments.life, timeout=arguments.timeout, cache=arguments.cache,
    )  # fmt: skip
    # A driver may keep threads and descriptors of its own from its first use on.
    laser = await soak.connect()
    for topic in (TOPIC, ls.AgentTopic.Snapshots):
        await laser.ensure_topic(topic, PARTITIONS, durability="power")
    await laser.aclose()
    before = look(0.0)
    staying = await stay(soak)
    await staying.fill(arguments.fill, arguments.padding)
    soak.until = time.monotonic() + arguments.seconds
    async with anyio.create_task_group() as watching:
        watching.start_soon(_watch, arguments.every)
        async with anyio.create_task_group() as group:
            group.start_soon(staying.run)
            for number in range(arguments.agents):
                group.start_soon(come_and_go, soak, f"writer{number}")
        watching.cancel_scope.cancel()
    descriptors = await _settled(lambda held: held.descriptors - before.descriptors)
    tasks = await _settled(lambda held: held.tasks - before.tasks)
    left = {"descriptors": descriptors, "tasks": tasks}
    say("end", dict(soak.counts), list(soak.seen), soak.longest, left)


async def _watch(every: float) -> None:
    began = time.monotonic()
    while True:
        held = look(time.monotonic() - began)
        say("held", *msgspec.structs.astuple(held))
        await anyio.sleep(every)


async def _settled(more: Callable[[Held], int]) -> int:
    """How much more there is than before; a driver may need a moment to let go."""
    give_up = time.monotonic() + _LETS_GO_IN
    while (count := more(look(0.0))) > 0 and time.monotonic() < give_up:
        await anyio.sleep(0.05)
    return max(0, count)


if __name__ == "__main__":
    anyio.run(main, msgspec.json.decode(sys.argv[1], type=Arguments))
