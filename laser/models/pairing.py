"""Tool calls and their results, as providers want them: every result has its call, every call its result."""

from __future__ import annotations

from collections.abc import Sequence

from laser.errors import InvalidError
from laser.models.fragments import Fragment, turns_of

__all__ = ["pair"]


def pair(fragments: Sequence[Fragment], names: Sequence[str], *, adjacent: bool, open_end: bool) -> list[int]:
    """The order in which the fragments stand in a request.

    Args:
        names: of the entries, for errors. adjacent: results have to stand right behind the turn that called; what came
            between them comes after. open_end: calls without results may stand in the last turn.

    Raises:
        InvalidError: a result that no open call before it asks for, an id that is called again while it is open, or a
            call without a result. The text names the id.
    """
    waiting: dict[str, int] = {}
    owners: dict[int, int] = {}
    for place, fragment in enumerate(fragments):
        for call_id in fragment.opens:
            if call_id in waiting:
                raise _refusal(names[place], f"call {call_id!r} is made again before it has a result")
            waiting[call_id] = place
        for call_id in fragment.closes:
            if call_id not in waiting:
                raise _refusal(
                    names[place],
                    f"a result of call {call_id!r}, which nobody made before it, or which has its result; "
                    "leave the result out, or put its call in",
                )
            owners[place] = waiting.pop(call_id)
    turns = turns_of(fragments)
    if waiting:
        last = next((place for place in range(len(fragments) - 1, -1, -1) if fragments[place].side != "result"), -1)
        for call_id, place in waiting.items():
            if not open_end or turns[place] != turns[last]:
                raise _refusal(
                    names[place],
                    f"call {call_id!r} has no result"
                    + (", and it is not in the last turn" if open_end else "")
                    + "; add its result, or leave the call out",
                )
    if not adjacent or not owners:
        return list(range(len(fragments)))
    return _gathered(fragments, turns, owners)


def _gathered(fragments: Sequence[Fragment], turns: Sequence[int], owners: dict[int, int]) -> list[int]:
    results: dict[int, list[int]] = {}
    for place in sorted(owners):
        results.setdefault(turns[owners[place]], []).append(place)
    order: list[int] = []
    for place in range(len(fragments)):
        if place in owners:
            continue
        order.append(place)
        if place + 1 == len(fragments) or turns[place + 1] != turns[place]:
            order += results.pop(turns[place], ())
    return order


def _refusal(name: str, what: str) -> InvalidError:
    return InvalidError(f"{name}: {what}", argument="entries")
