"""One conversation's memory."""

from __future__ import annotations

from laser.limits import DEFAULT_MEMORY_RESULTS
from laser.memory.consolidation import ConsolidationReport, Summarize
from laser.memory.facts import FactCell
from laser.memory.hits import MemoryItem
from laser.memory.memory import Memory, Strategy
from laser.model.memory import MemoryKind

__all__ = ["ScopedMemory"]


class ScopedMemory:
    """A memory with the conversation applied. ``ContextScope.memory`` makes it, without any I/O.

    Everything works as in ``Memory``, on what was remembered in this conversation only.
    """

    def __init__(self, memory: Memory, conversation: str) -> None:
        self._memory = memory
        self._conversation = conversation

    @property
    def handle(self) -> Memory:
        """The memory behind it, for reads across conversations."""
        return self._memory

    @property
    def conversation(self) -> str:
        """The conversation's id."""
        return self._conversation

    async def remember(
        self,
        payload: bytes | str,
        *,
        kind: MemoryKind = "fact",
        dedup: bool = False,
        durable: bool = False,
        agent: str | None = None,
        user: str | None = None,
        application: str | None = None,
        producer: tuple[str, str] | None = None,
    ) -> str:
        """As ``Memory.remember``."""
        return await self._memory.remember(
            payload,
            kind=kind,
            dedup=dedup,
            durable=durable,
            conversation=self._conversation,
            agent=agent,
            user=user,
            application=application,
            producer=producer,
        )

    async def recall(
        self,
        query: str | None = None,
        *,
        limit: int = DEFAULT_MEMORY_RESULTS,
        strategy: Strategy = "auto",
        folded: bool = False,
        agent: str | None = None,
        user: str | None = None,
        application: str | None = None,
        semantic: str | None = None,
    ) -> list[MemoryItem]:
        """As ``Memory.recall``."""
        return await self._memory.recall(
            query,
            limit=limit,
            strategy=strategy,
            folded=folded,
            conversation=self._conversation,
            agent=agent,
            user=user,
            application=application,
            semantic=semantic,
        )

    async def search(
        self,
        query: str,
        *,
        limit: int = DEFAULT_MEMORY_RESULTS,
        folded: bool = False,
        agent: str | None = None,
        user: str | None = None,
        application: str | None = None,
    ) -> list[MemoryItem]:
        """As ``Memory.search``."""
        return await self._memory.search(
            query,
            limit=limit,
            folded=folded,
            conversation=self._conversation,
            agent=agent,
            user=user,
            application=application,
        )

    async def block(
        self,
        token_budget: int | None = None,
        *,
        query: str | None = None,
        limit: int = DEFAULT_MEMORY_RESULTS,
        agent: str | None = None,
        user: str | None = None,
        application: str | None = None,
    ) -> str:
        """As ``Memory.block``."""
        return await self._memory.block(
            token_budget,
            query=query,
            limit=limit,
            conversation=self._conversation,
            agent=agent,
            user=user,
            application=application,
        )

    async def get(
        self,
        id: str,
        *,
        agent: str | None = None,
        user: str | None = None,
        application: str | None = None,
    ) -> MemoryItem | None:
        """As ``Memory.get``, of an item that was remembered here."""
        return await self._memory.get(
            id, conversation=self._conversation, agent=agent, user=user, application=application
        )

    async def consolidate(
        self,
        max_items: int,
        *,
        summarizer: Summarize | None = None,
        prune_summarized: bool = False,
        agent: str | None = None,
        user: str | None = None,
        application: str | None = None,
    ) -> ConsolidationReport:
        """As ``Memory.consolidate``."""
        return await self._memory.consolidate(
            max_items,
            summarizer=summarizer,
            prune_summarized=prune_summarized,
            conversation=self._conversation,
            agent=agent,
            user=user,
            application=application,
        )

    async def improve(
        self,
        id: str,
        weight: float,
        *,
        note: str | None = None,
        agent: str | None = None,
        user: str | None = None,
        application: str | None = None,
    ) -> str:
        """As ``Memory.improve``; it counts only for an item that was remembered here."""
        return await self._memory.improve(
            id,
            weight,
            note=note,
            conversation=self._conversation,
            agent=agent,
            user=user,
            application=application,
        )

    async def forget(
        self,
        id: str,
        *,
        agent: str | None = None,
        user: str | None = None,
        application: str | None = None,
    ) -> None:
        """As ``Memory.forget``, for an item that was remembered here; another one stays."""
        await self._memory.forget(id, conversation=self._conversation, agent=agent, user=user, application=application)

    async def clear(
        self,
        *,
        agent: str | None = None,
        user: str | None = None,
        application: str | None = None,
    ) -> int:
        """As ``Memory.clear``."""
        return await self._memory.clear(
            conversation=self._conversation, agent=agent, user=user, application=application
        )

    def facts(self) -> FactCell:
        """The facts of this session."""
        return self._memory.facts(session=self._conversation)

    def __repr__(self) -> str:
        return f"ScopedMemory({self._memory.namespace!r}, conversation={self._conversation!r})"
