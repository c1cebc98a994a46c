"""A worker that folds and saves is killed at random moments while another process appends."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import IO

import anyio
import anyio.to_thread
import pytest

import laser as ls
from laser.model.records import LogRecord
from tests.commands import ROOT, environment
from tests.context.folding import ListStore, chain

pytestmark = pytest.mark.anyio

TOPICS = [ls.AgentTopic.Sessions, ls.AgentTopic.ToolCalls, ls.AgentTopic.ToolResults]
KILLS = 50
CONVERSATION = ls.derive_conversation_id("killed")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"embedded:{tmp_path / 'data'}"


@pytest.fixture
def workers(url: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.context.fold_worker", url, "kills", CONVERSATION, *TOPICS],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    yield process
    process.stdin.close()  # type: ignore[union-attr]
    assert process.wait(120) == 0
    process.stdout.close()  # type: ignore[union-attr]


def _kill_one(workers: subprocess.Popen[bytes], chance: random.Random) -> int:
    """Starts a worker, kills it a moment after its first few folds, and returns how many it did."""
    say: IO[bytes] = workers.stdin  # type: ignore[assignment]
    hear: IO[bytes] = workers.stdout  # type: ignore[assignment]
    say.write(b"go\n")
    say.flush()
    worker = int(hear.readline())
    folds, wanted = 0, chance.randrange(5)
    while folds < wanted:
        assert hear.read(1) == b"."
        folds += 1
    # Where in its work it dies is the machine's choice; what came out must not depend on it.
    signal.sigtimedwait([], chance.random() * 0.01)
    os.kill(worker, signal.SIGKILL)
    rest = hear.readline()
    assert rest.lstrip(b".") == b"gone\n"
    return folds + rest.count(b".")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_f2_f17_killed_fifty_times(url: str, workers: subprocess.Popen[bytes]) -> None:
    """F2, F17: nothing skipped, nothing folded twice, in an order that the fold can tell."""
    chance = random.Random(20_260)
    stop = anyio.Event()
    appended = 0

    async with ls.Laser.connect(url, stream="kills") as laser:
        await laser.bootstrap(4, ls.TopicRetention(expire_after=timedelta(days=1)))
        mine, other = laser.context(CONVERSATION), laser.context(ls.new_conversation_id())

        async def append() -> None:
            nonlocal appended
            while not stop.is_set():
                # Batches and single ones, from several tasks at once, over all topics.
                async with anyio.create_task_group() as tasks:
                    for topic in chance.sample(TOPICS, 3):
                        tasks.start_soon(mine.append, topic, f"{appended}")
                        tasks.start_soon(other.append, topic, f"{appended}")
                        appended += 1
                await anyio.sleep(0.02)

        folds = 0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(append)
            for _ in range(KILLS):
                folds += await anyio.to_thread.run_sync(_kill_one, workers, chance)
            stop.set()

        full = await mine.state(TOPICS, "", chain, full=True)
        assert await mine.state(TOPICS, 0, lambda state, message: state + 1, full=True) == appended
        store = ls.TopicSnapshotStore(laser, "chain")
        latest = await store.latest(CONVERSATION)
        assert latest is not None
        assert await mine.state_with(store, TOPICS, "", chain) == full
        kept = [record.payload for record in await _all(laser, ls.AgentTopic.Snapshots)]
        assert folds >= KILLS
        assert len(kept) >= KILLS, "too few snapshots were saved between the kills"
        for payload in chance.sample(kept, 40):
            assert await mine.state_with(ListStore(ls.decode_snapshot(payload)), TOPICS, "", chain) == full


async def _all(laser: ls.Laser, topic: str) -> list[LogRecord]:
    log, info = laser.open_log(), await laser.topic(topic)
    return [
        record
        for part in info.partitions
        for record in (await log.read(laser.stream, topic, part.id, start=0, limit=100_000)).records
    ]
