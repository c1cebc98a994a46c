"""How the benchmarks measure: the sides take turns, and first show that they do the same work."""

from __future__ import annotations

import gc
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import anyio

__all__ = ["DifferError", "Measured", "Side", "compare", "largest_gap"]

Call = Callable[[], Awaitable[Any]]


class DifferError(Exception):
    """Two sides of a comparison gave different data."""


class Measured(float):
    """What a side returns that measures by itself: seconds, when not all of its call counts, or bytes.

    Attributes:
        facts: what the work found.
    """

    facts: Any

    def __new__(cls, value: float, facts: Any = None) -> Measured:
        measured = super().__new__(cls, value)
        measured.facts = facts
        return measured


def _as_it_is(result: Any) -> Any:
    return result.facts if isinstance(result, Measured) else result


class Side(NamedTuple):
    """One way to do the work.

    Attributes:
        call: does it once.
        facts: makes of what ``call`` returned a value that is equal on all sides; may be async.
    """

    call: Call
    facts: Callable[[Any], Any] = _as_it_is


async def compare(
    sides: Mapping[str, Side], rounds: int, *, before: Call | None = None, times: int = 1, warm_up: int = 1
) -> dict[str, list[float]]:
    """Samples by side: the mean of ``times`` calls, once a round.

    The sides take turns, each round in the opposite order of the last one: A B, B A, A B, … So a drift of the machine,
    and what a side leaves behind for the next, fall on all alike.

    Args:
        before: called before each round, and before the first call of all; not timed.
        warm_up: calls of each side that do not count, after the one whose data are compared.

    Raises:
        DifferError: the sides do not give the same data.
    """
    if before is not None:
        await before()
    await _check(sides)
    for side in sides.values():
        for _ in range(warm_up):
            await side.call()
    samples: dict[str, list[float]] = {name: [] for name in sides}
    order = list(sides.items())
    gc.collect()
    for _ in range(rounds):
        if before is not None:
            await before()
        for name, side in order:
            samples[name].append(await _sample(side.call, times))
        order.reverse()
    return samples


async def largest_gap(work: Call) -> Measured:
    """Seconds: the longest that a task which sleeps 1 ms at a time had to wait for its turn while ``work`` ran."""
    gap = 0.0
    done = False

    async def tick() -> None:
        nonlocal gap
        last = time.perf_counter()
        while not done:
            await anyio.sleep(0.001)
            now = time.perf_counter()
            gap = max(gap, now - last)
            last = now

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        await anyio.sleep(0.005)
        await work()
        await anyio.sleep(0.005)
        done = True
    return Measured(gap)


async def _sample(call: Call, times: int) -> float:
    result: Any = None
    begun = time.perf_counter()
    for _ in range(times):
        result = await call()
    spent = (time.perf_counter() - begun) / times
    return float(result) if isinstance(result, Measured) else spent


async def _check(sides: Mapping[str, Side]) -> None:
    first: tuple[str, Any] | None = None
    for name, side in sides.items():
        facts = side.facts(await side.call())
        if inspect.isawaitable(facts):
            facts = await facts
        if first is None:
            first = (name, facts)
        elif facts != first[1]:
            raise DifferError(f"{first[0]} gave {_short(first[1])}, {name} gave {_short(facts)}")


def _short(facts: Any) -> str:
    text = repr(facts)
    size = f"{len(facts)} × " if isinstance(facts, list) else ""
    return f"{size}{text[:200]}…" if len(text) > 200 else text
