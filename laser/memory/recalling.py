"""Recalling: from a question to the items that answer it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from laser.errors import InvalidError, UnsupportedError
from laser.memory.hits import MemoryItem
from laser.memory.ranking import CANDIDATES, as_found, fuse, weighted
from laser.memory.reranking import Rerank, rerank
from laser.memory.source import MemorySource
from laser.model.memory import MemoryOwner
from laser.ports.clock import Clock
from laser.ports.embedder import Embedder
from laser.ports.memory_view import Found, MemoryView

__all__ = ["Recalling", "Related"]

Related = Callable[[str], Awaitable[Sequence[str]]]
"""From a query to names that a graph relates to the names in it."""

_STRATEGIES: Final = ("auto", "recent", "keyword", "semantic", "hybrid", "graph", "temporal")
_EMBED_BATCH: Final = 64


class Recalling:
    """Recalls of one memory handle. Arguments were checked, but for the strategy.

    Args:
        embedder: for ``semantic`` and ``hybrid``. how: of a second look at the best. related: for ``graph``.
    """

    def __init__(
        self,
        source: MemorySource,
        clock: Clock,
        embedder: Embedder | None,
        how: Rerank | None,
        related: Related | None,
    ) -> None:
        self._source = source
        self._clock = clock
        self._embedder = embedder
        self._how = how
        self._related = related

    async def recall(
        self, owner: MemoryOwner, query: str | None, limit: int, strategy: str, folded: bool
    ) -> list[MemoryItem]:
        """See ``Memory.recall``."""
        self._check(strategy, query, folded)
        if limit == 0:
            return []
        now = self._clock.now_micros()
        if folded:
            fold = await self._source.fold()
            words = None if strategy == "recent" else query
            return await fold.recall(owner, words, limit, now, by_feedback=strategy != "recent")
        if strategy == "recent" or query is None:
            by_feedback = strategy != "recent"
            found = await self._source.ask(lambda view: view.recent(owner, limit, now, by_feedback=by_feedback))
            return as_found(found, by_feedback=by_feedback)[:limit]
        depth = max(limit, CANDIDATES)
        items = await self._source.ask(lambda view: self._matching(view, owner, query, depth, strategy, now))
        if self._how is not None and strategy != "temporal":
            items = await rerank(query, items, self._how)
        return items[:limit]

    async def get(self, owner: MemoryOwner, item_id: str) -> MemoryItem | None:
        """An item by its id."""
        now = self._clock.now_micros()
        found = await self._source.ask(lambda view: view.get(owner, item_id, now))
        return None if found is None else MemoryItem.of(found.item, found.weight)

    async def _matching(
        self, view: MemoryView, owner: MemoryOwner, query: str, depth: int, strategy: str, now: int
    ) -> list[MemoryItem]:
        if strategy == "auto":
            strategy = "keyword" if self._embedder is None else "hybrid"
        if strategy == "semantic":
            return weighted(await self._nearest(view, owner, query, depth, now), "semantic", now)
        if strategy == "graph":
            assert self._related is not None
            query = " ".join([query, *await self._related(query)])
        found = await view.keyword(owner, query, depth, now)
        if strategy == "hybrid":
            return fuse({"keyword": found, "semantic": await self._nearest(view, owner, query, depth, now)}, now)
        items = weighted(found, "keyword", now)
        if strategy == "temporal":
            items.sort(key=lambda item: -item.created_at_micros)
        return items

    async def _nearest(self, view: MemoryView, owner: MemoryOwner, query: str, depth: int, now: int) -> list[Found]:
        embedder = self._embedder
        assert embedder is not None
        await self._embed_new(view, owner.namespace, embedder)
        vectors = await _vectors(embedder, [await view.named(owner, query)])
        return await view.nearest(owner, embedder.model, query, vectors[0], depth, now)

    async def _embed_new(self, view: MemoryView, namespace: str, embedder: Embedder) -> None:
        """Gives every item a vector that has none: the first recall after many writes takes its time."""
        while True:
            lacking = await view.unembedded(namespace, embedder.model, _EMBED_BATCH)
            if not lacking:
                return
            vectors = await _vectors(embedder, [entry.text for entry in lacking])
            await view.embed(embedder.model, [entry.row for entry in lacking], vectors)

    def _check(self, strategy: str, query: str | None, folded: bool) -> None:
        if strategy not in _STRATEGIES:
            raise InvalidError(
                f"strategy: {strategy!r:.40} is not one of {', '.join(_STRATEGIES)}", argument="strategy"
            )
        if folded or query is None:
            return
        if strategy in ("semantic", "hybrid") and self._embedder is None:
            raise UnsupportedError(
                f"strategy {strategy!r} needs an embedder: laser.memory_with(namespace, embedder=…); "
                "'keyword' and search() need none"
            )
        if strategy == "graph" and self._related is None:
            raise UnsupportedError("strategy 'graph' needs a graph: laser.memory_with(namespace, graph='name')")


async def _vectors(embedder: Embedder, texts: Sequence[str]) -> Sequence[Sequence[float]]:
    vectors = await embedder.embed(texts)
    if len(vectors) != len(texts):
        raise InvalidError(f"embedder: gave {len(vectors)} vectors for {len(texts)} texts", argument="embedder")
    return vectors
