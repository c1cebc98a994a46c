"""Ten thousand conversations on eight partitions, one hot: each is read whole and in order, in bounded memory."""

from __future__ import annotations

import json
import random
import sys
import tempfile
from typing import Any, Final

import anyio

import laser as ls
from laser.context.cache import CachedLog
from laser.limits import CONTEXT_READ_WINDOW, DEFAULT_CACHE_BYTES
from laser.testing.server import run_iggy_server
from tests.survive.apart import run_apart
from tests.survive.figures import Budget, Figures
from tests.survive.histories import TOPIC
from tests.survive.iggy import need_server, version
from tests.survive.resources import need_proc, peak_memory

_PARTITIONS: Final = 8
_WRITERS: Final = 8
_MOST: Final = 9
# What one read holds for a moment, and what the allocator keeps of it, beside what the cache may hold.
_MEGABYTES: Final = 96.0


def run(budget: Budget, seed: int) -> Figures:
    """On each engine in a process of its own; it is read by one client with the usual cache and one with a small."""
    need_proc()
    need_server()
    cache = budget.choose(1, 4) * 1024 * 1024
    arguments = (budget.choose(200, 10_000), budget.choose(11_000, 60_000), budget.choose(30, 300), cache, seed)
    sides: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="laser-load-") as place:
        sides["embedded"] = run_apart(__name__, f"embedded:{place}/data", *arguments)
    with run_iggy_server() as server:
        sides["iggy"] = run_apart(__name__, server.url, *arguments)
    found: dict[str, Any] = {}
    for name in ("messages", "fetches", "folds", "reads that are wrong", "over the cache's bound"):
        found[name] = sum(side[name] for side in sides.values())
    for engine, side in sides.items():
        found[f"memory to read on {engine}, MB"] = side["memory"]
    figures = Figures(
        f"{arguments[0]:,} conversations", found, engine=", ".join(side["engine"] for side in sides.values())
    )
    for engine, side in sides.items():
        if side["memory"] > _MEGABYTES:
            figures.broken.append(f"memory to read on {engine}: {side['memory']} MB, to be at most {_MEGABYTES}")
    return figures.must_be_zero("reads that are wrong", "over the cache's bound")


class _Conversation:
    """What is written to one conversation, and where it came to stand."""

    def __init__(self, name: str, count: int) -> None:
        self.key = ls.derive_conversation_id(name)
        self.count = count
        self.partition = -1
        self.offsets: list[int] = []

    async def write(self, laser: ls.Laser, most: int) -> None:
        first = len(self.offsets)
        texts = [f"{self.key} {number}" for number in range(first, min(first + most, self.count))]
        for receipt in await laser.context(self.key).append_many(TOPIC, texts):
            self.partition = receipt.partition
            self.offsets.append(receipt.offset)

    def texts(self, low: int = 0) -> list[str]:
        """What a reader of the offsets from ``low`` on gets."""
        return [f"{self.key} {number}" for number, offset in enumerate(self.offsets) if offset >= low]


async def _load(url: str, conversations: int, hot_messages: int, some: int, small_cache: int, seed: int) -> None:
    rng = random.Random(seed)
    quiet = [_Conversation(f"{seed} {number}", rng.randint(1, _MOST)) for number in range(conversations)]
    hot = _Conversation(f"{seed} hot", hot_messages)
    everyone = [*quiet, hot]
    few = [hot, *rng.sample(quiet, min(some, conversations))]
    found = {"fetches": 0, "folds": 0, "reads that are wrong": 0, "over the cache's bound": 0}
    async with ls.Laser.connect(url, stream="survive") as laser:
        await laser.ensure_topic(TOPIC, _PARTITIONS)
        await _fill(laser, quiet, hot, rng)
        parts = {part.id: part.end for part in (await laser.topic(TOPIC)).partitions}
    lows = {part: max(0, end - CONTEXT_READ_WINDOW) for part, end in parts.items()}
    rng.shuffle(everyone)

    async def fetch(laser: ls.Laser, conversation: _Conversation, bound: int) -> None:
        texts = [m.text for m in await laser.context(conversation.key).fetch(topics=[TOPIC], n=hot_messages)]
        found["fetches"] += 1
        found["reads that are wrong"] += texts != conversation.texts(lows[conversation.partition])
        log = laser.open_log()
        found["over the cache's bound"] += isinstance(log, CachedLog) and log.size > bound

    async with peak_memory() as reading:
        async with ls.Laser.connect(url, stream="survive") as laser:
            for conversation in everyone:
                await fetch(laser, conversation, DEFAULT_CACHE_BYTES)
        # The embedded engine has a cache only where one is asked for.
        async with ls.Laser.connect(url, stream="survive", cache=small_cache) as laser:
            for conversation in few:
                await fetch(laser, conversation, small_cache)
            for conversation in few:
                texts = await laser.context(conversation.key).state([TOPIC], [], _collect, full=True)
                found["folds"] += 1
                found["reads that are wrong"] += texts != conversation.texts()
                log = laser.open_log()
                found["over the cache's bound"] += isinstance(log, CachedLog) and log.size > small_cache
            engine = await version(laser)
    messages = sum(conversation.count for conversation in everyone)
    print(json.dumps(found | {"messages": messages, "memory": reading.megabytes, "engine": engine}))


async def _fill(laser: ls.Laser, quiet: list[_Conversation], hot: _Conversation, rng: random.Random) -> None:
    """Writers take turns through conversations of their own, while the hot one is written to all the time."""

    async def write(own: list[_Conversation]) -> None:
        rest = own
        while rest:
            for conversation in rest:
                await conversation.write(laser, rng.randint(1, _MOST))
            rest = [conversation for conversation in rest if len(conversation.offsets) < conversation.count]

    async def write_hot() -> None:
        while len(hot.offsets) < hot.count:
            await hot.write(laser, rng.randint(1, 40))

    async with anyio.create_task_group() as group:
        group.start_soon(write_hot)
        for number in range(_WRITERS):
            group.start_soon(write, quiet[number::_WRITERS])


def _collect(texts: list[str], message: ls.ContextMessage) -> list[str]:
    texts.append(message.text)
    return texts


if __name__ == "__main__":
    anyio.run(_load, sys.argv[1], *map(int, sys.argv[2:]))
