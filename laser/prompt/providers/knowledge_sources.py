"""Sources of knowledge: a directory of Markdown files, and a knowledge graph."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import anyio.to_thread

from laser.errors import InvalidError
from laser.graph.graph import Graph
from laser.limits import MAX_GRAPH_RESULTS
from laser.model.graph import Node
from laser.prompt.provider import TurnContext
from laser.prompt.providers.knowledge import Concept

__all__ = ["DirectoryKnowledge", "GraphKnowledge"]

_MAX_FILES: Final = 2_000
_MAX_FILE_BYTES: Final = 65_536
_LINK: Final = re.compile(r"\[\[([^\[\]|#\n]{1,200})(?:[|#][^\[\]\n]{0,200})?\]\]")


class DirectoryKnowledge:
    """The Markdown files of a directory, read in a worker thread where they changed.

    A concept's name is its file's name without ``.md``, its description the first line that is no heading; ``[[name]]``
    links to another file. Links of the file system are not followed. At most 2,000 files of at most 64 KiB are read.

    Args:
        path: the directory.

    Raises:
        InvalidError: it is none.
    """

    def __init__(self, path: str | Path) -> None:
        self._root = Path(path)
        if not self._root.is_dir():
            raise InvalidError(f"path: {self._root.name!r} is not a directory", argument="path")
        self._files: dict[str, tuple[tuple[int, int], Concept]] = {}
        self._by_name: dict[str, Concept] = {}

    async def concepts(self, turn: TurnContext) -> Sequence[Concept]:
        """One for each file."""
        found = await anyio.to_thread.run_sync(self._read)
        self._by_name = {concept.name.casefold(): concept for concept in found}
        return found

    async def linked(self, concept: Concept) -> Sequence[Concept]:
        """Those that its text names in double brackets."""
        names = [name.strip().casefold() for name in _LINK.findall(concept.body)]
        return [self._by_name[name] for name in dict.fromkeys(names) if name in self._by_name]

    def _read(self) -> list[Concept]:
        found: list[Concept] = []
        files: dict[str, tuple[tuple[int, int], Concept]] = {}
        for file in sorted(self._root.rglob("*.md"))[:_MAX_FILES]:
            if file.is_symlink() or not file.is_file():
                continue
            stat = file.stat()
            if stat.st_size > _MAX_FILE_BYTES:
                continue
            stamp, key = (stat.st_mtime_ns, stat.st_size), str(file)
            held = self._files.get(key)
            if held is None or held[0] != stamp:
                held = (stamp, _concept(file.stem, file.read_text("utf-8", "replace")))
            files[key] = held
            found.append(held[1])
        self._files = files
        return found


class GraphKnowledge:
    """The nodes of a knowledge graph, linked by the edges that hold now.

    Args:
        graph: as ``laser.graph(name)`` gives it. label: of the nodes; ``None`` for all. At most
            ``MAX_GRAPH_RESULTS`` nodes are looked at.
    """

    def __init__(self, graph: Graph, label: str | None = None) -> None:
        self._graph = graph
        self._label = label

    async def concepts(self, turn: TurnContext) -> Sequence[Concept]:
        """One for each node."""
        return [_of_node(node) for node in await self._graph.find(label=self._label, limit=MAX_GRAPH_RESULTS)]

    async def linked(self, concept: Concept) -> Sequence[Concept]:
        """Its neighbours, whichever way the edges lead."""
        return [_of_node(hit.node) for hit in await self._graph.neighbors(concept.key, direction="both")]


def _of_node(node: Node) -> Concept:
    told = "; ".join(f"{name} {node.attributes[name]}" for name in sorted(node.attributes))
    return Concept(node.value, f"{node.label}: {told}" if told else node.label, key=node.id)


def _concept(name: str, text: str) -> Concept:
    lines = (line.strip() for line in text.splitlines())
    description = next((line for line in lines if line and not line.startswith(("#", "---"))), "")
    return Concept(name, description[:300], text)
