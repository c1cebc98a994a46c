"""What can be asked of a memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from laser.context.catching_up import CatchUpProgress
from laser.context.connection import Connection
from laser.errors import InvalidError
from laser.limits import DEFAULT_MEMORY_RESULTS
from laser.memory.arguments import check_budget, check_item_id, check_limit, check_query, read_namespace, read_owner
from laser.memory.blocks import memory_block
from laser.memory.hits import MemoryItem
from laser.memory.recalling import Recalling, Related
from laser.memory.reranking import Rerank
from laser.memory.source import MemorySource
from laser.model.checks import check_progress
from laser.model.messages import SkippedRecord
from laser.ports.clock import Clock, SystemClock
from laser.ports.embedder import Embedder

__all__ = ["Backend", "MemoryReader", "Strategy"]

Strategy = Literal["auto", "recent", "keyword", "semantic", "hybrid", "graph", "temporal"]

Backend = Literal["auto", "log", "vector"]

_BACKENDS: Final = ("auto", "log", "vector")


class MemoryReader:
    """The reading half of ``Memory``."""

    def __init__(
        self,
        laser: Connection,
        namespace: str,
        backend: Backend = "auto",
        *,
        embedder: Embedder | None = None,
        rerank: Rerank | None = None,
        related: Related | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._name = namespace
        if backend not in _BACKENDS:
            raise InvalidError(f"backend: {backend!r:.40} is not one of {', '.join(_BACKENDS)}", argument="backend")
        if backend == "vector" and embedder is None:
            raise InvalidError("embedder: the backend 'vector' needs one", argument="embedder")
        self._backend = backend
        self._namespace = read_namespace(laser.stream, namespace)
        if embedder is not None and not isinstance(embedder, Embedder):
            raise InvalidError(
                f"embedder: {type(embedder).__name__} has no model and no embed(texts)", argument="embedder"
            )
        if rerank is not None and not isinstance(rerank, Rerank):
            raise InvalidError(f"rerank: expected a Rerank, got {type(rerank).__name__}", argument="rerank")
        self._clock = clock or SystemClock()
        self._source = MemorySource.of(laser)
        self._recalling = Recalling(self._source, self._clock, embedder, rerank, related)

    @property
    def namespace(self) -> str:
        """The namespace's name."""
        return self._name

    @property
    def skipped(self) -> tuple[SkippedRecord, ...]:
        """Records of the topic that this client could not decode, the first 1,000."""
        return self._source.skipped

    async def recall(
        self,
        query: str | None = None,
        *,
        limit: int = DEFAULT_MEMORY_RESULTS,
        strategy: Strategy = "auto",
        folded: bool = False,
        conversation: str | None = None,
        agent: str | None = None,
        user: str | None = None,
        application: str | None = None,
        semantic: str | None = None,
    ) -> list[MemoryItem]:
        """The items that matter most.

        Args:
            query: what it is about; of a long text the rarest 64 words count. ``semantic`` is the same, as laser-sdk
                calls it.
            limit: items, from 0 to ``MAX_MEMORY_RESULTS``.
            strategy:

                - ``auto``: with a query ``hybrid`` where there is an embedder, else ``keyword``; without one by
                  feedback, then newest first.
                - ``recent``: newest first.
                - ``keyword``: by the words shared with the query (BM25).
                - ``semantic``: by meaning, with the embedder.
                - ``hybrid``: both rankings fused.
                - ``temporal``: the best matches of the query, newest first.
                - ``graph``: ``keyword`` with the names that the memory's graph relates to those in the query.
            folded: fold the topic in this process instead of reading the view: laser-sdk's answer, which needs no
                view. With a query it gives items that have any of its words, and it ranks by feedback, then time.

        Raises:
            UnsupportedError: the strategy needs an embedder or a graph, and the memory has none.
        """
        if query is not None and semantic is not None:
            raise InvalidError("semantic: is another name for query; give one of them", argument="semantic")
        owner = read_owner(self._namespace, conversation=conversation, agent=agent, user=user, application=application)
        text = check_query(semantic if query is None else query)
        if self._backend == "vector" and strategy == "auto" and text is not None:
            strategy = "semantic"
        folded = folded or self._backend == "log"
        return await self._recalling.recall(owner, text, check_limit(limit), strategy, folded)

    async def search(
        self,
        query: str,
        *,
        limit: int = DEFAULT_MEMORY_RESULTS,
        folded: bool = False,
        conversation: str | None = None,
        agent: str | None = None,
        user: str | None = None,
        application: str | None = None,
    ) -> list[MemoryItem]:
        """Items by the words that they share with a query, best first. It needs no embedder.

        Args: as in ``recall``.
        """
        return await self.recall(
            query,
            limit=limit,
            strategy="keyword",
            folded=folded,
            conversation=conversation,
            agent=agent,
            user=user,
            application=application,
        )

    async def block(
        self,
        token_budget: int | None = None,
        *,
        query: str | None = None,
        limit: int = DEFAULT_MEMORY_RESULTS,
        conversation: str | None = None,
        agent: str | None = None,
        user: str | None = None,
        application: str | None = None,
    ) -> str:
        """What ``recall`` gives, as one text for a prompt: the items' texts with blank lines between them.

        Args:
            token_budget: tokens that the texts may cost, by the default estimate. The first item is always there; from
                the first one on that does not fit the rest is left out, and a last line says how many.
        """
        budget = check_budget(token_budget)
        items = await self.recall(
            query, limit=limit, conversation=conversation, agent=agent, user=user, application=application
        )
        return memory_block(items, budget)

    async def get(
        self,
        id: str,
        *,
        conversation: str | None = None,
        agent: str | None = None,
        user: str | None = None,
        application: str | None = None,
    ) -> MemoryItem | None:
        """An item by its id; ``None`` where it is absent, forgotten, over, or of another owner than those named."""
        owner = read_owner(self._namespace, conversation=conversation, agent=agent, user=user, application=application)
        return await self._recalling.get(owner, check_item_id(id, "id"))

    async def rebuild(self, progress: Callable[[CatchUpProgress], None] | None = None) -> int:
        """Folds the read view anew from the topic's start. Returns how many raw records were read."""
        check_progress(progress)
        return await self._source.rebuild(progress)

    def __repr__(self) -> str:
        return f"Memory({self._name!r})"
