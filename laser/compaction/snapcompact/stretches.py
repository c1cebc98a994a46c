"""What to archive together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from laser.compaction.planning import group_evicted
from laser.compaction.rows import Row
from laser.compaction.units import Unit
from laser.compaction.view import CompactionView

__all__ = ["Stretch", "stretches_of"]

_PAGE_TOKENS: Final = 4_000
_LEAST_PAGE: Final = 256

Stretch = tuple[tuple[tuple[int, int], ...], list[Row]]
"""Places of the transcript, first and last of each run, and the rows there."""


def stretches_of(view: CompactionView, evicted: Sequence[int], covered: Sequence[int]) -> list[Stretch]:
    """Units to archive together: their spans and rows. Partners are in one stretch."""
    history = view.history
    target = _PAGE_TOKENS if view.window is None else max(_LEAST_PAGE, min(_PAGE_TOKENS, view.window // 8))
    return [_stretch(history.rows, group, covered) for group in group_evicted(history.units, evicted, target)]


def _stretch(rows: Sequence[Row], units: Sequence[Unit], covered: Sequence[int]) -> Stretch:
    spans: list[tuple[int, int]] = []
    found: list[Row] = []
    before = -2
    for unit in units:
        for place in range(unit.start, unit.stop):
            if covered[place] or rows[place].pinned:
                continue
            seq = rows[place].seq
            if place == before + 1:
                spans[-1] = spans[-1][0], seq
            else:
                spans.append((seq, seq))
            before = place
            found.append(rows[place])
    return tuple(spans), found
