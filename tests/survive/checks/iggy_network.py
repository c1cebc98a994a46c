"""Iggy behind a network that cuts and stalls at any byte: every call ends in time, each append shows once at most."""

from __future__ import annotations

import random

import anyio

import laser as ls
from laser.testing.proxy import TcpProxy
from laser.testing.server import run_iggy_server
from tests.survive.figures import Budget, Figures
from tests.survive.histories import MUST_BE_ZERO, PARTITIONS, TOPIC, Campaign, judge, summary
from tests.survive.iggy import need_server, version

_TIMEOUT = 4.0
# Beside its deadline a call may take a moment to be noticed by a machine that does other things too.
_GRACE = 1.0
# Longer than any call may take: one without a deadline is seen.
_LONG_STALL = _TIMEOUT + 2 * _GRACE


def run(budget: Budget, seed: int) -> Figures:
    """Faults at random while four tasks append, one fetches and two poll."""
    need_server()
    return anyio.run(_run, budget.choose(25, 600), seed)


async def _run(faults: int, seed: int) -> Figures:
    rng = random.Random(seed)
    async with run_iggy_server() as server, TcpProxy("127.0.0.1", server.port) as proxy:
        url = f"iggy://{server.username}:{server.password}@{proxy.address}"
        async with ls.Laser.connect(url, stream="survive", timeout=_TIMEOUT) as laser:
            await laser.ensure_topic(TOPIC, PARTITIONS)
            campaign = Campaign(laser, seed)
            async with anyio.create_task_group() as tasks:
                for task in range(4):
                    tasks.start_soon(campaign.write, f"writer {task}", 0.01)
                tasks.start_soon(campaign.fetch)
                tasks.start_soon(campaign.poll, "poller 1")
                tasks.start_soon(campaign.poll, "poller 2")
                for _ in range(faults):
                    await _strike(proxy, rng)
                    await anyio.sleep(rng.random() * 0.25)
                await _stall(proxy, _LONG_STALL)
                healed = len(campaign.acknowledged_at)
                with anyio.fail_after(30):
                    while len(campaign.acknowledged_at) < healed + 40:
                        await anyio.sleep(0.01)
                campaign.stopped = True
            report = await judge(laser, campaign.operations)
            engine = await version(laser)
    found = summary(report) | {
        "calls": campaign.calls,
        "typed errors": sum(campaign.errors.values()) - len(campaign.strange),
        "other errors": len(campaign.strange),
        "longest call, seconds": round(campaign.longest, 1),
        "hangs": int(campaign.longest > _TIMEOUT + _GRACE),
    }
    figures = Figures(f"{faults} faults", found, engine=engine).must_be_zero(*MUST_BE_ZERO, "other errors", "hangs")
    if campaign.strange:
        figures.broken.append(campaign.strange[0])
    return figures


async def _strike(proxy: TcpProxy, rng: random.Random) -> None:
    match rng.choice(["up", "down", "up", "down", "cut", "lose", "stall", "long stall", "refuse", "slow"]):
        case "up":
            proxy.cut_after(to_server=rng.randrange(1, 2_000))
        case "down":
            proxy.cut_after(to_client=rng.randrange(1, 4_000))
        case "cut":
            proxy.cut()
        case "lose":
            proxy.lose_answer(to=b"writer")
        case "stall":
            await _stall(proxy, rng.random() * 0.3)
        case "long stall" if rng.random() < 0.1:
            await _stall(proxy, _LONG_STALL)
        case "refuse":
            proxy.accepting = False
            proxy.cut()
            await anyio.sleep(rng.random() * 0.3)
            proxy.accepting = True
        case _:
            proxy.delay = rng.random() * 0.03
            await anyio.sleep(0.1)
            proxy.delay = 0.0


async def _stall(proxy: TcpProxy, seconds: float) -> None:
    proxy.stall()
    await anyio.sleep(seconds)
    proxy.resume()
