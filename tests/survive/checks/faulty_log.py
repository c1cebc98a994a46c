"""A log that loses answers, writes twice and late, and breaks reads, by a seed: nothing lost, nothing seen twice."""

from __future__ import annotations

from collections import Counter

import anyio

import laser as ls
from laser.client.opening import read_target
from laser.engines.memory import MemoryLog
from laser.model.topics import TopicConfig
from laser.testing.faulty_log import FaultRates, FaultyLog
from laser.testing.history import HistoryReport
from tests.survive.figures import Budget, Figures
from tests.survive.histories import MUST_BE_ZERO, PARTITIONS, TOPIC, Campaign, judge, summary

_RATES = FaultRates(
    refuse=0.05, lose_answer=0.1, lose_request=0.05, late_request=0.05, copy=0.05, read_fault=0.05, short_page=0.3
)


def run(budget: Budget, seed: int) -> Figures:
    """One run for each seed; the figures are those of all together."""
    runs = budget.choose(8, 400)
    found = Counter[str]()
    for number in range(runs):
        report, struck = anyio.run(_run, seed + number)
        found.update(summary(report))
        found["faults"] += struck
        found["duplicates on the log"] += report.raw_copies
    figures = Figures(f"{runs} seeds", dict(found), engine="memory").must_be_zero(*MUST_BE_ZERO)
    if not found["duplicates on the log"]:
        figures.broken.append("no duplicate came onto the log: the faults show nothing")
    return figures


async def _run(seed: int) -> tuple[HistoryReport, int]:
    log = FaultyLog(MemoryLog(), _RATES, seed)
    async with ls.Laser(log, read_target("memory:", None, "survive", None, 30.0)) as laser:
        await log.ensure_topic(laser.stream, TOPIC, TopicConfig(PARTITIONS))
        campaign = Campaign(laser, seed)
        async with anyio.create_task_group() as tasks:
            for task in range(4):
                tasks.start_soon(campaign.write, f"writer {task}")
            tasks.start_soon(campaign.poll, "poller")
            with anyio.fail_after(120):
                while len(campaign.acknowledged_at) < 60:
                    await anyio.sleep(0.005)
            campaign.stopped = True
        await log.write_late()
        log.rates = FaultRates()
        return await judge(laser, campaign.operations), sum(log.struck.values())
