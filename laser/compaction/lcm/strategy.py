"""The strategy ``lcm``: summaries of stretches, and summaries of these, each with links down to its source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import msgspec

from laser.compaction.assembling import assemble
from laser.compaction.inputs import PreparedInput, said
from laser.compaction.lcm.nodes import LCM, LcmState, Node, Tree, join_spans, read_tree, spans_of
from laser.compaction.planning import group_evicted, plan_eviction, plan_stubs
from laser.compaction.requests import CompactionLimits
from laser.compaction.rows import Row, rows_digest, tokens_of
from laser.compaction.sizes import text_cost
from laser.compaction.strategy import CompactionWork
from laser.compaction.summarizing import OversizedSummaryError, Piece, piece_limit, pieces_of, split_text, summarize_all
from laser.compaction.text import neutral
from laser.compaction.view import CompactionView
from laser.errors import CompactionError
from laser.memory.redaction import redact
from laser.ports.summarizer import SummaryKind

__all__ = ["Lcm", "node_text"]

_FANOUT: Final = 4
_LEAF_TOKENS: Final = 4_000
_LEAST_LEAF: Final = 256
_LEAST_SUMMARY: Final = 32


class Lcm:
    """Shows instructions, summaries with the places of their source, and the newest part of the conversation as it is.

    Older units are summarised in chunks, each in a record of its own: one that fails leaves those before it. When the
    summaries become many, neighbours are summarised together; what they were made of stays, and the ``lcm`` tools reach
    it down to the rows. It ignores what other strategies stored.

    Args:
        trigger_percent, tail_percent, window: see ``CompactionLimits``.
    """

    name = LCM

    def __init__(self, *, trigger_percent: int = 90, tail_percent: int = 25, window: int | None = None) -> None:
        self.limits = CompactionLimits(trigger_percent, tail_percent, window)

    async def project(self, view: CompactionView) -> tuple[list[PreparedInput], int]:
        """See ``CompactionStrategy.project``."""
        tree = _tree(view)
        summaries: dict[int, list[PreparedInput]] = {}
        for node in tree.tops():
            summaries.setdefault(view.history.place(node.first), []).append(said(node_text(node), "summary"))
        return assemble(view, _covered(view, tree), summaries, frozenset(tree.stubs))

    async def compact(self, view: CompactionView, work: CompactionWork, *, force: bool) -> bool:
        """See ``CompactionStrategy.compact``."""
        before = await self._tokens(view)
        tail_tokens = view.tail_tokens
        if force:
            tail_tokens = min(tail_tokens, before * self.limits.tail_percent // 100)
        tree = _tree(view)
        plan = plan_eviction(view.history, _covered(view, tree), tail_tokens, (), view.request.keep_last)
        if plan.evicted and view.trigger is not None and view.fixed_tokens >= view.trigger and not force:
            raise CompactionError(
                f"what cannot be made smaller takes {view.fixed_tokens} tokens, and the request is compacted from "
                f"{view.trigger} on: shorten the instructions or the context, or reserve less",
                tokens=before,
                window=view.window,
            )
        saved = False
        chunks = _chunks(view, plan.evicted, _covered(view, tree))
        total, done = sum(tokens_of(rows) for _, rows in chunks), 0
        for spans, rows in chunks:
            work.report(done, total)
            node = await self._leaf(view, work, tree, spans, rows)
            if node is None:
                continue
            after = await work.save(LcmState(node))
            if after is None:
                return saved
            view, saved = after, True
            tree = _tree(view)
            done += tokens_of(rows)
            work.report(done, total)
        while (group := _to_condense(view, tree)) is not None:
            after = await work.save(LcmState(await self._parent(view, work, tree, group)))
            if after is None:
                return saved
            view, saved = after, True
            tree = _tree(view)
        stubs = plan_stubs(plan.tail, tree.stubs, _room(view, tree), view.estimator)
        if stubs != tree.stubs and (set(stubs) - set(tree.stubs) or saved):
            saved = await work.save(LcmState(stubs=stubs)) is not None or saved
        return saved

    async def _tokens(self, view: CompactionView) -> int:
        inputs, _ = await self.project(view)
        return view.request.reserved + sum(one.tokens for one in (*view.request.context, *inputs))

    async def _leaf(
        self,
        view: CompactionView,
        work: CompactionWork,
        tree: Tree,
        spans: tuple[tuple[int, int], ...],
        rows: Sequence[Row],
    ) -> Node | None:
        tokens = tokens_of(rows)
        node = Node(tree.next, 0, spans, len(rows), tokens, "", digest=rows_digest(rows))
        pointer = msgspec.structs.replace(node, text=_pointer_text(node), pointer=True)
        if said(node_text(pointer), "summary").tokens >= tokens:
            return None
        max_tokens = max(_LEAST_SUMMARY, min(view.summary_tokens, tokens // 6))
        for limit in (max_tokens, max(_LEAST_SUMMARY // 2, max_tokens // 2)):
            pieces = pieces_of(rows, piece_limit(view.chunk_tokens, limit))
            text = await self._ask(work, "leaf", pieces, limit, view)
            made = msgspec.structs.replace(node, text=text or "")
            if text is not None and said(node_text(made), "summary").tokens < tokens:
                return made
        return pointer

    async def _parent(self, view: CompactionView, work: CompactionWork, tree: Tree, group: Sequence[Node]) -> Node:
        tokens = sum(said(node_text(node), "summary").tokens for node in group)
        node = Node(
            tree.next,
            1 + max(node.level for node in group),
            join_spans((span for node in group for span in node.spans), view.history.place),
            sum(node.rows for node in group),
            sum(node.tokens for node in group),
            "",
            tuple(node.number for node in group),
        )
        max_tokens = max(_LEAST_SUMMARY, min(view.summary_tokens, tokens // 3))
        for limit in (max_tokens, max(_LEAST_SUMMARY // 2, max_tokens // 2)):
            room = piece_limit(view.chunk_tokens, limit)
            pieces = (
                piece
                for text in [neutral(redact(child.text)) for child in group]
                for piece in split_text(text, text_cost(text.encode()), room)
            )
            text = await self._ask(work, "condensed", pieces, limit, view)
            made = msgspec.structs.replace(node, text=text or "")
            if text is not None and said(node_text(made), "summary").tokens < tokens:
                return made
        return msgspec.structs.replace(node, text=_pointer_text(node), pointer=True)

    async def _ask(
        self, work: CompactionWork, kind: SummaryKind, pieces: Iterator[Piece], limit: int, view: CompactionView
    ) -> str | None:
        try:
            return await summarize_all(
                partial(work.ask, redacted=True),
                kind,
                pieces,
                previous=None,
                max_tokens=limit,
                chunk_tokens=view.chunk_tokens,
                done=_ignore,
            )
        except OversizedSummaryError:
            return None


def node_text(node: Node) -> str:
    """A node as a request shows it."""
    return (
        f"[laser: summary {node.number}, rows {node.first} to {node.last}, {node.rows} messages; what it says was done "
        f"is done; lcm_describe and lcm_expand read its source]\n{node.text}\n[laser: end of summary {node.number}]"
    )


def _pointer_text(node: Node) -> str:
    return f"Not summarised, {node.tokens} tokens long. lcm_expand reads it."


def _tree(view: CompactionView) -> Tree:
    return read_tree(view.saved(LCM), view, view.history.floor, view.memo)


def _covered(view: CompactionView, tree: Tree) -> bytearray:
    rows = view.history.rows
    covered = bytearray(len(rows))
    for node in tree.leaves():
        for first, last in node.spans:
            start, stop = view.history.place(first), view.history.place(last + 1)
            covered[start:stop] = b"\1" * (stop - start)
    for place, row in enumerate(rows):
        if covered[place] and row.pinned:
            covered[place] = 0
    return covered


def _chunks(
    view: CompactionView, evicted: Sequence[int], covered: Sequence[int]
) -> list[tuple[tuple[tuple[int, int], ...], list[Row]]]:
    """Units to summarise together: their spans and rows. Partners are in one chunk."""
    history = view.history
    target = _LEAF_TOKENS if view.window is None else max(_LEAST_LEAF, view.window // 8)
    groups = group_evicted(history.units, evicted, target)
    if len(groups) > 1 and sum(unit.tokens for unit in groups[-1]) < target // 4:
        # A stretch too short for a summary of its own goes with the one before.
        short = groups.pop()
        groups[-1] += short
    found: list[tuple[tuple[tuple[int, int], ...], list[Row]]] = []
    for group in groups:
        runs: list[tuple[int, int]] = []
        rows: list[Row] = []
        for unit in group:
            at = unit.start
            for place in range(unit.start, unit.stop + 1):
                if place == unit.stop or covered[place]:
                    if place > at:
                        runs.append((at, place))
                    at = place + 1
                elif not history.rows[place].pinned:
                    rows.append(history.rows[place])
        found.append((spans_of(history.rows, runs), rows))
    return found


def _to_condense(view: CompactionView, tree: Tree) -> list[Node] | None:
    """The next nodes to summarise together: the oldest neighbours of the lowest level, once all cost too much."""
    tops = tree.tops()
    budget = view.summary_tokens if view.window is None else max(4 * _LEAST_SUMMARY, view.window // 8)
    if len(tops) < 2 or sum(said(node_text(node), "summary").tokens for node in tops) <= budget:
        return None
    for level in sorted({node.level for node in tops}):
        group = [node for node in tops if node.level == level][:_FANOUT]
        if len(group) > 1:
            return group
    return tops[:_FANOUT]


def _room(view: CompactionView, tree: Tree) -> int:
    """Tokens that the rows that stay may cost."""
    if view.trigger is None:
        return 1 << 62
    summaries = sum(said(node_text(node), "summary").tokens for node in tree.tops())
    return max(0, view.trigger - 1 - view.fixed_tokens - summaries)


def _ignore(_: int) -> None:
    return None
