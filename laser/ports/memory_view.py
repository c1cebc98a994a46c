"""The read view of memory: what can be asked of it. How answers are ranked is the memory room's business."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from laser.model.memory import MemoryChange, MemoryOwner, Remembered
from laser.ports.views import View

__all__ = ["Found", "MemoryView", "Unembedded"]


class Found(msgspec.Struct, frozen=True):
    """An item with what the view knows of it.

    Attributes:
        row: the view's number of it. weight: the sum of the feedback on it; ``None`` where there is none.
        score: what the question ranked it by, higher first; 0 where it ranked by time alone.
    """

    row: int
    item: Remembered
    weight: float | None
    score: float = 0.0


class Unembedded(msgspec.Struct, frozen=True, gc=False):
    """An item without a vector. row: the view's number of it. text: what to embed."""

    row: int
    text: str


class MemoryView(View[MemoryChange], Protocol):
    """The items of one topic that are neither forgotten nor, for a fact's key, replaced by a newer value.

    Of an item that several conversations remembered each has its own. Facts whose time is over are in no answer but
    that of ``facts``. Owners select as ``MemoryOwner.sees`` says; everything else is invisible to a question, and does
    not change its scores either.

    ``now_micros`` decides which facts are over, microseconds since 1970 UTC.
    """

    async def recent(
        self, owner: MemoryOwner, limit: int, now_micros: int, *, by_feedback: bool = False
    ) -> list[Found]:
        """The newest items, newest first; with ``by_feedback`` by their weight first (none counts as 0)."""
        ...

    async def keyword(self, owner: MemoryOwner, query: str, limit: int, now_micros: int) -> list[Found]:
        """Items by the words that they share with a query, best first."""
        ...

    async def nearest(
        self, owner: MemoryOwner, model: str, query: str, vector: Sequence[float], limit: int, now_micros: int
    ) -> list[Found]:
        """Items by the cosine of their vectors to a vector, best first.

        Args:
            model: whose vectors. query: the words that the vector is of.
        """
        ...

    async def named(self, owner: MemoryOwner, query: str) -> str:
        """A question as it is best embedded: without the names of those who say the owner's items, as in
        ``Name: text``, for such a name brings everything close that they say."""
        ...

    async def get(self, owner: MemoryOwner, item_id: str, now_micros: int) -> Found | None:
        """An item by its id."""
        ...

    async def facts(self, cell: MemoryOwner, key: str | None) -> list[Remembered]:
        """Every value of the facts of exactly this cell, oldest first, replaced and outlived ones too.

        Args:
            cell: its agent is not looked at. key: ``None`` for all keys.
        """
        ...

    async def outlived(self, namespace: str, now_micros: int, limit: int) -> list[Remembered]:
        """Facts whose time is over, oldest first."""
        ...

    async def unembedded(self, namespace: str, model: str, limit: int) -> list[Unembedded]:
        """Items that have no vector of a model yet, oldest first."""
        ...

    async def embed(self, model: str, rows: Sequence[int], vectors: Sequence[Sequence[float]]) -> None:
        """Keeps vectors of items that are still there.

        Raises:
            InvalidError: they have another length than those that are kept of the model.
        """
        ...
