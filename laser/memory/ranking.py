"""How answers are put together from what the view found. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from laser.memory.hits import MemoryItem, one_each
from laser.ports.memory_view import Found

__all__ = ["CANDIDATES", "as_found", "fuse", "weighted"]

CANDIDATES: Final = 200
"""Items that each half of a hybrid recall contributes."""

# Reciprocal rank fusion (Cormack, Clarke and Büttcher 2009): 1 / (K + rank). A small K trusts the first places more.
_RRF_K: Final = 10
# Feedback of so much, in either direction, doubles or halves a score; more than twice as much changes nothing further.
_DOUBLING: Final = 2.0
# The newest item gets so much more than one that is very old, and half of that after so many days.
_RECENCY_SHARE: Final = 0.02
_HALF_LIFE_MICROS: Final = 14 * 86_400 * 1_000_000


def as_found(found: Sequence[Found], *, by_feedback: bool) -> list[MemoryItem]:
    """Items in the order in which the view gave them."""
    return one_each(
        MemoryItem.of(
            entry.item,
            entry.weight,
            entry.weight if by_feedback else None,
            {} if entry.weight is None or not by_feedback else {"feedback": entry.weight},
        )
        for entry in found
    )


def weighted(found: Sequence[Found], signal: str, now_micros: int) -> list[MemoryItem]:
    """Items by their score, times what feedback and age say of them.

    Args:
        signal: what the view's score is called.
    """
    scores = {entry.row: entry.score for entry in found}
    return _ranked(found, scores, {entry.row: {signal: entry.score} for entry in found}, now_micros)


def fuse(halves: Mapping[str, Sequence[Found]], now_micros: int) -> list[MemoryItem]:
    """Items by reciprocal rank fusion of several rankings, times what feedback and age say of them.

    Args:
        halves: rankings by the name of their signal, each best first.
    """
    entries: dict[int, Found] = {}
    scores: dict[int, float] = {}
    signals: dict[int, dict[str, float]] = {}
    for name, found in halves.items():
        # A view orders what scores the same by its own numbers, which are others once it was folded anew.
        for rank, entry in enumerate(sorted(found, key=_place), 1):
            entries.setdefault(entry.row, entry)
            scores[entry.row] = scores.get(entry.row, 0.0) + 1.0 / (_RRF_K + rank)
            signals.setdefault(entry.row, {})[name] = entry.score
    return _ranked(list(entries.values()), scores, signals, now_micros)


def _ranked(
    found: Sequence[Found], scores: Mapping[int, float], signals: Mapping[int, dict[str, float]], now_micros: int
) -> list[MemoryItem]:
    items: list[MemoryItem] = []
    for entry in found:
        recency = _recency(entry.item.at_micros, now_micros)
        score = scores[entry.row] * (1 + _RECENCY_SHARE * recency)
        named = signals[entry.row] | {"recency": recency}
        if entry.weight is not None:
            named["feedback"] = entry.weight
            score *= 2 ** (max(-2 * _DOUBLING, min(2 * _DOUBLING, entry.weight)) / _DOUBLING)
        items.append(MemoryItem.of(entry.item, entry.weight, score, named))
    items.sort(key=_order)
    return one_each(items)


def _recency(at_micros: int, now_micros: int) -> float:
    return float(0.5 ** (max(0, now_micros - at_micros) / _HALF_LIFE_MICROS))


def _place(found: Found) -> tuple[float, int, int, int]:
    item = found.item
    return -found.score, -item.at_micros, item.partition, -item.offset


def _order(item: MemoryItem) -> tuple[float, int, int, int]:
    return -(item.score or 0.0), -item.created_at_micros, item.partition, -item.offset
