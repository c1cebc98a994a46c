"""What agents learnt, found again in the next conversation. Run it with: python examples/memory.py"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import laser as ls


def summarize(bodies: list[bytes]) -> str:
    """Stands for a language model: from messages, newest first, to their summary."""
    return f"{len(bodies)} messages about a flight"


async def main() -> None:
    async with ls.Laser.connect("memory:") as laser:
        # In one conversation.
        first = laser.context(ls.derive_conversation_id("ticket-1")).memory("notes")
        tea = await first.remember("Ann: I only drink green tea, please", user="ann")
        for text in ("when do we leave?", "at nine", "and the gate?"):
            await first.remember(text, kind="message", user="ann")
        await first.improve(tea, 2.0, note="she said so twice")

        # In another one, by another agent: memory across conversations, of this user only.
        notes = laser.memory("notes")
        (best, *_) = await notes.search("what does Ann drink?", user="ann")
        print("she drinks:", best.text)
        block = await notes.block(token_budget=9, user="ann")
        print("for the prompt:", block.splitlines()[0])

        # Facts have a key. A new value replaces the old one, which stays as history.
        facts = notes.facts(tenant="acme", customer="ann")
        await facts.set("seat", "aisle", origin="operator")
        await facts.set("seat", "window", expires_at=datetime.now(UTC) + timedelta(days=90))
        seat = await facts.get("seat")
        before = [fact.value for fact in await facts.history("seat")][:-1]
        print(f"seat: {'unknown' if seat is None else seat.value}, before: {', '.join(before)}")

        # The messages become a summary; if that failed, nothing would have changed.
        await first.consolidate(10, summarizer=summarize, prune_summarized=True)
        left = await first.recall(strategy="recent")
        print(f"kept: {len(left)}, summary: {left[0].text}")

        await notes.forget(tea)
        print("after forgetting:", [item.text for item in await notes.search("green tea")])


if __name__ == "__main__":
    asyncio.run(main())
