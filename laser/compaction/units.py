"""Units of a conversation, between which it may be cut.

A unit is a message of a user with all that follows up to the next one; what comes before the first user message, or a
transcript without any, belongs to the first unit. A call and its results stand or go together, so units that a pair
spans are partners.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from laser.compaction.rows import INSTRUCTIONS, Row

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
        self._starts: list[int] = []
        self._tokens: list[int] = []
        self._units: list[Unit] = []
        self._changed: set[int] = set()
        self._groups: dict[int, set[int]] = {}
        self._waiting: dict[str, list[int]] = {}
        self._open: dict[int, int] = {}
        self._seen_user = False
        self._count = 0
        for row in rows:
            self.take(row)

    def take(self, row: Row) -> None:
        """Takes the next row."""
        if row.user or not self._starts:
            if self._seen_user or not self._starts:
                # The unit before ends here.
                self._changed.add(len(self._starts) - 1)
                self._starts.append(self._count)
                self._tokens.append(0)
            self._seen_user = row.user or self._seen_user
        self._count += 1
        number = len(self._starts) - 1
        if row.role not in INSTRUCTIONS:
            self._tokens[number] += row.tokens
        for call_id in row.results:
            callers = self._waiting.get(call_id)
            if callers:
                caller = callers[-1] if row.interim else callers.pop()
                self._open[caller] -= not row.interim
                self._join(caller, number)
        for call_id in row.calls:
            self._waiting.setdefault(call_id, []).append(number)
            self._open[number] = self._open.get(number, 0) + 1

    def units(self) -> tuple[Unit, ...]:
        """The units so far, together all rows."""
        self._changed.update(range(max(0, len(self._units) - 1), len(self._starts)))
        self._changed.discard(-1)
        for number in sorted(self._changed):
            unit = self._unit(number)
            if number < len(self._units):
                self._units[number] = unit
            else:
                self._units.append(unit)
        self._changed.clear()
        return tuple(self._units)

    def _join(self, one: int, other: int) -> None:
        if one == other and one not in self._groups:
            return
        joined = self._groups.get(one, {one}) | self._groups.get(other, {other})
        for number in joined:
            self._groups[number] = joined
        self._changed |= joined

    def _unit(self, number: int) -> Unit:
        group = self._groups.get(number)
        is_open = any(self._open.get(one, 0) for one in group or (number,))
        stop = self._starts[number + 1] if number + 1 < len(self._starts) else self._count
        last = max(group) if group else number
        return Unit(self._starts[number], stop, self._tokens[number], last, is_open)


def units_of(rows: Iterable[Row]) -> tuple[Unit, ...]:
    """The units of a transcript, in order, together all of it."""
    return UnitFold(rows).units()
