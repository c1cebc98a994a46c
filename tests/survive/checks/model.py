"""Random runs of append, fetch, fold, checkpoint, snapshot, crash, reopen, purge and grow do what a list would do."""

from __future__ import annotations

import tempfile
from typing import Any

import anyio
import anyio.to_thread
from hypothesis import HealthCheck, Phase, given, seed, settings

import laser as ls
from laser.testing.server import find_server_binary, run_iggy_server
from laser.testing.strategies import Operation, operations
from tests.survive.figures import Budget, Figures
from tests.survive.histories import KEYS, TOPIC, visible
from tests.survive.killing import Writers


def run(budget: Budget, seed_number: int) -> Figures:
    """The same runs on every engine; a crash kills a process that was appending (not on Iggy, which has its own)."""
    runs = budget.choose(12, 300)
    found = {"steps": 0, "crashes": 0, "stale checkpoints told": 0}
    with tempfile.TemporaryDirectory(prefix="laser-model-") as place:
        count = 0

        def drive(url: str, examples: int, crashes: bool) -> None:
            @seed(seed_number)
            @settings(
                max_examples=examples,
                deadline=None,
                database=None,
                phases=(Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
            )
            @given(operations(min_size=15, max_size=40))
            def check(steps: list[Operation]) -> None:
                nonlocal count
                count += 1
                where = url or f"embedded:{place}/{count}"
                anyio.run(_drive, where, f"model-{count}", steps, crashes, found)

            check()

        drive("memory:", runs, crashes=False)
        drive("", runs, crashes=True)
        engines = ["memory", "embedded"]
        if find_server_binary() is not None:
            engines.append("iggy")
            with run_iggy_server() as server:
                drive(server.url, runs // 3, crashes=False)
        return Figures(f"{count} runs", dict(found) | {"differences": 0}, engine=", ".join(engines))


async def _drive(url: str, stream: str, steps: list[Operation], crashes: bool, found: dict[str, int]) -> None:
    model = _Model(url, stream, crashes, found)
    await model.open()
    try:
        for step in steps:
            found["steps"] += 1
            await getattr(model, step.kind)(step)
        for number in range(3):
            await model.fold(Operation("fold", number))
            # Whatever the run did: a snapshot, a message after it, and a fold from the one over the other.
            for step in (Operation("append", number, 3), Operation("snapshot", number)) * 2:
                await getattr(model, step.kind)(step)
    finally:
        await model.close()


def _collect(texts: list[str], message: ls.ContextMessage) -> list[str]:
    return [*texts, message.text]


class _Model:
    """A log, and beside it the lists that it has to be equal to."""

    def __init__(self, url: str, stream: str, crashes: bool, found: dict[str, int]) -> None:
        self._url, self._stream, self._crashes, self._found = url, stream, crashes, found
        self._said: dict[int, list[str]] = {number: [] for number in range(3)}
        self._marks: list[tuple[ls.Checkpoint, dict[int, list[str]], int]] = []
        self._number = self._era = 0
        self._snapshot_era: dict[int, int] = {}

    async def open(self) -> None:
        self._laser = await ls.Laser.connect(self._url, stream=self._stream)
        await self._laser.ensure_topic(TOPIC, 2)
        await self._laser.ensure_topic(ls.AgentTopic.Snapshots, 2)

    async def close(self) -> None:
        try:
            if self._url.startswith("iggy"):
                for topic in (TOPIC, ls.AgentTopic.Snapshots):
                    await self._laser.delete_topic(topic)
        finally:
            await self._laser.aclose()

    def _scope(self, number: int) -> ls.ContextScope:
        return self._laser.context(KEYS[number])

    async def append(self, step: Operation) -> None:
        texts = [f"{self._number + index}" for index in range(step.count)]
        self._number += step.count
        if step.count == 1:
            await self._scope(step.conversation).append(TOPIC, texts[0])
        else:
            await self._scope(step.conversation).append_many(TOPIC, texts)
        self._said[step.conversation] += texts

    async def fetch(self, step: Operation) -> None:
        messages = await self._scope(step.conversation).fetch(topics=[TOPIC], n=step.count)
        assert sorted(m.text for m in messages) == sorted(self._said[step.conversation][-step.count :])

    async def fold(self, step: Operation) -> None:
        full: list[str] = await self._scope(step.conversation).state([TOPIC], [], _collect, full=True)
        assert full == self._said[step.conversation]
        for checkpoint, then, era in self._marks[-3:]:
            try:
                tail: list[str] = await self._scope(step.conversation).state(
                    [TOPIC], then[step.conversation], _collect, from_checkpoint=checkpoint
                )
            except ls.StaleCheckpointError:
                assert era != self._era, "a checkpoint of this log was called stale"
                self._found["stale checkpoints told"] += 1
            else:
                # Before a purge of a log that held nothing there is nothing that could be missed.
                assert tail == full or (era != self._era and _is_at_the_start(checkpoint))

    async def checkpoint(self, step: Operation) -> None:
        checkpoint = await self._scope(step.conversation).checkpoint([TOPIC])
        assert ls.Checkpoint.from_json(checkpoint.to_json()) == checkpoint
        self._marks.append((checkpoint, {key: list(texts) for key, texts in self._said.items()}, self._era))

    async def snapshot(self, step: Operation) -> None:
        store = ls.TopicSnapshotStore(self._laser, f"model {self._era}")
        scope = self._scope(step.conversation)
        state: list[str] = await scope.state_with(store, [TOPIC], [], _collect, save=ls.AutoSave(every=2))
        assert state == self._said[step.conversation]

    async def purge(self, step: Operation) -> None:
        await self._laser.purge_topic(TOPIC)
        self._said = {number: [] for number in range(3)}
        self._era += 1

    async def grow(self, step: Operation) -> None:
        if len((await self._laser.topic(TOPIC)).partitions) < 5:
            await self._laser.add_partitions(TOPIC, 1)

    async def reopen(self, step: Operation) -> None:
        if self._url != "memory:":
            await self._laser.aclose()
            await self.open()

    async def crash(self, step: Operation) -> None:
        if not self._crashes:
            return
        self._found["crashes"] += 1
        writers = await anyio.to_thread.run_sync(self._kill_a_writer, step.count)
        # What the dead process had under way may be there or not; what it was told is there.
        for number in range(3):
            texts: list[str] = await self._scope(number).state([TOPIC], [], _collect, full=True)
            before = self._said[number]
            assert texts[: len(before)] == before
            self._said[number] = texts
        said = {one.value: one.outcome for one in writers.operations()}
        there = set(await visible(self._laser, KEYS))
        assert {value for value, outcome in said.items() if outcome == "acknowledged"} <= there
        assert not writers.failures

    def _kill_a_writer(self, count: int) -> Any:
        with Writers(self._url, self._stream, 2) as writers:
            name = writers.start()
            writers.wait_for(count)
            writers.kill(name)
        return writers


def _is_at_the_start(checkpoint: ls.Checkpoint) -> bool:
    """Whether nothing lies before a checkpoint."""
    return not any(offset for offsets in checkpoint.topics().values() for offset in offsets.values())
