"""Agents that come and go: a client and a conversation for a while, and then others."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence

import anyio

import laser as ls
from tests.survive.histories import TOPIC
from tests.survive.soak.agent import PATIENCE, TOPICS, Soak, collect

__all__ = ["come_and_go"]


async def come_and_go(soak: Soak, agent: str) -> None:
    """One life after the other, each with a connection of its own."""
    number = 0
    while not soak.over:
        number += 1
        laser = await soak.insist(soak.connect)
        if laser is None:
            continue
        try:
            await _Life(soak, laser, f"{agent}-{number}").run()
        finally:
            await soak.call(laser.aclose)
        soak.counts["reconnects"] += 1


class _Life:
    """One client with one conversation, from its first message until all of them were found again."""

    def __init__(self, soak: Soak, laser: ls.Laser, name: str) -> None:
        self._soak = soak
        self._laser = laser
        self._name = name
        self._rng = random.Random(f"{soak.seed} {name}")
        self._scope = laser.context(ls.derive_conversation_id(f"{soak.seed} {name}"))
        self._there: list[str] = []
        self._ended = False
        self._until = min(time.monotonic() + soak.life * (0.5 + self._rng.random()), soak.until)

    async def run(self) -> None:
        """Two writers, a reader and a follower; at the end everything is looked for once more."""
        start = await self._soak.insist(lambda: self._scope.checkpoint(TOPICS))
        if start is None:
            return
        async with anyio.create_task_group() as group:
            group.start_soon(self._follow, start)
            group.start_soon(self._read)
            async with anyio.create_task_group() as writers:
                writers.start_soon(self._write, f"{self._name}.a")
                writers.start_soon(self._write_batches, f"{self._name}.b")
            self._ended = True
        texts = await self._soak.insist(self._full, limit=PATIENCE)
        if texts is not None:
            self._judge(texts, self._there, "the last fold")

    async def _write(self, name: str) -> None:
        number = 0
        while time.monotonic() < self._until:
            value = f"{name}-{number}"
            number += 1
            self._soak.begins(name, self._scope, value)
            if await self._soak.append(self._scope, name, value):
                self._there.append(value)
            await anyio.sleep(self._rng.random() * self._soak.pause)

    async def _write_batches(self, name: str) -> None:
        """Small batches in the background; those without an answer one by one, with their ids."""
        number = 0
        while time.monotonic() < self._until:
            values = [f"{name}-{number + more}" for more in range(self._rng.randrange(1, 6))]
            number += len(values)
            pending: list[ls.PendingReceipt] = []
            try:
                async with self._laser.batching(linger=0.002) as batch:
                    for value in values:
                        self._soak.begins(name, self._scope, value)
                        pending.append(await batch.append(self._scope.conversation, TOPIC, value))
            except ls.LaserError:
                self._soak.counts["typed errors"] += 1
            for value, receipt in zip(values, pending, strict=True):
                result = await self._soak.call(lambda receipt=receipt: _outcome(receipt))  # type: ignore[misc]
                if isinstance(result, ls.AppendReceipt):
                    self._soak.acknowledged(name, value, result)
                elif not await self._soak.append(self._scope, name, value, receipt.id):
                    continue
                self._there.append(value)
            await anyio.sleep(self._rng.random() * 4 * self._soak.pause)

    async def _read(self) -> None:
        store = ls.TopicSnapshotStore(self._laser, "texts")
        call = self._soak.call
        while not self._ended:
            before = list(self._there)
            match self._rng.randrange(4):
                case 0 | 1:
                    found = await call(lambda: self._scope.fetch(topics=TOPICS, n=2_000))
                    texts = found if isinstance(found, Exception) else [message.text for message in found]
                case 2:
                    save = ls.AutoSave(every=20)
                    texts = await call(
                        lambda save=save: self._scope.state_with(store, TOPICS, [], collect, save=save),  # type: ignore[misc]
                        limit=PATIENCE,
                    )
                case _:
                    texts = await call(self._full, limit=PATIENCE)
            if not isinstance(texts, Exception):
                self._judge(texts, before, "a read")
            await anyio.sleep(self._rng.random() * 4 * self._soak.pause)

    async def _follow(self, start: ls.Checkpoint) -> None:
        texts: list[str] = []
        quiet_since = time.monotonic()
        follow = self._scope.follow(TOPICS, from_checkpoint=start)
        while not (self._ended and len(texts) >= len(self._there)):
            with anyio.move_on_after(0.25):
                try:
                    item = await anext(follow)
                except ls.LaserError as error:
                    self._soak.see("false alarms", f"a follow ended: {error}")
                    follow = self._scope.follow(TOPICS, from_checkpoint=follow.checkpoint())
                    continue
                if isinstance(item, ls.ContextMessage):
                    texts.append(item.text)
                    quiet_since = time.monotonic()
            if not self._ended:
                quiet_since = time.monotonic()
            elif time.monotonic() > quiet_since + PATIENCE:
                self._soak.see("hangs", f"a follow gave {len(texts)} of {len(self._there)}")
                break
        await follow.aclose()
        self._judge(texts, self._there, "a follow")

    async def _full(self) -> list[str]:
        return await self._scope.state(TOPICS, [], collect, full=True)

    def _judge(self, texts: Sequence[str], there: Sequence[str], what: str) -> None:
        """Each message once, each writer's in its order, and none missing that was known to be there."""
        see = self._soak.see
        if len(set(texts)) != len(texts):
            twice = [text for text, times in Counter(texts).items() if times > 1]
            see("visible duplicates", f"{what} gave {twice[:3]} twice")
        missing = set(there) - set(texts)
        if missing:
            see("silent skips", f"{what} left out {sorted(missing)[:3]} and {len(missing)} in all")
        for writer in ("a", "b"):
            own = [int(text.rpartition("-")[2]) for text in texts if text.startswith(f"{self._name}.{writer}-")]
            if own != sorted(own):
                see("out of order", f"{what} gave messages of {self._name}.{writer} in another order")


async def _outcome(receipt: ls.PendingReceipt) -> ls.AppendReceipt:
    return await receipt
