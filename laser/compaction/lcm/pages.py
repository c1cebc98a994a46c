"""What the ``lcm`` tools answer with: nodes, hits and rows, in pages."""

from __future__ import annotations

import msgspec

from laser.compaction.lcm.nodes import Node, Tree

__all__ = ["FoldInfo", "FoldPage", "GrepHit", "GrepPage", "RowText", "TextPage", "fold_info"]


class FoldInfo(msgspec.Struct, frozen=True):
    """A node of the summaries.

    Attributes:
        number: its name. level: 0 for a summary of rows. parent: the node that was made of it, and others.
        children: the nodes that it was made of. spans: places of its rows, first and last of each stretch.
        rows, tokens: of its source. text: the summary. pointer: there is none, the text says where the source is.
    """

    number: int
    level: int
    parent: int | None
    children: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]
    rows: int
    tokens: int
    text: str
    pointer: bool


class FoldPage(msgspec.Struct, frozen=True):
    """Nodes, oldest first. next: what to give as ``after`` for more; ``None`` at the end."""

    folds: tuple[FoldInfo, ...]
    next: int | None


class GrepHit(msgspec.Struct, frozen=True):
    """Where a text stands: in row ``seq``, or in the summary of node ``node``. role: of the row. excerpt: around it."""

    excerpt: str
    seq: int | None = None
    role: str | None = None
    node: int | None = None


class GrepPage(msgspec.Struct, frozen=True):
    """Hits: rows in order, then summaries. next: what to give as ``after`` for more; ``None`` at the end."""

    hits: tuple[GrepHit, ...]
    next: str | None


class RowText(msgspec.Struct, frozen=True):
    """The words of a row, or of a part of it. start: characters of the row before them. whole: they are all of it."""

    seq: int
    role: str | None
    text: str
    start: int = 0
    whole: bool = True


class TextPage(msgspec.Struct, frozen=True):
    """Rows in order. next: what to give as ``after`` for more; ``None`` at the end."""

    rows: tuple[RowText, ...]
    next: str | None


def fold_info(tree: Tree, node: Node) -> FoldInfo:
    """A node as the tools show it."""
    return FoldInfo(
        node.number,
        node.level,
        tree.parents.get(node.number),
        node.children,
        node.spans,
        node.rows,
        node.tokens,
        node.text,
        node.pointer,
    )
