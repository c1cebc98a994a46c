"""The context scope as users see it: one conversation's messages and state, and the rooms that it reaches."""

from __future__ import annotations

from laser.context.scope import ConversationScope
from laser.graph.graph import Graph

__all__ = ["ContextScope"]


class ContextScope(ConversationScope):
    """One conversation. ``Laser.context`` makes it, without any I/O; every method works on that conversation only.

    A conversation's records on one topic share a partition: its id is the partition key.
    """

    def graph(self, name: str) -> Graph:
        """The stream's graph of a name: the same one that ``Laser.graph`` gives, shared by all conversations.

        What is written through it names this conversation as the one that asserted it.

        Args:
            name: 1 to ``MAX_GRAPH_NAME_BYTES`` bytes.
        """
        return Graph(self._laser, name, self._conversation)
