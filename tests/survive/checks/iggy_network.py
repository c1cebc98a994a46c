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
from tests.survive.network import stall, strike

_TIMEOUT = 2.5
# Beside its deadline a call may take a moment to be noticed by a machine that does other things too.
_GRACE = 3.0
# Longer than any call may take: one without a deadline is seen.
_LONG_STALL = _TIMEOUT + _GRACE + 1.5


def run(budget: Budget, seed: int) -> Figures:
    """Faults at random while four tasks append, one fetches and two poll."""
    need_server()
    # Once at the end is enough of the longest stall for a test run.
    return anyio.run(_run, budget.choose(25, 600), _LONG_STALL if budget.long else _TIMEOUT / 2, seed)


async def _run(faults: int, long_stall: float, seed: int) -> Figures:
    rng = random.Random(seed)
    async with run_iggy_server() as server, TcpProxy("127.0.0.1", server.port) as proxy:
        url = f"iggy://{server.username}:{server.password}@{proxy.address}"
        async with (
            ls.Laser.connect(server.url, stream="survive", timeout=60) as quiet,
            ls.Laser.connect(url, stream="survive", timeout=_TIMEOUT) as laser,
        ):
            await quiet.ensure_topic(TOPIC, PARTITIONS)
            campaign = Campaign(laser, seed)
            async with anyio.create_task_group() as tasks:
                for task in range(4):
                    tasks.start_soon(campaign.write, f"writer {task}", 0.01)
                tasks.start_soon(campaign.fetch)
                tasks.start_soon(campaign.poll, "poller 1")
                tasks.start_soon(campaign.poll, "poller 2")
                for _ in range(faults):
                    await strike(proxy, rng, long_stall)
                    await anyio.sleep(rng.random() * 0.25)
                await stall(proxy, _LONG_STALL)
                healed = len(campaign.acknowledged_at)
                with anyio.fail_after(90):
                    while len(campaign.acknowledged_at) < healed + 40:
                        await anyio.sleep(0.01)
                campaign.stopped = True
            report = await judge(quiet, campaign.operations)
            engine = await version(quiet)
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
