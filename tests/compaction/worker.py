"""One process that compacts a session, again and again."""

from __future__ import annotations

import sys

import anyio

import laser as ls


async def main(url: str, session: str, strategy: str, turns: int, name: str) -> None:
    async with ls.Laser.connect(url) as laser:
        compaction = laser.compaction(session, summarizer=ls.ExtractiveSummarizer())
        scope = laser.context(session)
        for turn in range(turns):
            words = f"{name} wants {turn}: " + " ".join(f"w{turn}x{place}" for place in range(40))
            await scope.append(ls.AgentTopic.Sessions, f'{{"role":"user","content":"{words}"}}')
            await scope.append(ls.AgentTopic.Sessions, f'{{"role":"assistant","content":"done {words}"}}')
            await compaction.prepare(window=4_000)
        assert await compaction.strategy() == strategy


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:4], int(sys.argv[4]), sys.argv[5])
