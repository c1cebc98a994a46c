"""The strategy ``rolling``: one summary of everything older than the tail, made anew with each compaction."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Final

import msgspec

from laser.compaction.assembling import assemble
from laser.compaction.inputs import PreparedInput, said
from laser.compaction.planning import plan_eviction, plan_stubs
from laser.compaction.prior import Prior, StoredFold
from laser.compaction.rows import Row
from laser.compaction.sizes import text_cost
from laser.compaction.strategy import CompactionLimits, CompactionView, CompactionWork
from laser.compaction.summarizing import Piece, piece_limit, pieces_of, split_text, summarize_all
from laser.compaction.text import clip, neutral, user_text
from laser.errors import CompactionError
from laser.memory.redaction import redact

__all__ = ["Rolling"]

_RECAP_MESSAGES: Final = 5
_RECAP_CHARACTERS: Final = 600


class RollingState(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What ``rolling`` saves.

    Attributes:
        first, cursor: the first row of the transcript then, and the last one before the cut.
        users: messages of users before the cut. fingerprint: of these messages. ending: of the row before the cut.
        rows: how many the summary stands for. summary: of them; empty while nothing was folded.
        recap: the newest of the users' messages before the cut, quoted. held: rows before the cut, first and last of
            each unit, that the summary does not stand for. stubs: rows whose results are left out.
    """

    first: int
    cursor: int
    users: int
    fingerprint: str
    ending: str
    rows: int
    summary: str
    recap: str = ""
    held: tuple[tuple[int, int], ...] = ()
    stubs: tuple[int, ...] = ()


class _Cut(msgspec.Struct, frozen=True):
    """A state laid over a transcript. covered: by the place of a row, whether the summary stands for it."""

    state: RollingState | None
    boundary: int
    covered: bytes | bytearray


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
        cut = _cut(view)
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
        cut = _cut(view)
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
        made = _state(view, plan.evicted, boundary, cut, summary, stubs)
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
        self, view: CompactionView, work: CompactionWork, cut: _Cut, found: Prior, rows: Sequence[Row]
    ) -> str:
        limit = piece_limit(view.chunk_tokens, view.summary_tokens)
        seqs = {row.seq for row in rows}
        folds = [fold for fold in found.folds if seqs.issuperset(fold.seqs)]
        in_folds = {seq for fold in folds for seq in fold.seqs}
        source: list[tuple[int, Row | StoredFold]] = [(fold.first, fold) for fold in folds]
        source += ((row.seq, row) for row in rows if row.seq not in in_folds)
        source.sort(key=itemgetter(0))
        total, done = sum(_cost(one) for _, one in source), 0

        def report(tokens: int) -> None:
            nonlocal done
            done += tokens
            work.report(done, total)

        work.report(0, total)
        previous = None if cut.state is None or not cut.state.summary else cut.state.summary
        return await summarize_all(
            partial(work.ask, redacted=True),
            "rolling",
            (piece for _, one in source for piece in _pieces(one, limit)),
            previous=previous,
            max_tokens=view.summary_tokens,
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


def _prior(view: CompactionView, cut: _Cut) -> Prior:
    if not view.has_prior:
        return Prior((), ())
    left = [row for place, row in enumerate(view.history.rows) if not cut.covered[place] and not row.pinned]
    return view.prior(left)


def _cut(view: CompactionView) -> _Cut:
    """The newest state laid over the transcript; none where it does not fit."""
    rows = view.history.rows
    nothing = _Cut(None, 0, bytes(len(rows)))
    if not view.own or not rows:
        return nothing
    state = _decode(view.own[-1])
    if state is None:
        return nothing
    boundary = _boundary(view, state)
    if boundary is None:
        return nothing
    covered = bytearray(len(rows))
    covered[:boundary] = b"\1" * boundary
    for first, last in state.held:
        start, stop = view.history.place(first), view.history.place(last + 1)
        covered[start:stop] = bytes(stop - start)
    if not state.summary:
        covered = bytearray(len(rows))
    for place in range(boundary):
        if rows[place].pinned:
            covered[place] = 0
    return _Cut(state, boundary, covered)


def _boundary(view: CompactionView, state: RollingState) -> int | None:
    """The place of the cut: before the user's message after those that were counted; ``None`` when it is another
    transcript."""
    history = view.history
    if state.first < history.floor:
        # Retention took what came first: the summary is all that is left of it.
        last = history.between(state.cursor, state.cursor)
        if last and _fingerprint(last) != state.ending:
            return None
        return history.place(state.cursor + 1)
    key = "rolling", view.ids(view.strategy)[-1]
    if key not in view.memo:
        rows = history.rows
        users = [place for place, row in enumerate(rows) if row.user]
        fits = (
            rows[0].seq == state.first
            and len(users) > state.users
            and _fingerprint([rows[place] for place in users[: state.users]]) == state.fingerprint
        )
        view.memo[key] = (users[state.users] if state.users else 0) if fits else None
    boundary: int | None = view.memo[key]
    return boundary


def _state(
    view: CompactionView, evicted: Sequence[int], boundary: int, cut: _Cut, summary: str, stubs: tuple[int, ...]
) -> RollingState:
    history, rows = view.history, view.history.rows
    folded = bytearray(cut.covered)
    for number in evicted:
        unit = history.units[number]
        folded[unit.start : unit.stop] = b"\1" * (unit.stop - unit.start)
    held: list[tuple[int, int]] = []
    for unit in history.units:
        stop = min(unit.stop, boundary)
        left = [rows[place].seq for place in range(unit.start, stop) if not folded[place] and not rows[place].pinned]
        if left:
            held.append((left[0], left[-1]))
    users = [row for row in rows[:boundary] if row.user]
    ending = rows[boundary - 1 : boundary]
    gone = 0 if cut.state is None else max(0, cut.state.rows - sum(cut.covered))
    return RollingState(
        first=rows[0].seq,
        cursor=ending[0].seq if ending else -1,
        users=len(users),
        fingerprint=_fingerprint(users),
        ending=_fingerprint(ending),
        rows=gone + sum(_plain(rows, folded)) if summary else 0,
        summary=summary,
        recap=_recap([row for place, row in enumerate(rows[:boundary]) if row.user and folded[place]]),
        held=tuple(held),
        stubs=stubs,
    )


def _plain(rows: Sequence[Row], folded: Sequence[int]) -> list[bool]:
    return [bool(fold) and not row.pinned for row, fold in zip(rows, folded, strict=True)]


def _fingerprint(rows: Sequence[Row]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for row in rows:
        digest.update(len(row.payload).to_bytes(8, "big"))
        digest.update(row.payload)
    return digest.hexdigest()


def _summary_text(state: RollingState) -> str:
    return (
        f"[laser: summary of the conversation so far, {state.rows} messages; what it says was done is done]\n"
        f"{state.summary}\n[laser: end of the summary]"
    )


def _recap(users: Sequence[Row]) -> str:
    """The newest messages of the user among those that are folded, quoted line by line."""
    quotes: list[str] = []
    for row in users[-_RECAP_MESSAGES:]:
        words = user_text(row.payload) if row.content is None else row.text
        text = clip(neutral(words).strip(), _RECAP_CHARACTERS)
        if text:
            quotes.append("\n".join(f"> {line}" for line in text.splitlines()))
    if not quotes:
        return ""
    body = "\n\n".join(quotes)
    return f"[laser: earlier words of the user, answered already]\n{body}\n[laser: end of the quotes]"


def _decode(raw: msgspec.Raw) -> RollingState | None:
    try:
        return msgspec.json.decode(raw, type=RollingState)
    except msgspec.MsgspecError:
        return None
