"""The folds that ``lcm`` stored, for other strategies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from laser.compaction.lcm.nodes import LCM, Node, Tree, read_tree, rows_of
from laser.compaction.lcm.strategy import node_text
from laser.compaction.prior import Stored, StoredFold
from laser.compaction.rows import Row

__all__ = ["LcmFolds"]


class LcmFolds:
    """Gives the topmost nodes that stand for rows of a history only; where one stands for others too, its children."""

    owner = LCM

    def folds(self, view: Stored, history: Sequence[Row]) -> Iterable[StoredFold]:
        """See ``FoldProvider.folds``."""
        tree = read_tree(view.saved(LCM), view, view.floor, view.memo)
        if not tree.nodes:
            return []
        there = {row.seq for row in history}
        return [fold for node in tree.tops() for fold in _folds(tree, node, view, there)]


def _folds(tree: Tree, top: Node, view: Stored, there: set[int]) -> Iterator[StoredFold]:
    waiting = [top]
    while waiting:
        node = waiting.pop()
        seqs = [row.seq for row in rows_of(node, view)]
        # Of a node without rows nothing but itself is left; what folded it since has it.
        if there.issuperset(seqs) and (seqs or node.last < min(there, default=0)):
            yield StoredFold(f"{LCM} {node.number}", LCM, node_text(node), tuple(seqs), node.first)
        else:
            waiting += (tree.nodes[child] for child in reversed(node.children))
