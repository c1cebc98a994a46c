"""Three Iggy nodes, of which the primary is killed under load."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from itertools import count

import anyio
import pytest

from laser.engines.iggy import IggyConfig, find_primary, open_iggy_log, parse_iggy_url
from laser.engines.iggy.log import IggyLog
from laser.errors import DeadlineError, TransportError
from laser.model.records import NewRecord
from laser.model.topics import TopicConfig
from laser.testing.cluster import IggyCluster, run_iggy_cluster
from laser.testing.server import find_server_binary

pytestmark = [pytest.mark.anyio, pytest.mark.iggy, pytest.mark.cluster, pytest.mark.timeout(600)]

_TASKS = 8
_PARTITIONS = 4
_CLUSTERS = 3
_ids = count(1)


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


async def _on_a_cluster(work: Callable[[IggyCluster], Awaitable[None]]) -> None:
    """Does work on a cluster of its own, whose nodes it kills.

    Nodes on a busy machine can fail to agree on a primary at all (``docs/reliability.md``): then others are taken. What
    the work asserts is never tried again.
    """
    if find_server_binary() is None:
        pytest.skip("no iggy-server program to run three nodes of: put it on the PATH or into LASER_TEST_IGGY_SERVER")
    for number in range(1, _CLUSTERS + 1):
        async with run_iggy_cluster() as cluster:
            try:
                await work(cluster)
                return
            except (TimeoutError, TransportError, ExceptionGroup) as error:
                if number == _CLUSTERS or not _stood_still(error):
                    raise


def _stood_still(error: Exception) -> bool:
    if isinstance(error, ExceptionGroup):
        return all(_stood_still(one) for one in error.exceptions)
    return isinstance(error, TimeoutError | TransportError)


class _Writers:
    """Tasks that append one after the other and note what was acknowledged, and when."""

    def __init__(self, log: IggyLog, stream: str) -> None:
        self.log = log
        self.stream = stream
        self.done: list[tuple[int, int, bytes]] = []
        self.times: list[float] = []
        self.stopped = False

    async def write(self, task: int) -> None:
        for number in count():
            if self.stopped:
                return
            payload = b"%d:%d" % (task, number)
            placed = await self.log.append(self.stream, "events", [NewRecord(next(_ids), payload)], key=f"key-{task}")
            self.done.append((placed.partition, placed.offsets[0], payload))
            self.times.append(time.monotonic())

    async def acknowledged(self, more: int) -> None:
        """Waits until so many more appends were acknowledged."""
        wanted = len(self.done) + more
        with anyio.fail_after(60):
            while len(self.done) < wanted:
                await anyio.sleep(0.005)

    async def check(self) -> None:
        """Every acknowledged record is where its receipt says, and each task's records are in their order."""
        at = dict[tuple[int, int], bytes]()
        for partition in range(_PARTITIONS):
            start = 0
            while True:
                page = await self.log.read(self.stream, "events", partition, start=start, limit=5_000)
                at.update(((record.partition, record.offset), record.payload) for record in page.records)
                start = page.next
                if start >= page.end:
                    break
        wrong = [(place, at.get(place[:2])) for place in self.done if at.get(place[:2]) != place[2]]
        assert not wrong, f"{len(wrong)} of {len(self.done)} receipts name another place, or records are lost"
        for task in range(_TASKS):
            own = [payload for _, payload in sorted(at.items()) if payload.startswith(b"%d:" % task)]
            visible = [int(payload.split(b":")[1]) for payload in dict.fromkeys(own)]
            assert visible == list(range(len(visible)))


async def test_nothing_acknowledged_is_lost_when_the_primary_is_killed(stream_name: str) -> None:
    async def work(cluster: IggyCluster) -> None:
        config, _ = parse_iggy_url(cluster.url)
        # An election takes 5 s on an idle machine; how long healing takes is measured by ``make survive``, not here.
        log = await open_iggy_log(config, timeout=90)
        try:
            await log.ensure_topic(stream_name, "events", TopicConfig(_PARTITIONS))
            writers = _Writers(log, stream_name)
            async with anyio.create_task_group() as group:
                for task in range(_TASKS):
                    group.start_soon(writers.write, task)
                await writers.acknowledged(400)
                primary = await cluster.primary()
                await primary.kill()
                killed = time.monotonic()
                await writers.acknowledged(400)
                await primary.start()
                await writers.acknowledged(400)
                writers.stopped = True
            # Answers that were on their way already come within a moment of the kill.
            heal = next(moment for moment in writers.times if moment > killed + 0.5) - killed
            print(f"appends went on after {heal:.1f} s; {len(writers.done)} acknowledged in all")
            await writers.check()
        finally:
            await log.aclose()

    await _on_a_cluster(work)


async def test_any_node_leads_to_the_others(stream_name: str) -> None:
    async def work(cluster: IggyCluster) -> None:
        primary = await cluster.primary()
        backup = next(node for node in cluster.nodes if node is not primary)
        log = await open_iggy_log(
            IggyConfig(addresses=(backup.address,), username=cluster.username, password=cluster.password), timeout=90
        )
        try:
            await log.ensure_topic(stream_name, "events", TopicConfig(1))
            await log.append(stream_name, "events", [NewRecord(1, b"before")], key="key")
            await primary.kill()
            await log.append(stream_name, "events", [NewRecord(2, b"after")], key="key")
            page = await log.read(stream_name, "events", 0, start=0, limit=10)
            assert [record.payload for record in page.records] == [b"before", b"after"]
            assert await cluster.primary() is not primary
        finally:
            await log.aclose()

    await _on_a_cluster(work)


async def test_without_a_majority_a_call_ends_in_time(stream_name: str) -> None:
    async def work(cluster: IggyCluster) -> None:
        config, _ = parse_iggy_url(cluster.url)
        for node in cluster.nodes[1:]:
            await node.kill()
        with pytest.raises(DeadlineError):
            await find_primary(config, timeout=3, among=[node.address for node in cluster.nodes[1:]])

    await _on_a_cluster(work)
