"""Writes to memory."""

from __future__ import annotations

from typing import Final

import anyio.to_thread
import msgspec

from laser.errors import InvalidError
from laser.limits import MAX_MEMORY_RESULTS
from laser.memory.source import MemorySource
from laser.model.ids import new_conversation_id
from laser.model.memory import MemoryKind, MemoryOwner
from laser.ports.clock import Clock
from laser.wire.memory import content_id, encode_feedback, encode_forget, encode_item, memory_headers

__all__ = ["MemoryWriter"]

# Longer bodies are hashed and encoded in a thread: a byte takes about half a microsecond.
_INLINE_BYTES: Final = 4_096


class MemoryWriter:
    """Appends items, feedback and forgets. Arguments were checked."""

    def __init__(self, source: MemorySource) -> None:
        self._source = source

    async def remember(
        self,
        owner: MemoryOwner,
        body: bytes,
        kind: MemoryKind,
        dedup: bool,
        durable: bool,
        producer: tuple[str, str] | None = None,
        sources: tuple[str, ...] = (),
    ) -> str:
        """Appends an item and returns its id."""
        lineage = _lineage(producer)

        def prepare() -> tuple[str, bytes]:
            item_id = (
                content_id(kind, body, agent=owner.agent, user=owner.user, app=owner.app)
                if dedup
                else new_conversation_id()
            )
            return item_id, encode_item(item_id, kind, body, lineage, sources)

        item_id, payload = prepare() if len(body) < _INLINE_BYTES else await anyio.to_thread.run_sync(prepare)
        await self._append(owner, payload, item_id, durable=durable)
        return item_id

    async def improve(self, owner: MemoryOwner, target: str, weight: float, note: str | None) -> str:
        """Appends feedback and returns its record's id."""
        record = new_conversation_id()
        await self._append(owner, encode_feedback(target, weight, owner.conversation), record, note=note)
        return record

    async def forget(self, owner: MemoryOwner, target: str, *, pruned: bool = False) -> None:
        """Appends a forget."""
        payload = encode_forget(target, owner.conversation)
        await self._append(owner, payload, new_conversation_id(), pruned=pruned)

    async def clear(self, owner: MemoryOwner, clock: Clock) -> int:
        """Forgets every item of an owner. Returns how many there were."""
        count = 0
        while True:
            view = await self._source.view()
            found = await view.recent(owner, MAX_MEMORY_RESULTS, clock.now_micros())
            for entry in found:
                await self.forget(entry.item.owner, entry.item.id)
            count += len(found)
            if len(found) < MAX_MEMORY_RESULTS:
                return count

    async def sweep(self, namespace: str, now_micros: int) -> int:
        """Forgets facts whose time is over. Returns how many there were."""
        count = 0
        while True:
            view = await self._source.view()
            found = await view.outlived(namespace, now_micros, MAX_MEMORY_RESULTS)
            for item in found:
                await self.forget(item.owner, item.id)
            count += len(found)
            if len(found) < MAX_MEMORY_RESULTS:
                return count

    async def _append(
        self,
        owner: MemoryOwner,
        payload: bytes,
        record: str,
        *,
        note: str | None = None,
        durable: bool = False,
        pruned: bool = False,
    ) -> None:
        # Without a conversation of its own a record is given one: laser-sdk passes over a record that has none.
        if owner.conversation is None:
            owner = msgspec.structs.replace(owner, conversation=new_conversation_id())
        headers = memory_headers(owner, record, note=note, durable=durable, pruned=pruned)
        await self._source.append(payload, headers, owner.conversation or "")


def _lineage(producer: tuple[str, str] | None) -> dict[str, object]:
    if producer is None:
        return {}
    if not isinstance(producer, tuple) or len(producer) != 2 or not all(isinstance(part, str) for part in producer):
        raise InvalidError("producer: expected a name and a version, as in ('notes', '1')", argument="producer")
    return {"producer": {"name": producer[0], "version": producer[1]}}
