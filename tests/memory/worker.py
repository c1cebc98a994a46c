"""Remembers and recalls, as a process of its own: what it wrote must be there at once."""

from __future__ import annotations

import sys

import anyio

import laser as ls


async def work(url: str, views: str, stream: str, who: str, count: int) -> None:
    async with ls.Laser.connect(url, stream=stream, views=views or None) as laser:
        memory = laser.memory("n")
        print("ready", flush=True)
        for number in range(count):
            item = await memory.remember(f"note {number} by {who}", user=who)
            if (await memory.recall(strategy="recent", user=who, limit=1))[0].id != item:
                raise SystemExit(f"{who} does not see its own item {number}")
            if number % 3 == 0:
                await memory.forget(item)
            elif number % 3 == 1:
                await memory.improve(item, 1.0)
            if not await memory.search(f"note by {who}", user=who) and number:
                raise SystemExit(f"{who} finds nothing")
        print("done", flush=True)


if __name__ == "__main__":
    url, views, stream, who, count = sys.argv[1:]
    anyio.run(work, url, views, stream, who, int(count))
