"""Writes to memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import anyio.to_thread
import msgspec

from laser.errors import InvalidError
from laser.limits import MAX_NAME_BYTES
from laser.memory.arguments import check_text
from laser.memory.source import MemorySource
from laser.model.ids import new_conversation_id
from laser.model.memory import MemoryKind, MemoryOwner, Remembered
from laser.wire.memory import content_id, encode_feedback, encode_forget, encode_item, memory_headers

__all__ = ["MemoryWriter"]

# Longer bodies are hashed and encoded in a thread: a byte takes about half a microsecond.
_INLINE_BYTES: Final = 4_096
_BATCH: Final = 500


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

    async def forget(self, owner: MemoryOwner, target: str, *, beside: str | None = None) -> None:
        """Appends a forget.

        Args:
            beside: the conversation whose partition it goes to where the owner has none.
        """
        payload = encode_forget(target, owner.conversation)
        if owner.conversation is None and beside is not None:
            owner = msgspec.structs.replace(owner, conversation=beside)
        await self._append(owner, payload, new_conversation_id())

    async def forget_many(self, items: Sequence[Remembered], *, pruned: bool = False) -> None:
        """Appends forgets of items, each in its conversation; those of one conversation in their order."""
        parts: dict[str, list[tuple[bytes, bytes]]] = {}
        for item in items:
            where = item.owner.conversation or ""
            headers = memory_headers(item.owner, new_conversation_id(), pruned=pruned)
            parts.setdefault(where, []).append((encode_forget(item.id, where), headers))
        for where, records in parts.items():
            for start in range(0, len(records), _BATCH):
                await self._source.append(records[start : start + _BATCH], where)

    async def _append(
        self,
        owner: MemoryOwner,
        payload: bytes,
        record: str,
        *,
        note: str | None = None,
        durable: bool = False,
    ) -> None:
        # Without a conversation of its own a record is given one: laser-sdk passes over a record that has none.
        if owner.conversation is None:
            owner = msgspec.structs.replace(owner, conversation=new_conversation_id())
        headers = memory_headers(owner, record, note=note, durable=durable)
        await self._source.append([(payload, headers)], owner.conversation or "")


def _lineage(producer: tuple[str, str] | None) -> dict[str, object]:
    if producer is None:
        return {}
    if not isinstance(producer, tuple) or len(producer) != 2:
        raise InvalidError("producer: expected a name and a version, as in ('notes', '1')", argument="producer")
    name, version = (check_text(part, "producer", MAX_NAME_BYTES) for part in producer)
    return {"producer": {"name": name, "version": version}}
