"""Cancelling work at every one of its awaits."""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import anyio

__all__ = ["cancel_at"]


async def cancel_at(number: int, work: Callable[[], Coroutine[Any, Any, Any]]) -> bool:
    """Does work, and cancels it the n-th time that it waits.

    Args:
        number: which time, from 1.

    Returns:
        Whether it waited so often. ``False``: it came to its end.
    """
    with anyio.CancelScope() as scope:
        await _stepping(work(), number, scope)
    return scope.cancelled_caught


@types.coroutine
def _stepping(work: Coroutine[Any, Any, Any], number: int, scope: anyio.CancelScope) -> Generator[Any, Any, Any]:
    value: Any = None
    error: BaseException | None = None
    count = 0
    while True:
        try:
            wanted = work.send(value) if error is None else work.throw(error)
        except StopIteration as end:
            return end.value
        count += 1
        if count == number:
            scope.cancel()
        value, error = None, None
        try:
            value = yield wanted
        except BaseException as caught:
            # It belongs to the work, which may let it pass or finish what it has to.
            error = caught
