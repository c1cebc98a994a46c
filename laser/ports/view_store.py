"""The read views of a client: one for each kind and topic."""

from __future__ import annotations

from typing import Protocol

from laser.ports.graph_view import GraphView
from laser.ports.memory_view import MemoryView

__all__ = ["Views"]


class Views(Protocol):
    """Where a client keeps its read views. Asking for a view does no I/O."""

    def graph(self, stream: str, topic: str) -> GraphView:
        """The graphs of a topic."""
        ...

    def memory(self, stream: str, topic: str) -> MemoryView:
        """The memory of a topic."""
        ...

    async def aclose(self) -> None:
        """Closes them once everything under way is done. Calling it again does nothing."""
        ...
