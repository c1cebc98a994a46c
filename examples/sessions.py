"""An agent's session: turns, compaction, a fork, a transcript in pages. Run it with: python examples/sessions.py"""

from __future__ import annotations

import asyncio

import laser as ls

NOTES = ["Fixes for chargers.", "Fixes for chargers and cables.", "Chargers, cables, and a word of thanks."]


async def main() -> None:
    async with ls.Laser.connect("memory:") as laser:
        for topic in (ls.AgentTopic.Control, ls.AgentTopic.Sessions):
            await laser.ensure_topic(topic)
        session = await laser.sessions().start("release notes", agent="editor")
        await session.active.add(0, ls.NewEntry("instruction", b"Write short release notes.", key="style"))

        for number, draft in enumerate(NOTES, 1):
            await session.scope().append(ls.AgentTopic.Sessions, f"Draft {number}, please.", agent="user")
            async with session.run([ls.NewEntry("user", f"Draft {number}, please.".encode())]) as run:
                async with await run.turn() as turn:
                    # Here a model is asked: turn.request(…) is what it gets.
                    await turn.finish([ls.NewEntry("assistant", draft.encode())], {"input_tokens": 40 * number})
                await run.finish(ls.NewEntry("assistant", draft.encode()))
            await session.scope().append(ls.AgentTopic.Sessions, draft, agent="editor")

        branch = await session.fork(label="without thanks")

        async def account(state: ls.ActiveState) -> ls.Account:
            removed = [entry.id for entry in ls.compactable(state.entries)]
            return ls.Account(removed, [ls.NewEntry("summary", b"Three drafts; the last one stands.")])

        state = await session.compact(account)
        print("the model sees", [entry.text for entry in state.entries])
        print("the branch sees", len((await branch.active.read()).entries), "entries")
        last = (await session.runs(limit=1))[0]
        print("the last answer was", last.output and last.output.payload)

        page = await session.transcript(limit=2)
        while True:
            print("page:", [message.text for message in page.messages])
            if page.older is None:
                break
            page = await session.transcript(limit=2, before=page.older)


if __name__ == "__main__":
    asyncio.run(main())
