"""Graphs in the DOT language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator

import laser as ls
from laser.cli.output import plain, stretch_text

__all__ = ["dot_lines"]


def dot_lines(graph: ls.GraphExport) -> Iterator[str]:
    """A graph, line by line. What is in it cannot end a text or reach a terminal: everything is quoted."""
    yield f"digraph {_quoted(graph.name)} {{"
    for node in graph.nodes:
        yield f"  {_quoted(node.id)} [label={_quoted(f'{node.label}: {node.value}')}];"
    for edge in graph.edges:
        weight = "" if edge.weight == 1 else f" ({edge.weight:g})"
        when = stretch_text(edge.valid_from, edge.valid_to)
        label = "\n".join(filter(None, (edge.type + weight, when)))
        yield f"  {_quoted(edge.source)} -> {_quoted(edge.target)} [label={_quoted(label)}];"
    yield "}"


def _quoted(text: str) -> str:
    # Graphviz reads a backslash in a label as the start of an escape, so it is doubled.
    inner = plain(text).replace("\\", "\\\\").replace('"', '\\"').replace("\t", " ").replace("\n", "\\n")
    return f'"{inner}"'
