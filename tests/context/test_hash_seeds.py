"""What is read of a log does not hang on the process that reads it: strings have other hashes in each."""

from __future__ import annotations

import itertools
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

import laser as ls
from tests.commands import ROOT, run_python

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

CONVERSATION = ls.derive_conversation_id("seeds")
WORDS = ["cats", "dogs", "birds", "snakes", "mice", "fish", "bees", "ants"]


async def test_the_same_bytes_with_every_hash_seed(tmp_path: Path) -> None:
    url = f"embedded:{tmp_path / 'data'}"
    async with ls.Laser.connect(url, stream="seeds") as laser:
        await laser.bootstrap(4, ls.TopicRetention(expire_after=timedelta(days=30)))
        scope = laser.context(CONVERSATION)
        for number in range(24):
            text = json.dumps({"role": ("user", "assistant")[number % 2], "content": f"{WORDS[number % 8]} {number}"})
            await scope.append([ls.AgentTopic.Sessions, ls.AgentTopic.ToolCalls][number % 3 == 2], text)
        memory, graph = laser.memory("notes"), laser.graph("facts")
        for number in range(16):
            await memory.remember(f"{WORDS[number % 8]} and {WORDS[(number + 3) % 8]}", user=f"u{number % 2}")
        for word, other in itertools.pairwise(WORDS):
            await graph.link("person:ann", "likes", f"animal:{word}")
            await graph.link(f"animal:{word}", "eats", f"animal:{other}")

    def read(seed: int) -> dict[str, Any]:
        done = run_python("-m", "tests.context.seed_worker", url, CONVERSATION, cwd=ROOT, PYTHONHASHSEED=f"{seed}")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    first, *others = [await anyio.to_thread.run_sync(read, seed) for seed in (0, 1, 4_000_000_000)]
    for other in others:
        assert [name for name in first if first[name] != other[name]] == []
    assert len(first["fetch"]) == 24
    assert len(first["memory"]) > 4
    assert len(first["neighbours"]) == 8
    assert all(word in first["block"] for word in WORDS)
