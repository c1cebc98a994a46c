"""Stored folds: what one strategy has summarised, as another one may read it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import msgspec

from laser.compaction.rows import Row

__all__ = ["FoldProvider", "Prior", "StoredFold", "prior"]


class StoredFold(msgspec.Struct, frozen=True):
    """A summary that a strategy stored.

    Attributes:
        name: for people and tools, such as ``lcm 7``. owner: the strategy. text: as a request may show it.
        seqs: the rows that it stands for, ascending; those that are gone from the log are not among them.
        first: the place of the first row that it stands for, gone or not.
    """

    name: str
    owner: str
    text: str
    seqs: tuple[int, ...]
    first: int


class Prior(msgspec.Struct, frozen=True):
    """A history with the folds that are stored of it.

    Attributes:
        folds: oldest first. rest: the rows that they do not cover.
    """

    folds: tuple[StoredFold, ...]
    rest: tuple[Row, ...]


class FoldProvider(Protocol):
    """Gives the folds that a strategy stored."""

    @property
    def owner(self) -> str:
        """The strategy's name."""
        ...

    def folds(self, view: Stored, history: Sequence[Row]) -> Iterable[StoredFold]:
        """Folds that stand for rows of a history only, no row in two of them."""
        ...


class Stored(Protocol):
    """What a provider reads from."""

    @property
    def memo(self) -> dict[Any, Any]:
        """What is remembered of the session between looks, in this process."""
        ...

    @property
    def floor(self) -> int:
        """Rows before this place are gone from the log."""
        ...

    def saved(self, strategy: str) -> Sequence[msgspec.Raw]:
        """The states that a strategy saved and that count, oldest first."""
        ...

    def between(self, first: int, last: int) -> Sequence[Row]:
        """The rows of the transcript between two places, both included."""
        ...


def prior(providers: Iterable[FoldProvider], active: str, view: Stored, history: Sequence[Row]) -> Prior:
    """The folds of all providers in their order, each of what those before it left; the active strategy's own is left
    out."""
    rest = tuple(history)
    found: list[StoredFold] = []
    for provider in providers:
        if provider.owner == active:
            continue
        folds = list(provider.folds(view, rest))
        gone = {seq for fold in folds for seq in fold.seqs}
        rest = tuple(row for row in rest if row.seq not in gone) if gone else rest
        found += folds
    found.sort(key=lambda fold: fold.first)
    return Prior(tuple(found), rest)
