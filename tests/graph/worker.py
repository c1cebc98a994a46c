"""Writes to a graph and reads it, as a process of its own: what it wrote must be there at once."""

from __future__ import annotations

import sys

import anyio

import laser as ls


async def work(url: str, views: str, stream: str, who: str, count: int) -> None:
    async with ls.Laser.connect(url, stream=stream, views=views or None) as laser:
        graph = laser.graph("g")
        print("ready", flush=True)
        for number in range(count):
            await graph.link(f"who:{who}", "made", f"thing:{who}-{number}")
            if len(await graph.neighbors(f"who:{who}", limit=1_000)) != number + 1:
                raise SystemExit(f"{who} does not see its own write {number}")
        print("done", flush=True)


if __name__ == "__main__":
    url, views, stream, who, count = sys.argv[1:]
    anyio.run(work, url, views, stream, who, int(count))
