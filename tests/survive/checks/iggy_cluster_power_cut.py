"""Three Iggy nodes, the power of all goes at once: no acknowledged message is lost but some of the newest."""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter
from pathlib import Path

import anyio
import anyio.to_thread

import laser as ls
from laser.testing.cluster import IggyCluster
from laser.testing.history import Operation, Seen
from tests.survive.disks import copy_disk, make_disk, mounted, need_disks
from tests.survive.figures import Budget, CannotRunError, Figures
from tests.survive.histories import PARTITIONS, TOPIC, Campaign, after_a_cut, everything
from tests.survive.iggy import need_server, version

_CUTS = 6
_SIZE = 1 << 30
_TASKS = 8


def run(budget: Budget, seed: int) -> Figures:
    """All nodes keep their data on one disk, so that a copy of it is one moment of all; see ``power_cut``.

    At ``power`` the primary's disk holds what was acknowledged, and the others follow a moment later. After a cut of
    all, another node may become the primary: then the moment is lost. That is not promised, so it is only counted.
    """
    need_server()
    need_disks()
    if not budget.long:
        raise CannotRunError("a cut takes half a minute, so it is tried in the long form only")
    found, most, engine = Counter[str](), 0, ""
    for durability in ("process", "power"):
        for number in range(_CUTS):
            lost, torn, acknowledged, engine = _cut(durability, random.Random(f"{seed} {durability} {number}"))
            found.update({"acknowledged": acknowledged, f"lost at {durability}": lost, "torn": torn})
            most = max(most, lost if durability == "power" else 0)
    return judge(dict(found) | {"most lost by one cut at power": most}, engine)


def judge(found: dict[str, int], engine: str) -> Figures:
    """What the counts say of the promise."""
    figures = Figures(f"{2 * _CUTS} cuts", found, engine=engine).must_be_zero("torn")
    most = found["most lost by one cut at power"]
    # So many appends were under way.
    if most > _TASKS:
        figures.broken.append(f"lost at power: {most} by one cut")
    if not found["lost at process"]:
        figures.broken.append("nothing was lost at process: the cuts show nothing")
    return figures


def _cut(durability: ls.Durability, rng: random.Random) -> tuple[int, int, int, str]:
    with tempfile.TemporaryDirectory(prefix="laser-power-") as text:
        place = Path(text)
        make_disk(place / "disk", _SIZE)
        with mounted(place / "disk", place / "live") as live, IggyCluster(directory=live) as cluster:
            operations, engine = anyio.run(_write, cluster, durability, rng, place)
        # At the same place and with the same addresses, as machines whose power is back.
        with mounted(place / "after", place / "live"), cluster:
            raw = anyio.run(_read, cluster)
    return *after_a_cut(operations, raw), len(operations), engine


async def _write(
    cluster: IggyCluster, durability: ls.Durability, rng: random.Random, place: Path
) -> tuple[list[Operation], str]:
    async with ls.Laser.connect(cluster.url, stream="survive", timeout=30) as laser:
        await laser.ensure_topic(TOPIC, PARTITIONS, durability=durability)
        engine = await version(laser)
        # What comes before is on the disk: the cut is to fall into the writing, not into the making.
        await anyio.to_thread.run_sync(os.sync)
        campaign = Campaign(laser, 1)
        async with anyio.create_task_group() as tasks:
            for task in range(_TASKS):
                tasks.start_soon(campaign.write, f"writer {task}")
            with anyio.fail_after(120):
                wanted = rng.randrange(50, 500)
                while len(campaign.acknowledged_at) < wanted:
                    await anyio.sleep(0.001)
            for node in cluster.nodes:
                node.process.pause()
            # Answers on their way arrive: they were given before the cut.
            await anyio.sleep(0.2)
            acknowledged = [one for one in campaign.operations if one.outcome == "acknowledged"]
            await anyio.to_thread.run_sync(copy_disk, place / "disk", place / "after")
            tasks.cancel_scope.cancel()
        for node in cluster.nodes:
            node.process.resume()
        return acknowledged, engine


async def _read(cluster: IggyCluster) -> list[Seen]:
    async with ls.Laser.connect(cluster.url, stream="survive", timeout=60) as laser:
        return await everything(laser)
