"""How property tests run here: the same examples at every run, and no time limit of hypothesis's own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from hypothesis import HealthCheck, settings

T = TypeVar("T")

_SECONDS = 0.1


def examples(count: int) -> settings:
    """Settings for so many examples."""
    return settings(
        max_examples=count,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


def decodes(decode: Callable[[], T], *errors: type[Exception]) -> T | None:
    """What a decoder makes of bytes: a value, or ``None`` for one of its typed errors, in time either way.

    The time is the thread's own, and the best of three: a busy machine fails nothing, a slow decoder is always slow.
    """
    for _ in range(3):
        began = time.thread_time()
        try:
            result: T | None = decode()
        except errors:
            result = None
        if time.thread_time() - began < _SECONDS:
            return result
    raise AssertionError(f"took more than {_SECONDS} s")
