"""Memory folded from its topic in this process: what there is to recall, without any read view."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import anyio.lowlevel

from laser.memory.hits import MemoryItem
from laser.memory.words import plain_words
from laser.model.memory import Forgotten, MemoryChange, MemoryOwner, Remembered, Weighed

__all__ = ["MemoryFold"]

_Key = tuple[str, str]
"""Namespace and item id."""

_Standing = tuple[Remembered, bool]
"""An item, and whether it is the first of its id."""

_CHUNK: Final = 512


class MemoryFold:
    """The items of one memory topic. A ``View`` whose place is this process.

    The answer does not depend on the order in which partitions are read: of several records of one item in one
    conversation the earliest counts, a forgotten item stays forgotten, and feedback adds up.
    """

    def __init__(self) -> None:
        self._position: str | None = None
        self._firsts: dict[int, int] = {}
        self._reset()

    async def position(self) -> str | None:
        """See ``View.position``."""
        return self._position

    async def apply(
        self, changes: Sequence[MemoryChange], *, firsts: Mapping[int, int], expect: str | None, position: str
    ) -> bool:
        """See ``View.apply``."""
        if self._position != expect:
            return False
        if firsts != self._firsts:
            # Records that come later are not below: what was dropped once need not be looked for again.
            for kept in (self._items, self._weights, self._forgotten):
                _drop_below(kept, firsts)
            self._firsts = dict(firsts)
        for change in changes:
            key = (change.owner.namespace, change.id if isinstance(change, Remembered) else change.target)
            if isinstance(change, Remembered):
                self._items.setdefault(key, []).append(change)
            elif isinstance(change, Weighed):
                self._weights.setdefault(key, []).append(change)
            else:
                self._forgotten.setdefault(key, []).append(change)
        self._position = position
        self._living.clear()
        return True

    async def clear(self, *, expect: str | None) -> None:
        """See ``View.clear``."""
        if self._position == expect:
            self._position = None
            self._reset()

    async def recall(
        self, owner: MemoryOwner, query: str | None, limit: int, now_micros: int, *, by_feedback: bool = True
    ) -> list[MemoryItem]:
        """What laser-sdk's folded recall gives: items with a word of the query in them, by feedback, newest first.

        Args:
            query: ``None`` or a text without words leaves nothing out. by_feedback: ``False`` for by time alone.
        """
        wanted = plain_words(query) if query else frozenset()
        hits: list[MemoryItem] = []
        for count, (item, is_first) in enumerate(reversed(await self._standing_items(owner.namespace)), 1):
            if count % _CHUNK == 0:
                await anyio.lowlevel.checkpoint()
            # Across conversations an item is the one that was there first.
            if not (is_first or owner.conversation is not None) or not owner.sees(item.owner):
                continue
            if item.is_over(now_micros):
                continue
            if wanted and wanted.isdisjoint(plain_words(item.body.decode("utf-8", "replace"))):
                continue
            weight = self.weight(item)
            signals = {} if weight is None or not by_feedback else {"feedback": weight}
            hits.append(MemoryItem.of(item, weight, weight if by_feedback else None, signals))
        if by_feedback:
            hits.sort(key=_by_feedback)
        return hits[:limit]

    async def _standing_items(self, namespace: str) -> list[_Standing]:
        """The items of a namespace that are not forgotten, oldest first: one for each conversation that has it.

        Of a fact's key only the newest value is among them.
        """
        known = self._living.get(namespace)
        if known is not None:
            return known
        position = self._position
        standing: list[_Standing] = []
        for count, key in enumerate([key for key in self._items if key[0] == namespace], 1):
            standing += self._standing(key)
            if count % _CHUNK == 0:
                await anyio.lowlevel.checkpoint()
        standing.sort(key=_place_of)
        newest = {_fact_of(item): item for item, _ in standing if item.fact is not None}
        known = [entry for entry in standing if entry[0].fact is None or newest[_fact_of(entry[0])] is entry[0]]
        if self._position == position:
            self._living[namespace] = known
        return known

    def weight(self, item: Remembered) -> float | None:
        """The sum of the feedback on an item; ``None`` where there is none."""
        weights = [
            change.weight
            for change in self._weights.get((item.owner.namespace, item.id), ())
            if change.within in (None, item.owner.conversation)
        ]
        return math.fsum(weights) if weights else None

    def _standing(self, key: _Key) -> Iterator[_Standing]:
        is_first = True
        tombs = self._forgotten.get(key, ())
        earliest: dict[str | None, Remembered] = {}
        for item in sorted(self._items.get(key, ()), key=_place):
            earliest.setdefault(item.owner.conversation, item)
        for conversation, item in earliest.items():
            gone = any(tomb.within in (None, conversation) for tomb in tombs)
            if not gone and not any(self._is_unwanted(key[0], source) for source in item.sources):
                yield item, is_first
                is_first = False

    def _is_unwanted(self, namespace: str, item_id: str) -> bool:
        return any(not tomb.pruned for tomb in self._forgotten.get((namespace, item_id), ()))

    def _reset(self) -> None:
        self._items: dict[_Key, list[Remembered]] = {}
        self._weights: dict[_Key, list[Weighed]] = {}
        self._forgotten: dict[_Key, list[Forgotten]] = {}
        self._living: dict[str, list[_Standing]] = {}
        self._firsts = {}


def _place(item: Remembered) -> tuple[int, int, int]:
    return item.at_micros, item.partition, item.offset


def _place_of(entry: _Standing) -> tuple[int, int, int]:
    return _place(entry[0])


def _fact_of(item: Remembered) -> tuple[str | None, str | None, str | None, str]:
    owner, fact = item.owner, item.fact
    return owner.conversation, owner.user, owner.app, "" if fact is None else fact.key


def _by_feedback(item: MemoryItem) -> float:
    return -(item.weight or 0.0)


def _drop_below(kept: dict[_Key, list[Any]], firsts: Mapping[int, int]) -> None:
    if not any(firsts.values()):
        return
    for key, changes in list(kept.items()):
        stay = [change for change in changes if change.offset >= firsts.get(change.partition, 0)]
        if stay:
            kept[key] = stay
        else:
            del kept[key]
