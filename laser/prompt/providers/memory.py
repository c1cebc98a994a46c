"""The memory's provider: durable facts and recent notes."""

from __future__ import annotations

from typing import Final

from laser.context.policies import check_count
from laser.errors import InvalidError
from laser.memory.facts import FactCell
from laser.memory.memory import Memory
from laser.prompt.provider import BaseProvider, Provided, TurnContext

__all__ = ["MemoryFacts"]

_NOTES: Final = 10


class MemoryFacts(BaseProvider):
    """Durable facts and recent notes of the memory, of the customer, else the tenant, else the session.

    Args:
        memory: the namespace's memory.
        notes: recent items beside the facts; 0 for none.
        select: recall the items by the turn's message instead of their age, with the memory's own reranker where it
            has one; an empty message, and a recall that fails, keep the usual block.
    """

    name = "memory"
    priority = 75

    def __init__(self, memory: Memory, *, notes: int = _NOTES, select: bool = False) -> None:
        if not isinstance(memory, Memory):
            raise InvalidError(
                f"memory: expected a Memory, got {type(memory).__name__}; laser.memory(namespace) makes one",
                argument="memory",
            )
        self._memory = memory
        self._notes = check_count(notes, "notes")
        self._select = select

    def applies(self, turn: TurnContext) -> bool:
        """Where it is known whose memory it is."""
        return bool(turn.customer or turn.tenant or turn.conversation)

    async def provide(self, turn: TurnContext) -> Provided:
        """Facts by key, then notes, newest first."""
        facts = await self._cell(turn).all()
        lines = [f"{fact.key}: {_line(fact.value)}" for fact in facts]
        known = set(lines)
        for text in await self._items(turn):
            line = f"- {_line(text)}"
            if _line(text) not in known and line not in known:
                known.add(line)
                lines.append(line)
        return [self.fragment(turn.fence("memory", "\n".join(lines)))] if lines else None

    def _cell(self, turn: TurnContext) -> FactCell:
        if turn.customer is None and turn.tenant is None:
            return self._memory.facts(session=turn.conversation)
        return self._memory.facts(tenant=turn.tenant, customer=turn.customer)

    async def _items(self, turn: TurnContext) -> list[str]:
        if self._notes == 0:
            return []
        alone = turn.customer is None and turn.tenant is None
        conversation = turn.conversation if alone else None
        query = turn.message.strip() if self._select else ""
        if query:
            found = await self._memory.recall(
                query, limit=self._notes, conversation=conversation, user=turn.customer, application=turn.tenant
            )
        else:
            found = await self._memory.recall(
                limit=self._notes,
                strategy="recent",
                conversation=conversation,
                user=turn.customer,
                application=turn.tenant,
            )
        return [item.text for item in found if item.key is None]


def _line(text: str) -> str:
    return " ".join(text.split())
