"""The wall clock as a port, so that tests can step it back."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """Tells the time of day. It may stand still or step back; whoever needs order must not rely on it."""

    def now_micros(self) -> int:
        """Microseconds since 1970 UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_micros(self) -> int:
        """Microseconds since 1970 UTC."""
        return time.time_ns() // 1_000
