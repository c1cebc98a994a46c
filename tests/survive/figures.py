"""What a check is given, and what it finds."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

__all__ = ["Budget", "Check", "CannotRunError", "Figures"]


class Budget(msgspec.Struct, frozen=True):
    """How much a check may do: the short form of every test run, or the long one of ``make survive``.

    Attributes:
        seconds: how long a check goes on that is measured by time; ``None`` for what its form has.
    """

    long: bool = False
    seconds: int | None = None

    def choose(self, short: int, long: int) -> int:
        """The amount for this budget."""
        return long if self.long else short


class Figures(msgspec.Struct):
    """What a check found.

    Attributes:
        tried: how often what was tried, in words. found: figures by name, in the order of the table.
        broken: promises that were not kept, in words; none when all were. engine: the engine and its version.
    """

    tried: str
    found: dict[str, Any]
    broken: list[str] = []
    engine: str = ""

    def must_be_zero(self, *names: str) -> Figures:
        """Notes as broken what should not have been found."""
        self.broken += (f"{name}: {self.found[name]}" for name in names if self.found[name])
        return self


class CannotRunError(Exception):
    """The machine lacks what the check needs; the text says what."""


class Check(Protocol):
    """A module of ``tests.survive.checks``. Its docstring's first line is the promise that it checks."""

    __doc__: str | None

    def run(self, budget: Budget, seed: int) -> Figures:
        """Does the check."""
        ...
