"""An agent that stays: one client, one conversation and one follow over the whole time."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Final

import anyio

import laser as ls
from laser.model.ids import new_record_id
from tests.survive.histories import PARTITIONS, TOPIC
from tests.survive.soak.agent import PATIENCE, TOPICS, Soak

__all__ = ["Staying", "stay"]

_FILL_BATCH: Final = 100


async def stay(soak: Soak) -> Staying:
    """Connects it."""
    return Staying(soak, await soak.connect())


class Staying:
    """Its messages are numbers, in their order: whatever is read of them must be a run without a gap."""

    def __init__(self, soak: Soak, laser: ls.Laser) -> None:
        self._soak = soak
        self._laser = laser
        self._scope = laser.context(ls.derive_conversation_id(f"{soak.seed} long"))
        self._rng = random.Random(f"{soak.seed} long")
        self._count = 0
        self._ended = False

    async def fill(self, records: int, padding: int) -> None:
        """Writes that many records to each partition, in conversations of their own, and reads them all."""
        number = 0
        while min(part.end for part in (await self._laser.topic(TOPIC)).partitions) < records:
            await self._fill_one(number, padding)
            number += 1
        if records:
            async with anyio.create_task_group() as group:
                for partition in range(PARTITIONS):
                    group.start_soon(self._read_all, partition)

    async def run(self) -> None:
        """Writes, follows and reads until the end, and closes its client."""
        try:
            start = await self._soak.insist(lambda: self._scope.checkpoint(TOPICS))
            async with anyio.create_task_group() as group:
                group.start_soon(self._follow, start)
                group.start_soon(self._read)
                await self._write()
        finally:
            await self._soak.call(self._laser.aclose)

    async def _fill_one(self, number: int, padding: int) -> None:
        scope = self._laser.context(ls.derive_conversation_id(f"{self._soak.seed} before {number}"))
        values = [f"before-{number}-{place}".ljust(padding, ".") for place in range(_FILL_BATCH)]
        for value in values:
            self._soak.begins("before", scope, value)
        # With ids: what was in doubt is found, and not written again.
        ids = [new_record_id() for _ in values]
        receipts = await self._soak.insist(lambda: scope.append_many(TOPIC, values, ids=ids))
        for value, receipt in zip(values, receipts or (), strict=True):
            self._soak.acknowledged("before", value, receipt)

    async def _read_all(self, partition: int) -> None:
        log, start = self._laser.open_log(), 0
        while True:
            page = await log.read(self._laser.stream, TOPIC, partition, start=start, limit=1_000)
            start = page.next
            if start >= page.end:
                return

    async def _write(self) -> None:
        """Appends until the end."""
        while not self._soak.over:
            value = f"writer-long-{self._count}"
            self._soak.begins("long", self._scope, value)
            if not await self._soak.append(self._scope, "long", value):
                break
            self._count += 1
            await anyio.sleep(self._rng.random() * 2 * self._soak.pause)
        self._ended = True

    async def _follow(self, start: ls.Checkpoint) -> None:
        """Follows from the beginning to the last message."""
        wanted = 0
        quiet_since = time.monotonic()
        follow = self._scope.follow(TOPICS, from_checkpoint=start)
        while not (self._ended and wanted >= self._count):
            # A step that is cancelled must lose nothing.
            with anyio.move_on_after(0.5):
                try:
                    item = await anext(follow)
                except ls.LaserError as error:
                    self._soak.see("false alarms", f"a follow ended: {error}")
                    follow = self._scope.follow(TOPICS, from_checkpoint=follow.checkpoint())
                    continue
                if isinstance(item, ls.ContextMessage):
                    (number,) = _numbers([item])
                    if number != wanted:
                        what = "visible duplicates" if number < wanted else "silent skips"
                        self._soak.see(what, f"a follow gave {number}, not {wanted}")
                    wanted = number + 1
                    quiet_since = time.monotonic()
            if wanted >= self._count:
                quiet_since = time.monotonic()
            elif time.monotonic() > quiet_since + PATIENCE:
                self._soak.see("hangs", f"a follow stood at {wanted} of {self._count}")
                break
        await follow.aclose()

    async def _read(self) -> None:
        """Fetches, folds from snapshots and from checkpoints."""
        store = ls.TopicSnapshotStore(self._laser, "numbers")
        soak = self._soak
        held: tuple[ls.Checkpoint, int] | None = None
        while not self._ended:
            await anyio.sleep(self._rng.random() * 4 * soak.pause)
            count = self._count
            match self._rng.randrange(3):
                case 0:
                    messages = await soak.call(lambda: self._scope.fetch(topics=TOPICS, n=50))
                    if not isinstance(messages, Exception):
                        numbers = _numbers(messages)
                        self._expect(numbers, max(0, max([count - 1, *numbers]) - 49), count, "a fetch")
                case 1:
                    save = ls.AutoSave(every=40)
                    state = await soak.call(
                        lambda save=save: self._scope.state_with(store, TOPICS, [0, 0], _count_on, save=save),  # type: ignore[misc]
                        limit=PATIENCE,
                    )
                    if not isinstance(state, Exception) and (state[0] < count or state[1]):
                        soak.see("silent skips", f"a fold with snapshots has {state}, of {count}")
                case _ if held is None:
                    made = await soak.call(lambda: self._scope.checkpoint(TOPICS))
                    if not isinstance(made, Exception):
                        held = (made, count)
                case _:
                    checkpoint, first = held
                    held = None
                    numbers = await soak.call(
                        lambda start=checkpoint: self._scope.state(TOPICS, [], _collect, from_checkpoint=start),  # type: ignore[misc]
                        limit=PATIENCE,
                    )
                    if not isinstance(numbers, Exception):
                        # What was on its way when the checkpoint was made can be on either side of it.
                        low = max(first, min([first + 2, *numbers]))
                        self._expect(numbers, low, count, "a fold from a checkpoint")

    def _expect(self, numbers: Sequence[int], low: int, count: int, what: str) -> None:
        if len(set(numbers)) != len(numbers):
            self._soak.see("visible duplicates", f"{what} gave a message twice")
        elif list(numbers) != list(range(low, low + len(numbers))) or low + len(numbers) < count:
            few = f"{numbers[:3]}…{numbers[-3:]}"
            self._soak.see("silent skips", f"{what} gave {few}, wanted {low} to {count} or more")


def _numbers(messages: Sequence[ls.ContextMessage]) -> list[int]:
    return [int(message.text.rpartition("-")[2]) for message in messages]


def _collect(numbers: list[int], message: ls.ContextMessage) -> list[int]:
    return numbers + _numbers([message])


def _count_on(state: list[int], message: ls.ContextMessage) -> list[int]:
    """How many there were, and how often the next one was not the next number."""
    count, breaks = state
    return [count + 1, breaks + (_numbers([message]) != [count])]
