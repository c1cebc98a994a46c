"""Names that a knowledge graph relates to the names in a question."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Final

from laser.graph.graph import Graph

__all__ = ["related_by"]

_NAME: Final = re.compile(r"[^\W_][\w'.-]*")
_MAX_NAMES: Final = 32
_MAX_NAME_BYTES: Final = 255
_MAX_RELATED: Final = 16


def related_by(graph: Graph) -> Callable[[str], Awaitable[Sequence[str]]]:
    """From a question to the values of nodes one edge away from those whose value is a word, or two, of it."""

    async def related(query: str) -> list[str]:
        # Two of them fit into a value of a node.
        words = [match.rstrip(".'-") for match in _NAME.findall(query) if len(match.encode()) <= _MAX_NAME_BYTES]
        names = list(dict.fromkeys([*words, *(f"{first} {second}" for first, second in pairwise(words))]))
        found: dict[str, None] = {}
        for name in names[:_MAX_NAMES]:
            for node in await graph.find(value=name, limit=_MAX_RELATED):
                near = await graph.neighbors(node, "both", limit=_MAX_RELATED)
                found.update(dict.fromkeys(hit.node.value for hit in near))
        return [name for name in found if name not in names][:_MAX_RELATED]

    return related
