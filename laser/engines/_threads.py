"""Work handed from the event loop to threads, and its result handed back.

``anyio.to_thread`` starts from nothing at each call: a limiter, a context, a thread to find. An append costs less than
that, so an engine keeps its own threads, fed by a queue.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import anyio

__all__ = ["Job", "finish", "linger"]

T = TypeVar("T")

_LINGER_SECONDS: Final = 100e-6
_yield: Callable[[], None] = getattr(os, "sched_yield", lambda: time.sleep(0))


class Job(Generic[T]):
    """One piece of work and the task that waits for it.

    Args:
        run: the work. It gets what the thread works on, such as a transaction.
        timeout: seconds from now in which the work must have begun.
    """

    __slots__ = ("_claim", "_done", "deadline", "error", "result", "run", "timeout")

    def __init__(self, run: Callable[[Any], T], timeout: float) -> None:
        self.run = run
        self.timeout = timeout
        self.deadline = time.monotonic() + timeout
        self.result: T | None = None
        self.error: BaseException | None = None
        self._claim = threading.Lock()
        self._done = anyio.Event()

    def claim(self) -> bool:
        """Takes the job: ``True`` for the first caller only, the thread that runs it or the task that gives up."""
        return self._claim.acquire(blocking=False)

    async def wait(self) -> T:
        """The result, once the thread has finished. A cancelled wait withdraws a job that has not begun."""
        try:
            await self._done.wait()
        except BaseException:
            self.claim()
            raise
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]

    def set_done(self) -> None:
        """Wakes the task. To be called in its event loop."""
        self._done.set()


def finish(jobs: Sequence[Job[Any]]) -> None:
    """Wakes the tasks of several jobs. To be called in their event loop."""
    for job in jobs:
        job.set_done()


def linger(jobs: queue.SimpleQueue[Any]) -> None:
    """Keeps the calling thread awake for a moment, in case the next job comes at once.

    A task that appends one record after another hands in the next one within this time. To wake a sleeping thread
    would cost it more than the append itself.
    """
    end = time.perf_counter() + _LINGER_SECONDS
    while jobs.empty() and time.perf_counter() < end:
        _yield()
