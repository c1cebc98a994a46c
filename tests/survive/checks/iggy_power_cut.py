"""One Iggy node, the power goes while it is written to: nothing acknowledged at `power` is lost."""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter
from pathlib import Path

import anyio
import anyio.to_thread

import laser as ls
from laser.testing.server import IggyServer
from tests.survive.disks import MORE_CUTS, copy_disk, make_disk, mounted, need_disks
from tests.survive.figures import Budget, Figures
from tests.survive.histories import PARTITIONS, TOPIC, Campaign, everything
from tests.survive.iggy import need_server, version

_SIZE = 512 << 20


def run(budget: Budget, seed: int) -> Figures:
    """The server is stopped, its disk copied, and a new server started on the copy; see ``power_cut``."""
    need_server()
    need_disks()
    cuts = budget.choose(2, 20)
    found, engine = Counter[str](), ""
    done = 0
    for durability in ("process", "power"):
        for number in range(cuts // 2 + MORE_CUTS):
            # At "process" a cut takes nothing where the kernel happened to write everything just before.
            if number >= cuts // 2 and (durability == "power" or found["lost at process"]):
                break
            counted, engine = _cut(durability, random.Random(f"{seed} {durability} {number}"))
            found.update(counted)
            done += 1
    figures = Figures(f"{done} cuts", dict(found), engine=engine).must_be_zero("lost at power")
    if not found["lost at process"]:
        figures.broken.append("nothing was lost at process: the cuts show nothing")
    return figures


def _cut(durability: ls.Durability, rng: random.Random) -> tuple[dict[str, int], str]:
    with tempfile.TemporaryDirectory(prefix="laser-power-") as text:
        place = Path(text)
        make_disk(place / "disk", _SIZE)
        with mounted(place / "disk", place / "live") as live:
            (live / "server").mkdir()
            with IggyServer(directory=live / "server") as server:
                acknowledged, engine = anyio.run(_write, server, durability, rng, place)
        with mounted(place / "after", place / "again") as again, IggyServer(directory=again / "server") as server:
            there = anyio.run(_read, server)
    return {"acknowledged": len(acknowledged), f"lost at {durability}": len(acknowledged - there)}, engine


async def _write(
    server: IggyServer, durability: ls.Durability, rng: random.Random, place: Path
) -> tuple[set[str], str]:
    async with ls.Laser.connect(server.url, stream="survive", timeout=60) as laser:
        await laser.ensure_topic(TOPIC, PARTITIONS, durability=durability)
        engine = await version(laser)
        # What comes before is on the disk: the cut is to fall into the writing, not into the making.
        await anyio.to_thread.run_sync(os.sync)
        campaign = Campaign(laser, 1)
        async with anyio.create_task_group() as tasks:
            for task in range(8):
                tasks.start_soon(campaign.write, f"writer {task}")
            with anyio.fail_after(120):
                wanted = rng.randrange(50, 500)
                while len(campaign.acknowledged_at) < wanted:
                    await anyio.sleep(0.001)
            server.process.pause()
            # Answers on their way arrive: they were given before the cut.
            await anyio.sleep(0.2)
            acknowledged = {one.value for one in campaign.operations if one.outcome == "acknowledged"}
            await anyio.to_thread.run_sync(copy_disk, place / "disk", place / "after")
            tasks.cancel_scope.cancel()
        server.process.resume()
        return acknowledged, engine


async def _read(server: IggyServer) -> set[str]:
    async with ls.Laser.connect(server.url, stream="survive") as laser:
        return {seen.value for seen in await everything(laser)}
