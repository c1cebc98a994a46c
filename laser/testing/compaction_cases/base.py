"""What all cases share: a session on a log in memory, and messages for it."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest

from laser.client.laser import Laser
from laser.compaction.compaction import Compaction
from laser.compaction.inputs import PreparedRequest
from laser.compaction.prior import FoldProvider
from laser.compaction.registry import StrategyRegistry
from laser.compaction.strategy import CompactionStrategy
from laser.model.ids import new_conversation_id
from laser.model.messages import ContextMessage, Messages
from laser.model.topics import AgentTopic
from laser.testing.compaction_checks import check_request
from laser.testing.summarizers import NotingSummarizer

__all__ = ["CompactionCases", "Desk", "assistant", "call", "result", "system", "user"]

WINDOW = 4_000


def user(text: str) -> bytes:
    """A message of the user."""
    return _message(role="user", content=text)


def assistant(text: str) -> bytes:
    """A message of the assistant."""
    return _message(role="assistant", content=text)


def system(text: str) -> bytes:
    """An instruction."""
    return _message(role="system", content=text)


def call(call_id: str, arguments: str = "{}") -> bytes:
    """A message that calls a tool."""
    function = {"name": "look", "arguments": arguments}
    return _message(
        role="assistant", content=None, tool_calls=[{"id": call_id, "type": "function", "function": function}]
    )


def result(call_id: str, text: str, **more: Any) -> bytes:
    """The result of a call."""
    return _message(role="tool", tool_call_id=call_id, content=text, **more)


def _message(**fields: Any) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode()


class Desk:
    """A session, its summarizer, and a handle on its compaction."""

    def __init__(self, laser: Laser, session: str, registry: StrategyRegistry, **more: Any) -> None:
        self.laser = laser
        self.session = session
        self.registry = registry
        self.summarizer = NotingSummarizer()
        self._more = more
        self.compaction = self.open()

    def open(self, summarizer: NotingSummarizer | None = None) -> Compaction:
        """One more handle on the session, as another process has it."""
        return self.laser.compaction(
            self.session, summarizer=summarizer or self.summarizer, registry=self.registry, **self._more
        )

    async def say(self, *payloads: bytes) -> None:
        """Appends messages."""
        await self.laser.context(self.session).append_many(AgentTopic.Sessions, payloads)

    async def talk(self, turns: int, *, words: int = 60, first: int = 0) -> None:
        """Appends turns: a user's message, a call, its result, an answer; about ``words`` words a turn."""
        payloads: list[bytes] = []
        for number in range(first, first + turns):
            text = " ".join(f"w{number}x{place}" for place in range(words // 3))
            payloads += [
                user(f"question-{number} {text}"),
                call(f"c{number}", json.dumps({"q": f"lookup-{number}"})),
                result(f"c{number}", f"found-{number} {text}"),
                assistant(f"answer-{number} {text}"),
            ]
        await self.say(*payloads)

    async def transcript(self) -> Messages:
        """All messages of the session."""
        return await self.laser.assemble_context(self.session, last_n=10_000)

    async def prepare(self, window: int | None = WINDOW, *, over: bool = False, **more: Any) -> PreparedRequest:
        """A prepared request, checked."""
        prepared = await self.compaction.prepare(window=window, **more)
        check_request(prepared, await self.transcript(), over=over)
        return prepared

    async def reachable(self) -> dict[int, str]:
        """The words of every row that the tools reach, by place."""
        found: dict[int, str] = {}
        after: str | None = None
        while True:
            page = await self.compaction.lcm.expand(after=after, limit=200)
            for row in page.rows:
                found[row.seq] = found.get(row.seq, "") + row.text
            after = page.next
            if after is None:
                return found


class CompactionCases(ABC):
    """See ``CompactionConformance``, which documents what a subclass sets."""

    pytestmark: ClassVar = pytest.mark.anyio

    summarizes: ClassVar[bool] = True
    providers: ClassVar[Sequence[FoldProvider] | None] = None

    @abstractmethod
    def make_strategy(self, *, trigger_percent: int = 90, tail_percent: int = 25) -> CompactionStrategy:
        """The strategy under test."""

    def others(self) -> Sequence[CompactionStrategy]:
        """Strategies that stand beside it in the registry."""
        return ()

    @asynccontextmanager
    async def desk(self, *, trigger_percent: int = 90, tail_percent: int = 25, **more: Any) -> AsyncIterator[Desk]:
        """A new session on a log in memory."""
        strategy = self.make_strategy(trigger_percent=trigger_percent, tail_percent=tail_percent)
        registry = StrategyRegistry([strategy, *self.others()], default=strategy.name, providers=self.providers)
        async with Laser.connect("memory:") as laser:
            await laser.ensure_topic(AgentTopic.Sessions, 1)
            yield Desk(laser, new_conversation_id(), registry, **more)

    def needs_summaries(self) -> None:
        """Skips a case that is about summarizers."""
        if not self.summarizes:
            pytest.skip("this strategy asks no summarizer")


def texts(messages: Sequence[ContextMessage]) -> list[str]:
    """The messages as text."""
    return [message.text for message in messages]
