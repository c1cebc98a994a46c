"""Eviction: what leaves when the fragments do not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from laser.context.tokens import Tokenizer
from laser.errors import BudgetError
from laser.prompt.fragments import Fragment

__all__ = ["Costed", "Fitted", "fit"]


class Costed(msgspec.Struct, frozen=True, gc=False):
    """A fragment with its provider's name and its tokens, the line break after it included."""

    fragment: Fragment
    provider: str
    tokens: int


class Fitted(msgspec.Struct, frozen=True):
    """What fits. used: tokens of the kept fragments, measured on their joined text."""

    kept: list[Costed]
    evicted: list[Costed]
    used: int


def fit(
    fragments: Sequence[Costed],
    available: int,
    measure: Callable[[Sequence[Costed]], int],
) -> Fitted:
    """Evicts the lowest priority that is not pinned until the joined text fits; of equals the oldest first.

    Fragments of one unit leave together; a unit with a pinned one stays.

    Args:
        available: tokens. measure: tokens of the joined text.

    Raises:
        BudgetError: what is pinned alone does not fit.
    """
    used = measure(fragments)
    if used <= available:
        return Fitted(list(fragments), [], used)
    queue = _in_order(fragments)
    gone: set[int] = set()
    kept = list(fragments)
    step = 0
    while used > available:
        if step == len(queue):
            raise _over(kept, used, available)
        excess = used - available
        # The sum over single fragments says how many must leave; only the joined text says whether that was enough.
        while step < len(queue) and excess > 0:
            for place in queue[step]:
                gone.add(place)
                excess -= fragments[place].tokens
            step += 1
        kept = [costed for place, costed in enumerate(fragments) if place not in gone]
        used = measure(kept)
    return Fitted(kept, [fragments[place] for group in queue[:step] for place in group], used)


def _in_order(fragments: Sequence[Costed]) -> list[list[int]]:
    """Places of what may leave, in groups that leave together, the first to leave first."""
    groups: dict[object, list[int]] = {}
    for place, costed in enumerate(fragments):
        unit = costed.fragment.unit
        groups.setdefault(("alone", place) if unit is None else (costed.provider, unit), []).append(place)
    free = [
        (max(fragments[place].fragment.priority for place in places), places)
        for places in groups.values()
        if not any(fragments[place].fragment.pinned for place in places)
    ]
    # Of one priority history leaves before others, the oldest first.
    free.sort(key=lambda group: (group[0], fragments[group[1][0]].fragment.place != "history", group[1][0]))
    return [places for _, places in free]


def _over(pinned: Sequence[Costed], used: int, available: int) -> BudgetError:
    by_category: dict[str, int] = {}
    for costed in pinned:
        name = costed.fragment.category
        by_category[name] = by_category.get(name, 0) + costed.tokens
    shown = ", ".join(f"{name} {tokens}" for name, tokens in sorted(by_category.items(), key=lambda item: -item[1]))
    return BudgetError(
        f"budget: what must stay needs {used} tokens ({shown}) and {available} are left after the reserves; raise "
        f"PromptBudget.tokens by at least {used - available}, or shorten what is pinned",
        argument="budget",
        needed=used,
        available=available,
    )


def counted(fragment: Fragment, provider: str, tokens: Tokenizer) -> Costed:
    """A fragment with its cost."""
    cost = fragment.tokens
    if cost is None:
        cost = tokens.count(fragment.text + "\n") + fragment.flat
    return Costed(fragment, provider, cost)
