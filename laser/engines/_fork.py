"""Keeps a fork away from threads at work in a driver.

A child gets its parent's memory but none of its threads. A lock that a thread holds inside the driver at that moment
is held for ever in the child, and the next use of the driver there hangs. So each thread works inside a ``ForkGate``,
and a fork waits until every gate is free.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Final

__all__ = ["ForkGate", "call_in_child"]

_PATIENCE_SECONDS: Final = 5.0

_gates: weakref.WeakSet[ForkGate] = weakref.WeakSet()
_held: list[ForkGate] = []
_child_calls: list[weakref.WeakMethod[Callable[[], None]]] = []


class ForkGate:
    """A lock that a thread holds while it works in a driver."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        _gates.add(self)

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.lock.release()


def call_in_child(method: Callable[[], None]) -> None:
    """Calls a bound method in each child that is forked from now on, as long as its object lives."""
    _child_calls.append(weakref.WeakMethod(method))
    _child_calls[:] = [ref for ref in _child_calls if ref() is not None]


def _before_fork() -> None:
    # A gate that stays shut is one slow call of the driver: a late fork is worse than a child that must not use it.
    _held.extend(gate for gate in list(_gates) if gate.lock.acquire(timeout=_PATIENCE_SECONDS))


def _open_gates() -> None:
    while _held:
        _held.pop().lock.release()


def _in_child() -> None:
    _open_gates()
    for ref in _child_calls:
        method = ref()
        if method is not None:
            method()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_open_gates, after_in_child=_in_child)
