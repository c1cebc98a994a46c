"""Units of a conversation, between which it may be cut.

A unit is a message of a user with all that follows up to the next one; what comes before the first user message, or a
transcript without any, belongs to the first unit. A call and its results stand or go together, so units that a pair
spans are partners.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from laser.compaction.rows import INSTRUCTIONS, Row

__all__ = ["Unit", "units_of"]


class Unit(msgspec.Struct, frozen=True, gc=False):
    """A unit.

    Attributes:
        start, stop: places of its rows, ``[start, stop)``. tokens: of its rows, instructions left out.
        last: the number of the last of its partners, its own where it has none.
        open: a call in it or in a partner has no final result yet, so it must not be folded.
    """

    start: int
    stop: int
    tokens: int
    last: int
    open: bool = False


def units_of(rows: Sequence[Row]) -> list[Unit]:
    """The units of a transcript, in order, together all of it.

    A result belongs to the nearest call of its id before it, and one that is not final leaves its call open.
    """
    starts = [place for place, row in enumerate(rows) if row.user]
    starts = [0, *starts[1:]] if rows else []
    stops = [*starts[1:], len(rows)] if rows else []
    groups, still_open = _groups(rows, starts)
    found: list[Unit] = []
    for number, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        tokens = sum([row.tokens for row in rows[start:stop] if row.role not in INSTRUCTIONS])
        group = groups.get(number)
        if group is None:
            found.append(Unit(start, stop, tokens, number, number in still_open))
        else:
            found.append(Unit(start, stop, tokens, max(group), not still_open.isdisjoint(group)))
    return found


def _groups(rows: Sequence[Row], starts: Sequence[int]) -> tuple[dict[int, set[int]], set[int]]:
    """The partners of units that have some, and the units with an open call."""
    groups: dict[int, set[int]] = {}
    waiting: dict[str, list[int]] = {}
    unit, following = 0, starts[1] if len(starts) > 1 else len(rows)
    for place, row in enumerate(rows):
        if place == following:
            unit += 1
            following = starts[unit + 1] if unit + 1 < len(starts) else len(rows)
        for call_id in row.results:
            callers = waiting.get(call_id)
            if callers:
                caller = callers[-1] if row.interim else callers.pop()
                if caller != unit:
                    _join(groups, caller, unit)
        for call_id in row.calls:
            waiting.setdefault(call_id, []).append(unit)
    return groups, {caller for callers in waiting.values() for caller in callers}


def _join(groups: dict[int, set[int]], one: int, other: int) -> None:
    joined = groups.get(one, {one}) | groups.get(other, {other})
    for number in joined:
        groups[number] = joined
