"""Doing several reads at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio

__all__ = ["gather"]

Result = TypeVar("Result")


async def gather(calls: Sequence[Callable[[], Awaitable[Result]]]) -> list[Result]:
    """Runs calls at once and returns their results in order.

    When one fails the others are cancelled, and its error is raised as it is: a caller's ``except`` need not know how
    many reads there were.
    """
    if len(calls) < 2:
        return [await call() for call in calls]
    results: dict[int, Result] = {}

    async def run(place: int, call: Callable[[], Awaitable[Result]]) -> None:
        results[place] = await call()

    try:
        async with anyio.create_task_group() as tasks:
            for place, call in enumerate(calls[:-1]):
                tasks.start_soon(run, place, call)
            await run(len(calls) - 1, calls[-1])
    except ExceptionGroup as group:
        error = _first(group)
        raise error from error.__cause__
    return [results[place] for place in range(len(calls))]


def _first(group: ExceptionGroup[Exception]) -> Exception:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error
