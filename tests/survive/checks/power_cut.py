"""Embedded: the power goes while it is written to: nothing is lost at `power`, a whole beginning stays at `process`."""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter
from pathlib import Path

import anyio

import laser as ls
from laser.testing.history import Operation
from tests.survive.disks import MORE_CUTS, copy_disk, make_disk, mounted, need_disks
from tests.survive.figures import Budget, Figures
from tests.survive.histories import PARTITIONS, TOPIC, after_a_cut, everything, visible
from tests.survive.killing import Writers

_SIZE = 96 << 20


def run(budget: Budget, seed: int) -> Figures:
    """Cuts on file systems in an image: the writers stop, the image is copied, the copy is mounted and opened.

    What the kernel had not given to the disk is not in the copy, as after a power cut. The figure for ``process`` shows
    that the cuts bite.
    """
    need_disks()
    cuts = budget.choose(2, 40)
    found = Counter[str]()
    engine = ""
    done = 0
    for durability in ("process", "power"):
        rng = random.Random(f"{seed} {durability}")
        for number in range(cuts // 2 + MORE_CUTS):
            # At "process" a cut takes nothing where the kernel happened to write everything just before.
            if number >= cuts // 2 and (durability == "power" or found["lost at process"]):
                break
            counted, engine = _cut(durability, rng)
            found.update(counted)
            done += 1
    figures = Figures(f"{done} cuts", dict(found), engine=engine).must_be_zero("lost at power", "torn")
    if not found["lost at process"]:
        figures.broken.append("nothing was lost at process: the cuts show nothing")
    return figures


def _cut(durability: ls.Durability, rng: random.Random) -> tuple[dict[str, int], str]:
    with tempfile.TemporaryDirectory(prefix="laser-power-") as text:
        place = Path(text)
        make_disk(place / "disk", _SIZE)
        with mounted(place / "disk", place / "live") as live:
            # What comes before is on the disk: the cut is to fall into the writing, not into the making.
            anyio.run(_make, live / "data", durability)
            os.sync()
            with Writers(f"embedded:{live / 'data'}", "survive", 4, durability) as writers:
                writers.start()
                writers.start()
                writers.wait_for(rng.randrange(30, 300))
                writers.pause()
                copy_disk(place / "disk", place / "after")
            operations = writers.operations()
        with mounted(place / "after", place / "again") as again:
            return anyio.run(_look, again / "data", durability, operations)


async def _make(directory: Path, durability: ls.Durability) -> None:
    async with ls.Laser.connect(f"embedded:{directory}", stream="survive") as laser:
        await laser.ensure_topic(TOPIC, PARTITIONS, durability=durability)


async def _look(directory: Path, durability: ls.Durability, operations: list[Operation]) -> tuple[dict[str, int], str]:
    async with ls.Laser.connect(f"embedded:{directory}", stream="survive") as laser:
        raw = await everything(laser)
        lost, torn = after_a_cut(operations, raw)
        torn += sorted(await visible(laser)) != sorted(one.value for one in raw)
        # And it can be written to again.
        await laser.context(operations[0].key).append(TOPIC, "after")
        acknowledged = sum(one.outcome == "acknowledged" for one in operations)
        info = await laser.info()
        counted = {"acknowledged": acknowledged, f"lost at {durability}": lost, "torn": torn}
        return counted, f"{info.engine} {info.version}"
