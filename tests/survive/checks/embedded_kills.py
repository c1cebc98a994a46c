"""Embedded: eight writers in four processes, killed at random (`kill -9`), lose nothing that was acknowledged."""

from __future__ import annotations

import random
import tempfile

import anyio
import anyio.to_thread

import laser as ls
from tests.survive.figures import Budget, Figures
from tests.survive.histories import MUST_BE_ZERO, PARTITIONS, TOPIC, Campaign, judge, summary
from tests.survive.killing import Writers

_PROCESSES = 4
_TASKS = 2


def run(budget: Budget, seed: int) -> Figures:
    """Half of the kills at durability ``process``, half at ``power``."""
    kills = budget.choose(20, 200)
    found: dict[str, int] = {}
    raw_copies = 0
    engine = ""
    for durability in ("process", "power"):
        figures, copies, engine = anyio.run(_turn, durability, kills // 2, seed)
        raw_copies += copies
        for name, figure in figures.items():
            found[name] = found.get(name, 0) + figure
    found["duplicates on the log"] = raw_copies
    return Figures(f"{kills} kills", found, engine=engine).must_be_zero(*MUST_BE_ZERO, "duplicates on the log")


async def _turn(durability: ls.Durability, kills: int, seed: int) -> tuple[dict[str, int], int, str]:
    rng = random.Random(f"{seed} {durability}")
    with tempfile.TemporaryDirectory(prefix="laser-survive-") as directory:
        url = f"embedded:{directory}/data"
        async with ls.Laser.connect(url, stream="survive") as laser:
            await laser.ensure_topic(TOPIC, PARTITIONS, durability=durability)
            campaign = Campaign(laser, seed)
            with Writers(url, "survive", _TASKS, durability) as writers:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(campaign.poll, "poller 1")
                    tasks.start_soon(campaign.poll, "poller 2")
                    await anyio.to_thread.run_sync(_kill, writers, kills, rng)
                    campaign.stopped = True
            operations = writers.operations()
            if writers.failures:
                raise AssertionError(f"appends failed: {writers.failures[:3]}")
            report = await judge(laser, [*operations, *campaign.operations])
            info = await laser.info()
            return summary(report), report.raw_copies, f"{info.engine} {info.version}"


def _kill(writers: Writers, kills: int, rng: random.Random) -> None:
    for _ in range(_PROCESSES):
        writers.start()
    for _ in range(kills):
        writers.wait_for(rng.randrange(1, 60))
        writers.kill(rng.choice(list(writers.living)))
        writers.start()
    writers.wait_for(20)
