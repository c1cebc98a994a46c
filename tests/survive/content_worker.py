"""Processes that put, hold, release and collect content: one process imports, and forks one for each line ``NAME``.

``python -m tests.survive.content_worker URL CATALOG OBJECTS TENANT GRACE``. Each line it prints is one JSON array,
written at once, so that a kill cuts none in half: ``["pid", name, pid]``, ``["put", digest, children]``,
``["hold", holder, digests]`` before and ``["held", holder]`` after, ``["release", holder]`` before and
``["released", holder]`` after, ``["broken", text]``, ``["error", text]``, ``["did", what]``.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import AsyncIterator

import anyio

import laser as ls
from laser.content import collecting

__all__ = ["POOL", "TOPIC", "payload"]

TOPIC = "content"
POOL = 24
"""How many different contents there are. So few that every one is put, held and collected by many at once."""


def payload(number: int) -> bytes:
    """A content of the pool: every third one is too large for the catalog."""
    return random.Random(number).randbytes(100_000 if number % 3 == 0 else 500)


def say(*values: object) -> None:
    os.write(1, json.dumps(values).encode() + b"\n")


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), 20_000):
        yield data[at : at + 20_000]


class Worker:
    """One process's work."""

    def __init__(self, laser: ls.Laser, content: ls.Content, name: str, grace: float) -> None:
        self.laser = laser
        self.content = content
        self.name = name
        self.grace = grace
        self.rng = random.Random(name)
        self.mine: dict[str, list[str]] = {}
        self.number = 0

    async def run(self) -> None:
        """Random work until somebody kills it."""
        steps = [self.keep, self.keep, self.keep, self.tree, self.message, self.release, self.check, self.collect]
        while True:
            step = self.rng.choice(steps)
            try:
                await step()
            except (ls.DeadlineError, ls.ConflictError) as error:
                say("error", f"{type(error).__name__}: {error}")
            say("did", step.__name__)

    async def keep(self) -> None:
        """Puts some contents and holds them."""
        numbers = self.rng.sample(range(POOL), self.rng.randrange(1, 4))
        await self.hold([await self.put(payload(number)) for number in numbers])

    async def tree(self) -> None:
        """Puts a content that names others, and holds it alone."""
        while True:
            children = [await self.put(payload(number)) for number in self.rng.sample(range(POOL), 2)]
            try:
                parent = await self.content.put(f"tree of {sorted(children)}", children=children)
            except ls.NotFoundError:
                continue  # collected in between: the grace is shorter than a stopped process
            say("put", parent.digest, children)
            return await self.hold([parent.digest])

    async def message(self) -> None:
        """Writes a message that refers to content."""
        data = payload(self.rng.randrange(POOL // 3) * 3)
        try:
            await self.laser.context(ls.derive_conversation_id(self.name)).append(TOPIC, data, content=self.content)
        except ls.NotFoundError:
            return
        say("did", "append")

    async def release(self) -> None:
        """Lets go of one hold."""
        if self.mine:
            holder = self.rng.choice(list(self.mine))
            del self.mine[holder]
            say("release", holder)
            await self.content.release(holder)
            say("released", holder)

    async def check(self) -> None:
        """Reads what it holds."""
        for holder in list(self.mine)[-3:]:
            for digest in self.mine[holder]:
                try:
                    await self.content.get(digest)
                except (ls.NotFoundError, ls.StorageError) as error:
                    say("broken", f"{holder}: {error}")

    async def collect(self) -> None:
        """Collects, if nobody else does."""
        report = await self.content.collect(grace=self.grace, upload_grace=self.grace)
        if report.removed:
            say("did", "remove")

    async def put(self, data: bytes) -> str:
        """Puts a content and returns its digest."""
        # Of a stream the hash is known only at the end: it is uploaded even where the content is there.
        source = _chunks(data) if self.rng.random() < 0.5 else data
        digest = (await self.content.put(source)).digest
        say("put", digest, [])
        return digest

    async def hold(self, digests: list[str]) -> None:
        """Holds contents under a new name. One that was collected meanwhile refuses the whole hold."""
        holder = f"{self.name}/{self.number}"
        self.number += 1
        say("hold", holder, digests)
        try:
            await self.content.hold(holder, digests)
        except ls.NotFoundError:
            say("released", holder)
            return
        self.mine[holder] = digests
        say("held", holder)


# One that was killed with the lease keeps the others from collecting until it ends.
collecting._LEASE_SECONDS = 1.0


async def work(url: str, catalog: str, objects: str, tenant: str, name: str, grace: float) -> None:
    async with ls.Laser.connect(url, catalog=catalog or None, objects=objects or None) as laser:
        await Worker(laser, laser.content(tenant, over=1_000), name, grace).run()


def main() -> None:
    url, catalog, objects, tenant, grace = sys.argv[1:]
    # Children that were killed are nobody's to wait for.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        name = line.strip()
        child = os.fork()
        if not child:
            say("pid", name, os.getpid())
            anyio.run(work, url, catalog, objects, tenant, name, float(grace))
            os._exit(0)


if __name__ == "__main__":
    main()
