"""Two processes that talk in one session and compact it, on the embedded engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import pytest

import laser as ls
from laser.testing.compaction_checks import check_request
from tests.commands import ROOT, environment

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

_TURNS = 60


@pytest.mark.parametrize("strategy", ["rolling", "lcm"])
async def test_both_end_with_the_same(strategy: str, tmp_path: Path) -> None:
    url, session = f"embedded:{tmp_path}", ls.new_conversation_id()
    async with ls.Laser.connect(url) as laser:
        await laser.ensure_topic(ls.AgentTopic.Sessions, 1)
        await laser.compaction(session).switch(strategy)
        outcomes: list[subprocess.CompletedProcess[bytes]] = []

        async def work(name: str) -> None:
            command = [sys.executable, "-m", "tests.compaction.worker", url, session, strategy, str(_TURNS), name]
            outcomes.append(await anyio.run_process(command, cwd=ROOT, env=environment(), check=False))

        with anyio.fail_after(200):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(work, "ann")
                tasks.start_soon(work, "bob")
        assert [(outcome.returncode, outcome.stderr) for outcome in outcomes] == [(0, b"")] * 2
        handles = [laser.compaction(session, summarizer=ls.ExtractiveSummarizer()) for _ in range(2)]
        found = [await handle.prepare(window=100_000) for handle in handles]
        assert found[0].inputs == found[1].inputs
        transcript = await laser.assemble_context(session, last_n=10_000)
        assert len(transcript) == 4 * _TURNS
        check_request(found[0], transcript)
        assert found[0].observation.covered > 0
        steps = await handles[0].steps()
        print(strategy, [step.kind for step in steps].count("saved"), "saved,", [s.kind for s in steps].count("stale"))
        leaves = [fold for fold in (await handles[0].lcm.list(limit=200)).folds if fold.level == 0]
        places = [seq for fold in leaves for first, last in fold.spans for seq in range(first, last + 1)]
        assert len(places) == len(set(places)), "two summaries of one row"
