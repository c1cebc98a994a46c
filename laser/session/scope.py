"""The context scope as users see it: one conversation's messages and state, and the rooms that it reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laser.context.scope import ConversationScope

if TYPE_CHECKING:
    from laser.graph.graph import Graph
    from laser.memory.memory import Backend, Memory
    from laser.memory.reranking import Rerank
    from laser.memory.scoped import ScopedMemory
    from laser.ports.embedder import Embedder

__all__ = ["ContextScope"]


class ContextScope(ConversationScope):
    """One conversation. ``Laser.context`` makes it, without any I/O; every method works on that conversation only.

    A conversation's records on one topic share a partition: its id is the partition key.
    """

    def memory(self, memory: str | Memory) -> ScopedMemory:
        """This conversation's memory.

        Args:
            memory: a namespace, as ``Laser.memory`` takes it, or a memory of this client.
        """
        from laser.memory.memory import Memory
        from laser.memory.scoped import ScopedMemory

        handle = memory if isinstance(memory, Memory) else Memory(self._laser, memory)
        return ScopedMemory(handle, self._conversation)

    def memory_with(
        self,
        namespace: str,
        backend: Backend = "auto",
        *,
        embedder: Embedder | None = None,
        rerank: Rerank | None = None,
        graph: str | None = None,
    ) -> ScopedMemory:
        """This conversation's memory, with an embedder, a reranker or a graph; see ``Laser.memory_with``."""
        from laser.memory.memory import Memory
        from laser.memory.scoped import ScopedMemory
        from laser.session.relating import related_by

        related = None if graph is None else related_by(self.graph(graph))
        handle = Memory(self._laser, namespace, backend, embedder=embedder, rerank=rerank, related=related)
        return ScopedMemory(handle, self._conversation)

    def graph(self, name: str) -> Graph:
        """The stream's graph of a name: the same one that ``Laser.graph`` gives, shared by all conversations.

        What is written through it names this conversation as the one that asserted it.

        Args:
            name: 1 to ``MAX_GRAPH_NAME_BYTES`` bytes.
        """
        from laser.graph.graph import Graph

        return Graph(self._laser, name, self._conversation)
