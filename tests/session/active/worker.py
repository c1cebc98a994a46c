"""Edits a session's active context, as a process of its own, and says which of its edits won."""

from __future__ import annotations

import sys

import anyio

import laser as ls


async def work(url: str, stream: str, session_id: str, who: str, count: int) -> None:
    async with ls.Laser.connect(url, stream=stream) as laser:
        session = await laser.sessions().open(session_id)
        print("ready", flush=True)
        won = 0
        while won < count:
            seen = (await session.active.read()).revision
            try:
                state = await session.active.add(seen, ls.NewEntry("user", f"{who} {won}".encode()))
            except ls.ConflictError:
                continue
            if state.revision != seen + 1:
                raise SystemExit(f"{who}: an edit of {seen} led to {state.revision}")
            print(state.revision, flush=True)
            won += 1


if __name__ == "__main__":
    url, stream, session_id, who, count = sys.argv[1:]
    anyio.run(work, url, stream, session_id, who, int(count))
