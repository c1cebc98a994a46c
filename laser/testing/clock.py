"""A clock that tests set: it stands still, goes forward and goes back as they say."""

from __future__ import annotations

__all__ = ["SetClock"]


class SetClock:
    """Stands still where it was set. A ``Clock`` for every engine that takes one.

    Args:
        micros: what it shows, microseconds since 1970 UTC.

    Attributes:
        micros: the same; set it to any time, earlier ones too.
    """

    def __init__(self, micros: int = 1_700_000_000_000_000) -> None:
        self.micros = micros

    def now_micros(self) -> int:
        """What the clock shows, microseconds since 1970 UTC."""
        return self.micros

    def step(self, seconds: float) -> None:
        """Moves the clock, back with a negative number."""
        self.micros += round(seconds * 1_000_000)

    def __repr__(self) -> str:
        return f"SetClock({self.micros})"
