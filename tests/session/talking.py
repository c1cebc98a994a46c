"""Conversations for tests."""

from __future__ import annotations

import laser as ls

__all__ = ["said", "talk"]


async def talk(session: ls.Session, rounds: int, word: str = "question") -> None:
    """Runs of one turn each, with the messages on the transcript too."""
    for number in range(rounds):
        question, answer = f"{word} {number}".encode(), f"answer {number}".encode()
        await session.scope().append(ls.AgentTopic.Sessions, question, agent="user")
        async with session.run([ls.NewEntry("user", question, tokens=3)]) as run:
            async with await run.turn() as turn:
                await turn.finish([ls.NewEntry("assistant", answer, tokens=3)], {"input_tokens": 9})
            await session.scope().append(ls.AgentTopic.Sessions, answer, agent="model")
            await run.finish(ls.NewEntry("assistant", answer))


async def said(session: ls.Session) -> list[str]:
    """The texts of the whole transcript, from its pages."""
    page = await session.transcript(limit=3)
    texts = [message.text for message in page.messages]
    while page.older is not None:
        page = await session.transcript(limit=3, before=page.older)
        texts = [*(message.text for message in page.messages), *texts]
    return texts
