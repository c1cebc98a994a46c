"""One Iggy node, killed (`kill -9`) while it is written to: nothing acknowledged is lost at `process` and `power`."""

from __future__ import annotations

import random

import anyio

import laser as ls
from laser.testing.server import IggyServer, run_iggy_server
from tests.survive.figures import Budget, Figures
from tests.survive.histories import PARTITIONS, TOPIC, Campaign, everything, visible
from tests.survive.iggy import need_server, version

_TASKS = 8


def run(budget: Budget, seed: int) -> Figures:
    """Rounds of writing, killing and starting again, for each durability on a topic of its own."""
    need_server()
    return anyio.run(_run, budget.choose(1, 15), seed)


async def _run(rounds: int, seed: int) -> Figures:
    found: dict[str, int] = {"acknowledged": 0}
    engine = ""
    async with run_iggy_server() as server:
        for durability in ("memory", "process", "power"):
            lost = copies = most = 0
            for number in range(rounds):
                done, gone, twice, engine = await _round(server, durability, f"{seed} {durability} {number}", number)
                found["acknowledged"] += done
                lost, copies, most = lost + gone, copies + twice, max(most, gone)
            found[f"lost at {durability}"] = lost
            if durability == "memory":
                found["most lost by one kill at memory"] = most
            else:
                found[f"visible duplicates at {durability}"] = copies
    figures = Figures(f"{3 * rounds} kills", found, engine=engine)
    if not found["lost at memory"]:
        figures.broken.append("nothing was lost at memory: the kills show nothing")
    return figures.must_be_zero(
        "lost at process", "lost at power", "visible duplicates at process", "visible duplicates at power"
    )


async def _round(server: IggyServer, durability: ls.Durability, seed: str, number: int) -> tuple[int, int, int, str]:
    rng = random.Random(seed)
    stream = f"{durability}-{number}"
    async with ls.Laser.connect(server.url, stream=stream, timeout=20) as laser:
        await laser.ensure_topic(TOPIC, PARTITIONS, durability=durability)
        campaign = Campaign(laser, number)
        async with anyio.create_task_group() as tasks:
            for task in range(_TASKS):
                tasks.start_soon(campaign.write, f"{seed} {task}")
            await _until(campaign, rng.randrange(200, 900))
            await server.kill()
            await server.start()
            await _until(campaign, len(campaign.acknowledged_at) + 50)
            campaign.stopped = True
        if campaign.strange:
            raise AssertionError(f"not laser's errors: {campaign.strange[:3]}")
        acknowledged = {o.value for o in campaign.operations if o.outcome == "acknowledged"}
        there = {seen.value for seen in await everything(laser)}
        texts = await visible(laser)
        engine = await version(laser)
        # At "memory" offsets are handed out again: only whether a value is still there can be asked.
        await laser.delete_topic(TOPIC)
        return len(acknowledged), len(acknowledged - there), len(texts) - len(set(texts)), engine


async def _until(campaign: Campaign, acknowledged: int) -> None:
    with anyio.fail_after(120):
        while len(campaign.acknowledged_at) < acknowledged:
            await anyio.sleep(0.005)
