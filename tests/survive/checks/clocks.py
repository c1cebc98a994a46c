"""Embedded: the clock goes back an hour, forward ten years, or stands still. Order and offsets stay as appended."""

from __future__ import annotations

import itertools
import random
import tempfile

import anyio

import laser as ls
from laser.client.opening import read_target
from laser.engines.sqlite import open_sqlite_log
from laser.testing.clock import SetClock
from tests.survive.figures import Budget, Figures
from tests.survive.histories import KEYS, PARTITIONS, TOPIC

_STEPS = (0.0, 0.0, 0.000_001, 1.0, -3_600.0, 3_600.0, 10 * 365.25 * 86_400, -10 * 365.25 * 86_400)


def run(budget: Budget, seed: int) -> Figures:
    """Two clients with clocks of their own, each stepping at random between appends, closed and opened now and then."""
    return anyio.run(_run, budget.choose(400, 10_000), seed)


async def _run(appends: int, seed: int) -> Figures:
    rng = random.Random(seed)
    clocks = [SetClock(), SetClock()]
    found = {"clock steps": 0, "out of order": 0, "lost": 0, "timestamps that go back": 0, "silent skips": 0}
    said: list[str] = []
    with tempfile.TemporaryDirectory(prefix="laser-clock-") as place:
        clients = [await _open(place, clock) for clock in clocks]
        await clients[0].ensure_topic(TOPIC, PARTITIONS)
        start = await clients[0].context(KEYS[0]).checkpoint([TOPIC])
        for number in range(appends):
            which = rng.randrange(2)
            clocks[which].step(rng.choice(_STEPS))
            clocks[which].micros = max(0, clocks[which].micros)
            found["clock steps"] += 1
            await clients[which].context(KEYS[0]).append(TOPIC, f"{number}")
            said.append(f"{number}")
            if rng.random() < 0.02:
                await clients[which].aclose()
                clients[which] = await _open(place, clocks[which])
            if rng.random() < 0.05:
                texts = [m.text for m in await clients[1 - which].context(KEYS[0]).fetch(topics=[TOPIC], n=50)]
                found["out of order"] += texts != said[-50:]
        for laser in clients:
            scope = laser.context(KEYS[0])

            def collect(texts: list[str], message: ls.ContextMessage) -> list[str]:
                texts.append(message.text)
                return texts

            found["lost"] += await scope.state([TOPIC], [], collect, full=True) != said
            found["silent skips"] += await scope.state([TOPIC], [], collect, from_checkpoint=start) != said
            times = [message.timestamp_micros for message in await scope.fetch(topics=[TOPIC], n=10_000)]
            found["timestamps that go back"] += sum(b < a for a, b in itertools.pairwise(times))
        info = await clients[0].info()
        for laser in clients:
            await laser.aclose()
    figures = Figures(f"{appends} appends", found, engine=f"{info.engine} {info.version}")
    return figures.must_be_zero("out of order", "lost", "timestamps that go back", "silent skips")


async def _open(place: str, clock: SetClock) -> ls.Laser:
    log = await open_sqlite_log(place, clock=clock)
    return ls.Laser(log, read_target(f"embedded:{place}", None, "survive", None, 30.0))
