"""What each item of memory is, from all that is known of it. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

__all__ = ["COPY", "FIRST", "REPLACED", "SHOWN", "FactKey", "Item", "Key", "Tomb", "settle"]

COPY: Final = 0
REPLACED: Final = 1
SHOWN: Final = 2
FIRST: Final = 3

Key = tuple[int, str]
"""Namespace and item id."""

FactKey = tuple[int, bytes, int]
"""Namespace, a fact's key, conversation."""


class Item(msgspec.Struct):
    """A record of an item.

    Attributes:
        values: the columns of a record that is not in the table yet.
        state: of the table; ``None`` when it is to be removed.
    """

    row: int
    ns: int
    id: str
    conv: int
    user: int | None
    app: int | None
    at: int
    part: int
    off: int
    fact_key: bytes | None
    sources: Sequence[str]
    state: int | None
    weight: float | None
    values: tuple[Any, ...] | None = None

    @property
    def order(self) -> tuple[int, int, int]:
        """By when it was remembered."""
        return self.at, self.part, self.off


class Tomb(msgspec.Struct):
    """A forget.

    Attributes:
        within: only an item of this conversation. pruned: only to save room.
        hides: it hid an item that may still be on the log when it has gone itself.
    """

    place: int
    part: int
    off: int
    within: int | None
    pruned: bool
    hides: bool


def settle(
    items: Iterable[Item],
    touched: Collection[Key],
    tombs: Mapping[Key, Sequence[Tomb]],
    feedback: Mapping[Key, Sequence[tuple[int | None, float]]],
) -> None:
    """Decides states and weights.

    Args:
        items: all of the touched ids, and all facts of the keys that those are of.
        tombs: by what is forgotten; of the sources of summaries too.
        feedback: by what it is on, within which conversation, and the weight.
    """
    by_key: dict[Key, list[Item]] = {}
    by_fact: dict[FactKey, list[Item]] = {}
    for item in items:
        by_key.setdefault((item.ns, item.id), []).append(item)
        if item.fact_key is not None:
            by_fact.setdefault((item.ns, item.fact_key, item.conv), []).append(item)
    for key in touched:
        _settle_id(by_key.get(key, ()), tombs, feedback.get(key, ()))
    for facts in by_fact.values():
        _settle_fact(facts)


def _settle_id(
    items: Sequence[Item],
    tombs: Mapping[Key, Sequence[Tomb]],
    feedback: Sequence[tuple[int | None, float]],
) -> None:
    seen: set[int] = set()
    for item in sorted(items, key=lambda item: item.order):
        hiding = [tomb for tomb in tombs.get((item.ns, item.id), ()) if tomb.within in (None, item.conv)]
        # A summary goes with what it was made of, unless that went only to save room.
        unwanted = [tomb for source in item.sources for tomb in tombs.get((item.ns, source), ()) if not tomb.pruned]
        if hiding or unwanted:
            # A forget that stands behind the item in its partition is there as long as the item is.
            if not any(tomb.part == item.part and tomb.off > item.off for tomb in hiding):
                for tomb in (*hiding, *unwanted):
                    tomb.hides = True
            item.state = None
            continue
        if item.conv in seen:
            item.state = COPY
        elif item.fact_key is not None:
            # Which value of the key is shown is decided among all of them.
            item.state = item.state or REPLACED
        else:
            item.state = SHOWN if seen else FIRST
        seen.add(item.conv)
        weights = [weight for conversation, weight in feedback if conversation in (None, item.conv)]
        item.weight = math.fsum(weights) if weights else None


def _settle_fact(items: Iterable[Item]) -> None:
    seen: set[tuple[int | None, int | None]] = set()
    for item in sorted(items, key=lambda item: item.order, reverse=True):
        if item.state:
            item.state = REPLACED if (item.user, item.app) in seen else FIRST
            seen.add((item.user, item.app))
