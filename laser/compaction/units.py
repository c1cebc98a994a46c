"""Units of a conversation, between which it may be cut.

A unit is a message of a user with all that follows up to the next one; what comes before the first user message, or a
transcript without any, belongs to the first unit. A call and its results stand or go together, so units that a pair
spans are partners.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from laser.compaction.rows import Row

__all__ = ["Unit", "UnitFold", "units_of"]


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


class UnitFold:
    """The units of a transcript that grows at its end.

    A result belongs to the nearest call of its id before it, and one that is not final leaves its call open.
    """

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._units: list[Unit] = []
        self._groups: dict[int, set[int]] = {}
        self._waiting: dict[str, list[int]] = {}
        self._open: dict[int, int] = {}
        self._seen_user = False
        self._count = 0
        for row in rows:
            self.take(row)

    def take(self, row: Row) -> None:
        """Takes the next row."""
        units = self._units
        if not units or (row.user and self._seen_user):
            units.append(Unit(self._count, self._count, 0, len(units)))
        self._seen_user = self._seen_user or row.user
        self._count += 1
        number = len(units) - 1
        changed = {number}
        for call_id in row.results:
            callers = self._waiting.get(call_id)
            if callers:
                caller = callers[-1] if row.interim else callers.pop()
                self._open[caller] -= not row.interim
                changed |= self._join(caller, number)
        for call_id in row.calls:
            self._waiting.setdefault(call_id, []).append(number)
            self._open[number] = self._open.get(number, 0) + 1
        tokens = 0 if row.pinned else row.tokens
        last = units[number]
        units[number] = Unit(last.start, self._count, last.tokens + tokens, last.last, last.open)
        for one in changed:
            self._renew(one)

    def units(self) -> tuple[Unit, ...]:
        """The units so far, together all rows."""
        return tuple(self._units)

    def _join(self, one: int, other: int) -> set[int]:
        if one == other and one not in self._groups:
            return {one}
        joined = self._groups.get(one, {one}) | self._groups.get(other, {other})
        for number in joined:
            self._groups[number] = joined
        return joined

    def _renew(self, number: int) -> None:
        unit = self._units[number]
        group = self._groups.get(number)
        is_open = any(self._open.get(one, 0) for one in group or (number,))
        last = max(group) if group else number
        if (last, is_open) != (unit.last, unit.open):
            self._units[number] = Unit(unit.start, unit.stop, unit.tokens, last, is_open)


def units_of(rows: Iterable[Row]) -> tuple[Unit, ...]:
    """The units of a transcript, in order, together all of it."""
    return UnitFold(rows).units()
