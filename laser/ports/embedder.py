"""Embedders: texts to vectors whose angles tell how alike their meanings are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

__all__ = ["Embedder", "Reranker"]


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors. One that calls a server answers within its own deadline."""

    @property
    def model(self) -> str:
        """The model and its version. Vectors of different models are never compared."""
        ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """A vector for each text, all of one length. It must not block the event loop."""
        ...


@runtime_checkable
class Reranker(Protocol):
    """Judges candidates for a query. One that calls a server gets texts without the secrets that laser recognises."""

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """How well each text answers the query, higher is better."""
        ...
