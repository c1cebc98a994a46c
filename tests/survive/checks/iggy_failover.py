"""Three Iggy nodes, the primary killed (`kill -9`) under load: nothing acknowledged is lost, appends go on in 10 s."""

from __future__ import annotations

import time

import anyio

import laser as ls
from laser.model.topics import DURABILITIES
from laser.testing.cluster import IggyCluster, run_iggy_cluster
from laser.testing.history import HistoryReport
from tests.survive.figures import Budget, Figures
from tests.survive.histories import MUST_BE_ZERO, PARTITIONS, TOPIC, Campaign, judge, summary
from tests.survive.iggy import need_server, version

_TASKS = 8
_PATIENCE = 60.0
_HEALS_WITHIN = 10.0
# Nodes on a busy machine can fail to agree at all, see "what cannot be promised". Then a test run takes new ones: it is
# there to see what the client does of it, and long runs count how often it comes.
_CLUSTERS = 3


class StandstillError(AssertionError):
    """No append went through for so long that the run was given up."""


def run(budget: Budget, seed: int) -> Figures:
    """One primary for each new cluster, killed in the middle of appends, fetches and polls, and started again.

    The durabilities take turns, the weakest first: of a cluster all of them promise this.
    """
    need_server()
    found: dict[str, float] = {}
    heals: list[float] = []
    engine = ""
    kills = budget.choose(1, 9)
    for number in range(kills):
        durability = DURABILITIES[number % len(DURABILITIES)]
        for cluster in range(1, _CLUSTERS + 1):
            try:
                report, heal, engine = anyio.run(_kill_one, seed + number, durability)
                break
            except StandstillError:
                if budget.long or cluster == _CLUSTERS:
                    raise
        heals.append(heal)
        for name, figure in summary(report).items():
            found[name] = found.get(name, 0) + figure
    found["seconds to heal, longest"] = round(max(heals), 1)
    figures = Figures(f"{kills} kills", found, engine=engine).must_be_zero(*MUST_BE_ZERO)
    # In a test run other tests share the machine, and an election takes 5 s on an idle one.
    if budget.long and max(heals) > _HEALS_WITHIN:
        figures.broken.append(f"appends went on after {max(heals):.1f} s")
    return figures


async def _kill_one(seed: int, durability: ls.Durability) -> tuple[HistoryReport, float, str]:
    async with run_iggy_cluster() as cluster, ls.Laser.connect(cluster.url, stream="survive", timeout=60) as laser:
        await laser.ensure_topic(TOPIC, PARTITIONS, durability=durability)
        campaign = Campaign(laser, seed)
        heal, still = 0.0, None
        async with anyio.create_task_group() as tasks:
            for task in range(_TASKS):
                tasks.start_soon(campaign.write, f"writer {task}", 0.002)
            tasks.start_soon(campaign.poll, "poller 1")
            tasks.start_soon(campaign.poll, "poller 2")
            tasks.start_soon(campaign.fetch)
            try:
                heal = await _kill_and_start(campaign, cluster)
            except StandstillError as error:
                still = error
                tasks.cancel_scope.cancel()
            campaign.stopped = True
        if still is not None:
            raise still
        if campaign.strange:
            raise AssertionError(f"not laser's errors: {campaign.strange[:3]}")
        return await judge(laser, campaign.operations), heal, await version(laser)


async def _kill_and_start(campaign: Campaign, cluster: IggyCluster) -> float:
    """Kills the primary and starts it again; the seconds until appends went on without it."""
    await _acknowledged(campaign, 300, cluster)
    primary = await cluster.primary()
    await primary.kill()
    killed = time.monotonic()
    await _acknowledged(campaign, 300, cluster)
    # Answers that were on their way already come within a moment of the kill.
    heal = next(moment for moment in campaign.acknowledged_at if moment > killed + 0.5) - killed
    await primary.start()
    await _acknowledged(campaign, 300, cluster)
    return heal


async def _what_is_wrong(cluster: IggyCluster, campaign: Campaign) -> str:
    """Whether the client or the cluster is to blame for a standstill, as far as can be told."""
    try:
        primary = f"the nodes agree on {(await cluster.primary(timeout=10)).address}"
    except ls.LaserError as error:
        primary = f"the nodes have no primary: {error}"
    tails = "\n".join(f"{n.address}:\n{n.process.log_tail(15)}" for n in cluster.nodes if n.process.running)
    return f"seed {campaign.seed}: no appends for {_PATIENCE:g} s; {primary}; errors {campaign.errors}\n{tails}"


async def _acknowledged(campaign: Campaign, more: int, cluster: IggyCluster) -> None:
    wanted = len(campaign.acknowledged_at) + more
    give_up = time.monotonic() + _PATIENCE
    while (done := len(campaign.acknowledged_at)) < wanted:
        await anyio.sleep(0.005)
        if len(campaign.acknowledged_at) > done:
            give_up = time.monotonic() + _PATIENCE
        elif time.monotonic() > give_up:
            raise StandstillError(await _what_is_wrong(cluster, campaign))
