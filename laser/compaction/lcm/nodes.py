"""The nodes of a session's summaries, and the tree that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from laser.compaction.rows import Row, rows_digest

__all__ = ["LCM", "LcmState", "Node", "Tree", "join_spans", "read_tree", "rows_of", "spans_of"]

LCM: Final = "lcm"
"""The name of the strategy whose records hold nodes."""


class Node(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A summary.

    Attributes:
        number: its name in the session, from 1. level: 0 for a leaf, else one more than its highest child.
        spans: places of the transcript that it stands for, first and last of each stretch, ascending.
        rows: how many rows. tokens: of these rows. text: the summary.
        children: the nodes that it was made of. digest: of a leaf's rows.
        pointer: no summary that is shorter than its source could be had; the text only says where that is.
    """

    number: int
    level: int
    spans: tuple[tuple[int, int], ...]
    rows: int
    tokens: int
    text: str
    children: tuple[int, ...] = ()
    digest: str = ""
    pointer: bool = False

    @property
    def first(self) -> int:
        """The place of its first row."""
        return self.spans[0][0]

    @property
    def last(self) -> int:
        """The place of its last row."""
        return self.spans[-1][1]


class LcmState(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One record: a node, or the rows whose results are left out from here on."""

    node: Node | None = None
    stubs: tuple[int, ...] | None = None


class Tree(msgspec.Struct, frozen=True):
    """The nodes that fit the transcript.

    Attributes:
        nodes: by number. parents: by the number of a child. next: the number of the next node.
        stubs: seqs of rows whose results are left out.
    """

    nodes: Mapping[int, Node]
    parents: Mapping[int, int]
    next: int
    stubs: tuple[int, ...] = ()

    def tops(self) -> list[Node]:
        """Nodes without a parent, by place: together all that is summarised, each row once."""
        return sorted((node for node in self.nodes.values() if node.number not in self.parents), key=_place)

    def leaves(self) -> list[Node]:
        """Nodes of rows, by place."""
        return sorted((node for node in self.nodes.values() if not node.children), key=_place)

    def below(self, node: Node) -> Iterator[Node]:
        """A node and all under it."""
        waiting = [node]
        while waiting:
            one = waiting.pop()
            yield one
            waiting += (self.nodes[child] for child in one.children)


class _Rows(Protocol):
    def between(self, first: int, last: int) -> Sequence[Row]: ...


def read_tree(states: Sequence[msgspec.Raw], view: _Rows, floor: int, memo: dict[Any, Any]) -> Tree:
    """The tree that saved states make over a transcript.

    A node whose rows are others now does not count, nor does one above it. Rows that retention took are not missed.

    Args:
        floor: rows before this place are gone. memo: kept between calls for one session.
    """
    decoded: list[LcmState] = memo.setdefault("lcm decoded", [])
    if len(decoded) < len(states):
        decoded += map(_decode, states[len(decoded) :])
    nodes: dict[int, Node] = {}
    parents: dict[int, int] = {}
    stubs: tuple[int, ...] = ()
    highest = 0
    for state in decoded[: len(states)]:
        if state.stubs is not None:
            stubs = state.stubs
        node = state.node
        if node is None:
            continue
        highest = max(highest, node.number)
        if node.children:
            fits = all(child in nodes and child not in parents for child in node.children)
        else:
            fits = _fits(node, view, floor, memo)
        if fits and node.number not in nodes:
            nodes[node.number] = node
            parents.update(dict.fromkeys(node.children, node.number))
    return Tree(nodes, parents, highest + 1, stubs)


def rows_of(node: Node, view: _Rows) -> list[Row]:
    """The rows that a node stands for and that the log still holds."""
    return [row for first, last in node.spans for row in view.between(first, last) if not row.pinned]


def spans_of(rows: Sequence[Row], runs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Stretches of the transcript by their first and last place, neighbours as one.

    Args:
        runs: ascending, each as places of rows ``[start, stop)``.
    """
    merged: list[list[int]] = []
    for start, stop in runs:
        if merged and merged[-1][1] == start:
            merged[-1][1] = stop
        else:
            merged.append([start, stop])
    return tuple((rows[start].seq, rows[stop - 1].seq) for start, stop in merged)


def join_spans(spans: Iterable[tuple[int, int]], place: Callable[[int], int]) -> tuple[tuple[int, int], ...]:
    """Stretches of the transcript in order, neighbours as one.

    Args:
        place: how many rows come before a place of the transcript.
    """
    joined: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if joined and place(joined[-1][1] + 1) == place(first):
            joined[-1] = joined[-1][0], last
        else:
            joined.append((first, last))
    return tuple(joined)


def _fits(node: Node, view: _Rows, floor: int, memo: dict[Any, Any]) -> bool:
    if not node.spans:
        return False
    if node.first < floor:
        return True
    key = "lcm fits", node.number, node.digest
    if key not in memo:
        rows = rows_of(node, view)
        memo[key] = len(rows) == node.rows and rows_digest(rows) == node.digest
    found: bool = memo[key]
    return found


def _decode(raw: msgspec.Raw) -> LcmState:
    try:
        return msgspec.json.decode(raw, type=LcmState)
    except msgspec.MsgspecError:
        # A newer release's: it says nothing to this one.
        return LcmState()


def _place(node: Node) -> tuple[int, int]:
    return node.first, node.number
