"""Iggy is killed in the middle of a long fold: the same result as undisturbed, and nothing folded twice."""

from __future__ import annotations

import hashlib
import random
import time

import anyio

import laser as ls
from laser.testing.server import run_iggy_server
from tests.survive.figures import Budget, Figures
from tests.survive.histories import KEYS, PARTITIONS, TOPIC
from tests.survive.iggy import need_server, version

_BATCH = 5_000


def run(budget: Budget, seed: int) -> Figures:
    """A fold that chains hashes, so that any record left out, doubled or moved changes its result."""
    need_server()
    return anyio.run(_run, budget.choose(20_000, 100_000), budget.choose(1, 5), seed)


def _chain(state: str, message: ls.ContextMessage) -> str:
    return hashlib.blake2b(state.encode() + message.payload, digest_size=16).hexdigest()


async def _run(records: int, times: int, seed: int) -> Figures:
    rng = random.Random(seed)
    longest, differs, twice = 0.0, 0, 0
    async with run_iggy_server() as server:
        async with ls.Laser.connect(server.url, stream="survive") as laser:
            await laser.ensure_topic(TOPIC, PARTITIONS)
            scope = laser.context(KEYS[0])
            for start in range(0, records, _BATCH):
                await scope.append_many(TOPIC, [f"{number}" for number in range(start, start + _BATCH)])
            undisturbed = await scope.state([TOPIC], "", _chain, full=True)
            engine = await version(laser)
        for _ in range(times):
            seen, at = 0, rng.randrange(records // 4, records * 3 // 4)

            async def disturbed(state: str, message: ls.ContextMessage, at: int = at) -> str:
                nonlocal seen
                seen += 1
                if seen == at:
                    await server.restart(kill=True)
                return _chain(state, message)

            # Nothing kept from before: every record comes from the server.
            async with ls.Laser.connect(server.url, stream="survive", cache=0) as fresh:
                began = time.monotonic()
                differs += await fresh.context(KEYS[0]).state([TOPIC], "", disturbed, full=True) != undisturbed
                longest = max(longest, time.monotonic() - began)
            twice += seen != records
    found = {"records": records, "other results": differs, "folded twice or not": twice}
    found_all = found | {"seconds, longest": round(longest, 1)}
    return Figures(f"{times} kills", found_all, engine=engine).must_be_zero("other results", "folded twice or not")
