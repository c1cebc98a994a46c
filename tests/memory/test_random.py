"""Random lives of a memory: view, fold and rebuild say the same all the way, and nobody misses what is there."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import anyio
import pytest

import laser as ls
from laser.engines.memory import MemoryLog
from laser.memory.memory import Memory
from laser.testing.clock import SetClock
from tests.context.logs import client_on
from tests.memory.making import C1, C2, TOPIC, HashEmbedder

pytestmark = pytest.mark.anyio

WORDS = ("alpha", "beta", "gamma", "東京", "กุ้ง", "Ann:")
OWNERS: list[dict[str, Any]] = [
    {},
    {"user": "u1"},
    {"user": "u10"},
    {"conversation": C1},
    {"conversation": C2, "user": "u1"},
    {"agent": "g", "application": "a"},
]


class Life:
    """What happens to a memory, by chance."""

    def __init__(self, laser: ls.Laser, clock: SetClock | None, seed: int) -> None:
        self.laser = laser
        self.clock = clock
        self.chance = random.Random(seed)
        self.memory = Memory(laser, "n", embedder=HashEmbedder(), clock=clock)
        self.ids: list[str] = [ls.new_conversation_id()]
        self.gone: set[str] = set()

    async def step(self) -> None:
        """One thing."""
        chance = self.chance
        things: list[tuple[int, Callable[[], Awaitable[object]]]] = [
            (12, self.remember),
            (5, self.improve),
            (3, self.forget),
            (4, self.set_fact),
            (1, self.consolidate),
            (1, self.memory.sweep),
            (1, self.clear),
            (1, self.memory.rebuild),
            (1, self.change_topic),
        ]
        await chance.choices([thing for _, thing in things], [weight for weight, _ in things])[0]()
        if self.clock is not None:
            self.clock.step(chance.choice([0, 0, 0.5, 2, -0.25]))

    async def remember(self) -> None:
        text = " ".join(self.chance.choices(WORDS, k=self.chance.randrange(4)))
        kind: Any = self.chance.choice(["fact", "message", "message"])
        owner = self.chance.choice(OWNERS)
        item = await self.memory.remember(
            text, kind=kind, dedup=self.chance.random() < 0.5, durable=self.chance.random() < 0.1, **owner
        )
        self.ids.append(item)
        found = [one.id for one in await self.memory.recall(limit=1_000, **owner)]
        # It stays forgotten, but where another conversation is told to remember it.
        assert item in found or item in self.gone, "a write was not read"

    async def improve(self) -> None:
        where = self.chance.choice([None, C1, C2])
        await self.memory.improve(
            self.chance.choice(self.ids), self.chance.choice([1.0, -0.5, 1e20, 0.1]), conversation=where
        )

    async def forget(self) -> None:
        item, where = self.chance.choice(self.ids), self.chance.choice([None, None, C1])
        self.gone.add(item)
        await self.memory.forget(item, conversation=where)
        found = [one.id for one in await self.memory.recall(limit=1_000, conversation=where)]
        assert item not in found, "a forgotten item is there"

    async def set_fact(self) -> None:
        end = None if self.clock is None or self.chance.random() < 0.6 else self.clock.micros + 3_000_000
        facts = self.memory.facts(customer=self.chance.choice(["u1", "u10"]))
        value = self.chance.choice(WORDS)
        await facts.set(self.chance.choice(["k", "k1"]), value, expires_at=end)

    async def consolidate(self) -> None:
        def summarize(bodies: list[bytes]) -> bytes:
            return b"sum of " + b", ".join(bodies)

        before = {one.id for one in await self.memory.recall(limit=1_000)}
        await self.memory.consolidate(
            self.chance.randrange(8),
            summarizer=self.chance.choice([None, summarize]),
            prune_summarized=self.chance.random() < 0.5,
            **self.chance.choice(OWNERS),
        )
        # What was pruned is gone for good where it was.
        self.gone |= before

    async def clear(self) -> None:
        owner = self.chance.choice(OWNERS[1:])
        self.gone |= {one.id for one in await self.memory.recall(limit=1_000, **owner)}
        await self.memory.clear(**owner)
        assert await self.memory.recall(**owner) == []

    async def change_topic(self) -> None:
        what = self.chance.randrange(8)
        if what == 0:
            await self.laser.purge_topic(TOPIC)
            self.gone.clear()
        elif what == 1:
            await self.laser.delete_topic(TOPIC)
            await self.laser.ensure_topic(TOPIC, 3, ls.TopicRetention(expire_after=timedelta(seconds=30)))
            self.gone.clear()
        elif len((await self.laser.topic(TOPIC)).partitions) < 9:
            await self.laser.add_partitions(TOPIC, 1)

    async def same(self) -> None:
        """View, fold and rebuild."""
        now = [await self._said(folded=folded) for folded in (False, True)]
        assert now[0] == now[1]
        words = await self._words()
        await self.memory.rebuild()
        assert await self._said(folded=False) == now[0]
        assert await self._words() == words

    async def _said(self, *, folded: bool) -> list[list[ls.MemoryItem]]:
        return [
            await self.memory.recall(limit=1_000, strategy=strategy, folded=folded, **owner)  # type: ignore[arg-type]
            for owner in OWNERS
            for strategy in ("auto", "recent")
        ]

    async def _words(self) -> list[dict[str, float]]:
        said = []
        for owner in OWNERS[:4]:
            for query in ("alpha", "beta 東京", "what did Ann say of กุ้ง"):
                found = await self.memory.search(query, limit=1_000, **owner)
                said.append({one.id: round(one.signals["keyword"], 9) for one in found})
        return said


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_random_lives(stream_name: str, seed: int) -> None:
    clock = SetClock()
    async with await client_on(MemoryLog(clock=clock), stream_name) as laser:
        await laser.ensure_topic(TOPIC, 3, ls.TopicRetention(expire_after=timedelta(seconds=30)))
        life = Life(laser, clock, seed)
        for number in range(120):
            await life.step()
            if number % 12 == 11:
                await life.same()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_random_life_on_every_engine(laser: ls.Laser) -> None:
    await laser.ensure_topic(TOPIC, 3, ls.TopicRetention(expire_after=timedelta(days=1)))
    life = Life(laser, None, 1)
    for number in range(60):
        await life.step()
        if number % 20 == 19:
            await life.same()


async def test_many_tasks_at_once(laser: ls.Laser) -> None:
    """Each finds its own at once, whatever the others do."""

    async def work(who: int) -> None:
        memory = laser.memory_with("n", embedder=HashEmbedder())
        for number in range(8):
            item = await memory.remember(f"note {number} of task {who}", user=f"u{who}")
            assert item in {one.id for one in await memory.recall(user=f"u{who}")}
            assert item in {one.id for one in await memory.recall(f"note {number}", user=f"u{who}", strategy="hybrid")}
            assert item in {one.id for one in await memory.recall(folded=True, limit=1_000)}
            if number % 3 == 2:
                await memory.forget(item)
                assert item not in {one.id for one in await memory.recall(f"note {number}", user=f"u{who}")}
            if who == 0 and number % 4 == 0:
                await memory.rebuild()

    async with anyio.create_task_group() as tasks:
        for who in range(6):
            tasks.start_soon(work, who)
    assert len(await laser.memory("n").recall(limit=1_000)) == 6 * 6


async def test_vectors_after_another_clients_rebuild(tmp_path: Any) -> None:
    url = f"embedded:{tmp_path / 'data'}"
    async with ls.Laser.connect(url) as one, ls.Laser.connect(url) as other:
        mine = one.memory_with("n", embedder=HashEmbedder())
        for number in range(20):
            await mine.remember(f"car number {number}" if number % 2 else f"cat number {number}", user="u")
        before = [item.id for item in await mine.recall("vehicle", strategy="semantic", limit=10)]
        await other.memory("n").rebuild()
        assert [item.id for item in await mine.recall("vehicle", strategy="semantic", limit=10)] == before
        await other.memory("n").forget(before[0])
        for _ in range(2):
            found = [item.id for item in await mine.recall("vehicle", strategy="semantic", limit=9)]
            assert found == before[1:]
            await other.memory_with("n", embedder=HashEmbedder()).recall("vehicle")
            await mine.rebuild()
