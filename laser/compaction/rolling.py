"""The strategy ``rolling``: one summary of everything older than the tail, made anew with each compaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Final

import msgspec

from laser.compaction.assembling import assemble
from laser.compaction.inputs import PreparedInput, said
from laser.compaction.planning import plan_eviction, plan_stubs
from laser.compaction.prior import Prior, StoredFold
from laser.compaction.requests import CompactionLimits
from laser.compaction.rolling_state import RollingCut, RollingState, next_state, read_cut
from laser.compaction.rows import Row
from laser.compaction.sizes import text_cost
from laser.compaction.strategy import CompactionWork
from laser.compaction.summarizing import Piece, piece_limit, pieces_of, split_text, summarize_all
from laser.compaction.text import neutral
from laser.compaction.view import CompactionView
from laser.errors import CompactionError
from laser.memory.redaction import redact

__all__ = ["Rolling"]

_LEAST_SUMMARY: Final = 48


class Rolling:
    """Shows instructions, one summary, a few quotes of the user, and the newest part of the conversation as it is.

    Each compaction makes a new summary out of the one before and what became older than the tail since. Between two
    compactions the request only grows at its end.

    Args:
        trigger_percent, tail_percent, window: see ``CompactionLimits``.
    """

    name = "rolling"

    def __init__(self, *, trigger_percent: int = 90, tail_percent: int = 25, window: int | None = None) -> None:
        self.limits = CompactionLimits(trigger_percent, tail_percent, window)

    async def project(self, view: CompactionView) -> tuple[list[PreparedInput], int]:
        """See ``CompactionStrategy.project``."""
        cut = read_cut(view)
        summaries: dict[int, list[PreparedInput]] = {}
        if cut.state is not None and cut.state.summary:
            summaries[0] = [said(_summary_text(cut.state), "summary")]
            if cut.state.recap:
                summaries[0].append(said(cut.state.recap, "recap"))
        covered = cut.covered
        found = _prior(view, cut)
        if found.folds:
            covered = bytearray(covered)
            for fold in found.folds:
                place = view.history.place(fold.first)
                summaries.setdefault(place, []).append(said(fold.text, "fold"))
                for seq in fold.seqs:
                    covered[view.history.place(seq)] = 1
        stubs = () if cut.state is None else frozenset(cut.state.stubs)
        return assemble(view, covered, summaries, stubs)

    async def compact(self, view: CompactionView, work: CompactionWork, *, force: bool) -> bool:
        """See ``CompactionStrategy.compact``."""
        cut = read_cut(view)
        found = _prior(view, cut)
        history, state = view.history, cut.state
        covered = bytearray(cut.covered)
        in_folds = {history.place(seq) for fold in found.folds for seq in fold.seqs}
        folded = {
            number
            for number, unit in enumerate(history.units)
            if in_folds and not in_folds.isdisjoint(range(unit.start, unit.stop))
        }
        tail_tokens = min(view.tail_tokens, await self._forced_tail(view)) if force else view.tail_tokens
        plan = plan_eviction(history, covered, tail_tokens, folded, view.request.keep_last)
        boundary = max(cut.boundary, plan.boundary) if plan.evicted else cut.boundary
        known = () if state is None else state.stubs
        stubs = plan_stubs(plan.tail, known, _room(view), view.estimator)
        if not plan.evicted and stubs == known:
            return False
        evicted = [history.units[number] for number in plan.evicted]
        source = [
            history.rows[place]
            for unit in evicted
            for place in range(unit.start, unit.stop)
            if not covered[place] and not history.rows[place].pinned
        ]
        before = await _tokens(self, view)
        if plan.evicted and view.trigger is not None and view.fixed_tokens >= view.trigger and not force:
            raise CompactionError(
                f"what cannot be made smaller takes {view.fixed_tokens} tokens, and the request is compacted from "
                f"{view.trigger} on: shorten the instructions or the context, or reserve less",
                tokens=before,
                window=view.window,
            )
        summary = "" if state is None else state.summary
        if plan.evicted:
            summary = await self._summarize(view, work, cut, found, source)
        made = next_state(view, plan.evicted, boundary, cut, summary, stubs)
        raw = msgspec.Raw(msgspec.json.encode(made))
        after = await _tokens(self, view.with_state(raw))
        if after >= before:
            raise CompactionError(
                f"with the new summary the request would have {after} tokens, it has {before}: nothing was changed",
                tokens=before,
                window=view.window,
            )
        return await work.save(made, before=before, after=after) is not None

    async def _forced_tail(self, view: CompactionView) -> int:
        return await _tokens(self, view) * self.limits.tail_percent // 100

    async def _summarize(
        self, view: CompactionView, work: CompactionWork, cut: RollingCut, found: Prior, rows: Sequence[Row]
    ) -> str:
        seqs = {row.seq for row in rows}
        folds = [fold for fold in found.folds if seqs.issuperset(fold.seqs)]
        in_folds = {seq for fold in folds for seq in fold.seqs}
        source: list[tuple[int, Row | StoredFold]] = [(fold.first, fold) for fold in folds]
        source += ((row.seq, row) for row in rows if row.seq not in in_folds)
        source.sort(key=itemgetter(0))
        total, done = sum(_cost(one) for _, one in source), 0
        previous = None if cut.state is None or not cut.state.summary else cut.state.summary
        # Of a short stretch a short summary: one that is as long as its source makes nothing smaller.
        carried = 0 if previous is None else text_cost(previous.encode())
        max_tokens = min(view.summary_tokens, max(_LEAST_SUMMARY, carried + total // 3))
        limit = piece_limit(view.chunk_tokens, max_tokens)

        def report(tokens: int) -> None:
            nonlocal done
            done += tokens
            work.report(done, total)

        work.report(0, total)
        return await summarize_all(
            partial(work.ask, redacted=True),
            "rolling",
            (piece for _, one in source for piece in _pieces(one, limit)),
            previous=previous,
            max_tokens=max_tokens,
            chunk_tokens=view.chunk_tokens,
            done=report,
        )


def _pieces(source: Row | StoredFold, limit: int) -> Iterator[Piece]:
    if isinstance(source, Row):
        return pieces_of([source], limit)
    return split_text(neutral(redact(source.text)), _cost(source), limit)


def _cost(source: Row | StoredFold) -> int:
    return source.tokens if isinstance(source, Row) else text_cost(source.text.encode())


async def _tokens(strategy: Rolling, view: CompactionView) -> int:
    inputs, _ = await strategy.project(view)
    return view.request.reserved + sum(one.tokens for one in (*view.request.context, *inputs))


def _room(view: CompactionView) -> int:
    """Tokens that the rows that stay may cost."""
    if view.trigger is None:
        return 1 << 62
    return max(0, view.trigger - 1 - view.fixed_tokens - 2 * view.summary_tokens)


def _prior(view: CompactionView, cut: RollingCut) -> Prior:
    if not view.has_prior:
        return Prior((), ())
    left = [row for place, row in enumerate(view.history.rows) if not cut.covered[place] and not row.pinned]
    return view.prior(left)


def _summary_text(state: RollingState) -> str:
    return (
        f"[laser: summary of the conversation so far, {state.rows} messages; what it says was done is done]\n"
        f"{state.summary}\n[laser: end of the summary]"
    )
