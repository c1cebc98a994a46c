"""Forgetting: one item, a scope, facts whose time is over, in an order in which nothing old comes back."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

import msgspec

from laser.limits import MAX_MEMORY_RESULTS
from laser.memory.source import MemorySource
from laser.memory.writing import MemoryWriter
from laser.model.memory import MemoryOwner, Remembered
from laser.ports.memory_view import MemoryView

__all__ = ["clear_items", "forget_item", "is_of_another", "sweep_facts"]

_NOTHING_IS_OVER: Final = -1
"""A moment before all ends: a view then gives outlived facts too."""


async def is_of_another(source: MemorySource, owner: MemoryOwner, item_id: str) -> bool:
    """Whether there is such an item, and not for this owner."""
    found, _ = await source.ask(partial(_find, owner, item_id))
    return found is not None and not owner.sees(found.owner)


async def forget_item(source: MemorySource, writer: MemoryWriter, owner: MemoryOwner, item_id: str) -> None:
    """Forgets an item, unless it is another owner's; of a fact's current value the earlier ones too.

    Where nothing of it is there the forget is written all the same: a summary may still stand for the item.
    """
    found, earlier = await source.ask(partial(_find, owner, item_id))
    if found is None:
        await writer.forget(owner, item_id)
    elif owner.sees(found.owner):
        await writer.forget_many(earlier)
        # In the partition of the item, so that retention takes the item first.
        await writer.forget(owner, item_id, beside=found.owner.conversation)


async def clear_items(source: MemorySource, writer: MemoryWriter, owner: MemoryOwner) -> int:
    """Forgets every item of an owner. Returns how many there were."""
    seen: set[str] = set()
    while True:
        # Behind an item may stand a copy of it in another conversation, so one look is not enough.
        found, gone = await source.ask(partial(_all_of, owner))
        if not found:
            return len(seen)
        seen.update(item.id for item in found)
        await writer.forget_many(gone)


async def sweep_facts(source: MemorySource, writer: MemoryWriter, namespace: str, now_micros: int) -> int:
    """Forgets facts whose time is over. Returns how many values that were.

    With the current value of a key all earlier ones go: they were replaced, and must not hold again.
    """
    count = 0
    while True:
        gone = await source.ask(partial(_outlived, namespace, now_micros))
        if not gone:
            return count
        await writer.forget_many(gone)
        count += len(gone)


async def _find(owner: MemoryOwner, item_id: str, view: MemoryView) -> tuple[Remembered | None, list[Remembered]]:
    """An item, whosever it is, and what it replaced."""
    anybody = msgspec.structs.replace(owner, agent=None, user=None, app=None)
    found = await view.get(anybody, item_id, _NOTHING_IS_OVER)
    return (None, []) if found is None else (found.item, await _earlier_values(view, found.item))


async def _all_of(owner: MemoryOwner, view: MemoryView) -> tuple[list[Remembered], list[Remembered]]:
    found = [entry.item for entry in await view.recent(owner, MAX_MEMORY_RESULTS, _NOTHING_IS_OVER)]
    return found, await _with_earlier_values(view, found)


async def _outlived(namespace: str, now_micros: int, view: MemoryView) -> list[Remembered]:
    return await _with_earlier_values(view, await view.outlived(namespace, now_micros, MAX_MEMORY_RESULTS))


async def _with_earlier_values(view: MemoryView, items: Iterable[Remembered]) -> list[Remembered]:
    gone: dict[tuple[str, str | None], Remembered] = {}
    for item in items:
        for value in [*await _earlier_values(view, item), item]:
            gone.setdefault((value.id, value.owner.conversation), value)
    return list(gone.values())


async def _earlier_values(view: MemoryView, item: Remembered) -> list[Remembered]:
    """What the current value of a fact replaced, oldest first; nothing for anything else."""
    if item.fact is None:
        return []
    values = await view.facts(item.owner, item.fact.key)
    return values[:-1] if values and values[-1].id == item.id else []
