"""What to fold and what to leave. Pure."""

from __future__ import annotations

from collections.abc import Container, Sequence

import msgspec

from laser.compaction.rows import Row, stub_row
from laser.compaction.sizes import Estimator
from laser.compaction.transcript import History
from laser.compaction.units import Unit

__all__ = ["Plan", "group_evicted", "plan_eviction", "plan_stubs"]


class Plan(msgspec.Struct, frozen=True):
    """What a compaction folds.

    Attributes:
        evicted: numbers of the units to fold, ascending. boundary: the place of the first row of the tail.
        tail: rows of the tail and older ones that have to stay, instructions left out.
    """

    evicted: tuple[int, ...]
    boundary: int
    tail: tuple[Row, ...]


def plan_eviction(
    history: History,
    covered: Sequence[int],
    tail_tokens: int,
    folded: Container[int] = (),
    keep_last: int | None = None,
) -> Plan:
    """Folds everything that is older than the tail and may be folded.

    The tail is the newest units that cost no more than ``tail_tokens`` together, and the newest unit in any case.

    Args:
        covered: by the place of a row, whether a summary stands for it already.
        folded: numbers of units that another strategy's summary stands for: none of them is in the tail.
        keep_last: the tail is the fewest of the newest units that have as many messages, whatever they cost.
    """
    units = history.units
    first = len(units)
    spent = 0
    while first > 0:
        unit = units[first - 1]
        if first - 1 in folded:
            break
        if first < len(units):
            held = len(history.rows) - units[first].start
            if spent + unit.tokens > tail_tokens if keep_last is None else held >= keep_last:
                break
        spent += unit.tokens
        first -= 1
    evicted: list[int] = []
    tail: list[Row] = []
    for number, unit in enumerate(units):
        left = [
            row
            for place, row in enumerate(history.rows[unit.start : unit.stop], unit.start)
            if not covered[place] and not row.pinned
        ]
        if number >= first or unit.open or unit.last >= first:
            tail += left
        elif left:
            evicted.append(number)
    boundary = units[first].start if first < len(units) else len(history.rows)
    return Plan(tuple(evicted), boundary, tuple(tail))


def group_evicted(units: Sequence[Unit], evicted: Sequence[int], target: int) -> list[list[Unit]]:
    """Units to fold together, of ``target`` tokens a group where they can be. Partners are in one group.

    Args:
        evicted: numbers of units, ascending.
    """
    groups: list[list[Unit]] = []
    spent, last = 0, -1
    for number in evicted:
        unit = units[number]
        if not groups or (number > last and spent + unit.tokens > target):
            groups.append([])
            spent = 0
        groups[-1].append(unit)
        spent += unit.tokens
        last = max(last, unit.last)
    return groups


def plan_stubs(rows: Sequence[Row], known: Sequence[int], room: int, estimator: Estimator) -> tuple[int, ...]:
    """The rows whose results are left out so that the others fit: the largest first, the newest row last of all.

    Args:
        rows: that stay. known: seqs of those that are left out already. room: tokens that the rows may cost.

    Returns:
        All seqs, ascending. None are added where the rows fit as they are.
    """
    chosen = {row.seq for row in rows} & set(known)
    small = {row.seq: stub for row in rows if row.seq in chosen and (stub := stub_row(row, estimator)) is not None}
    spent = sum(small[row.seq].tokens if row.seq in small else row.tokens for row in rows)
    if spent > room:
        newest = rows[-1].seq if rows else -1
        for row in sorted(rows, key=lambda row: (row.seq == newest, -row.tokens, row.seq)):
            if spent <= room:
                break
            stub = None if row.seq in chosen else stub_row(row, estimator)
            if stub is not None:
                chosen.add(row.seq)
                spent -= row.tokens - stub.tokens
    return tuple(sorted(chosen))
