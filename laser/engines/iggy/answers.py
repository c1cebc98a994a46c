"""Waiting for the driver's answer to one call, at next to no cost.

``asyncio.timeout`` and ``asyncio.shield`` do the same, for about a tenth of the time that an append takes: a timer for
every call, and one more turn of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any, Final, Generic, TypeVar

__all__ = ["Answer", "Expired", "Watch", "let_go"]

T = TypeVar("T")

_TICK_SECONDS: Final = 0.05


class Expired(Exception):
    """The answer did not come in time."""


class Answer(Generic[T]):
    """A driver's future, to be awaited once. When the waiting task is cancelled the future goes on.

    asyncio's tasks wait for any object that has the methods of a future which are below.

    Args:
        future: of the driver, under way. until: when to give up, in the loop's time.
    """

    __slots__ = ("_asyncio_future_blocking", "_context", "_error", "_loop", "_wake", "future", "until")

    def __init__(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[T], until: float) -> None:
        self.future = future
        self.until = until
        self._loop = loop
        self._asyncio_future_blocking = False
        self._wake: Callable[[Any], object] | None = None
        self._context: Context | None = None
        self._error: BaseException | None = None

    def __await__(self) -> Generator[Any, None, T]:
        if not self.future.done():
            self._asyncio_future_blocking = True
            yield self
        return self.future.result()

    def expire(self) -> None:
        """Gives up: the waiting task gets ``Expired``."""
        self._end(Expired())

    # ------------------------------------------------------------------------------ what a task asks of a future

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The loop of the driver's future."""
        return self._loop

    def done(self) -> bool:
        """Whether there is nothing to wait for any more."""
        return self._error is not None or self.future.done()

    def add_done_callback(self, wake: Callable[[Any], object], *, context: Context | None = None) -> None:
        """Called by the task that begins to wait. The driver's future wakes it by itself."""
        self._wake, self._context = wake, context
        self.future.add_done_callback(wake, context=context)

    def cancel(self, msg: object = None) -> bool:
        """Called when the waiting task is cancelled."""
        return self._end(asyncio.CancelledError(msg) if msg is not None else asyncio.CancelledError())

    def result(self) -> None:
        """Called by the task when it is woken by ``_end``."""
        if self._error is not None:
            raise self._error

    def _end(self, error: BaseException) -> bool:
        wake = self._wake
        if wake is None or self.done():
            return False
        self._error = error
        self.future.remove_done_callback(wake)
        self.future.add_done_callback(let_go)
        self._loop.call_soon(wake, self, context=self._context)
        return True


def let_go(future: asyncio.Future[Any]) -> None:
    """Looks at how a future ended that nobody waits for any more, so that asyncio does not report it as never seen."""
    if not future.cancelled():
        future.exception()


class Watch:
    """Ends answers whose time is up, with one timer for all of them. It is late by ``_TICK_SECONDS`` at most."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: set[Answer[Any]] = set()
        self._ticking = False

    def add(self, answer: Answer[Any]) -> None:
        """Watches an answer until ``remove``."""
        self._waiting.add(answer)
        if not self._ticking:
            self._ticking = True
            self._loop.call_later(_TICK_SECONDS, self._tick)

    def remove(self, answer: Answer[Any]) -> None:
        """Forgets an answer."""
        self._waiting.discard(answer)

    def _tick(self) -> None:
        now = self._loop.time()
        for answer in [answer for answer in self._waiting if answer.until <= now]:
            self._waiting.discard(answer)
            answer.expire()
        if self._waiting:
            self._loop.call_later(_TICK_SECONDS, self._tick)
        else:
            self._ticking = False
