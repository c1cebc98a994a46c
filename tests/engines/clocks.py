"""A clock that tests set."""

from __future__ import annotations


class SetClock:
    """Stands still where it was set."""

    def __init__(self, micros: int) -> None:
        self.micros = micros

    def now_micros(self) -> int:
        return self.micros
