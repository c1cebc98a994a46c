"""The strategy ``snapcompact``: what is older than the tail is shown as pictures of its own words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import anyio.lowlevel
import anyio.to_thread
import msgspec

from laser.compaction.assembling import assemble
from laser.compaction.inputs import PreparedInput, said
from laser.compaction.planning import plan_eviction, plan_stubs
from laser.compaction.prior import Prior
from laser.compaction.requests import CompactionLimits, Request
from laser.compaction.rolling import Rolling
from laser.compaction.snapcompact.archive import (
    SNAPCOMPACT,
    Archive,
    SnapState,
    cells_of,
    pages_of,
    read_archive,
)
from laser.compaction.snapcompact.drawing import FrameCache, check_pillow
from laser.compaction.snapcompact.frames import Frame, Shape, frame_budget, lay_out, payload_of, shape_for
from laser.compaction.snapcompact.stretches import Stretch, stretches_of
from laser.compaction.snapcompact.worded import WordedWork, as_text
from laser.compaction.strategy import CompactionWork
from laser.compaction.summarizing import paragraph
from laser.compaction.text import neutral
from laser.compaction.view import CompactionView
from laser.errors import CompactionError, InvalidError
from laser.limits import MAX_FRAMES
from laser.memory.redaction import redact

__all__ = ["Snapcompact"]

_FIRST_CAPTION: Final = 96


class _Seen(msgspec.Struct, frozen=True):
    """A session laid out. covered: by the place of a row, whether a page or another strategy's fold stands for it."""

    archive: Archive
    covered: bytearray
    prior: Prior
    folds: list[PreparedInput]
    shape: Shape
    frames: list[Frame]


class Snapcompact:
    """Shows instructions, what other strategies stored, pictures of everything older, and the newest part as it is.

    No model is asked: the words of what leaves the tail are kept on the log, without recognised secrets, and drawn for
    each request in the shape that suits its provider. Pictures that are full stay the same when more is archived. Over
    the budget, those between the first and the newest are left out, and the first one says how much that is; the tools
    ``transcript_grep`` and ``transcript_read`` reach all of it.

    For a model that reads no images (``images=False``) it does what ``rolling`` does, with a summarizer; the archive
    stays for a later model. A model of which nothing is known is taken to read images. Drawing needs Pillow (extra
    ``snapcompact``); without it, ``ConfigError`` says so.

    Args:
        trigger_percent, tail_percent, window: see ``CompactionLimits``.
        archive_percent: of the window, 1 to 98: what the pictures may cost. With the tail it is below the trigger.
        max_frames: in the place of what the provider is known to take, 1 to ``MAX_FRAMES``.

    Raises:
        InvalidError: a value out of its range.
    """

    name = SNAPCOMPACT

    def __init__(
        self,
        *,
        trigger_percent: int = 90,
        tail_percent: int = 10,
        archive_percent: int = 20,
        max_frames: int | None = None,
        window: int | None = None,
    ) -> None:
        self.limits = CompactionLimits(trigger_percent, tail_percent, window)
        if type(archive_percent) is not int or not 1 <= archive_percent < trigger_percent - tail_percent:
            raise InvalidError(
                f"archive_percent: {archive_percent!r:.40} is not a whole number from 1 that is with tail_percent "
                f"{tail_percent} below trigger_percent {trigger_percent}",
                argument="archive_percent",
            )
        if max_frames is not None and (type(max_frames) is not int or not 1 <= max_frames <= MAX_FRAMES):
            raise InvalidError(
                f"max_frames: {max_frames!r:.40} is not a whole number from 1 to {MAX_FRAMES}", argument="max_frames"
            )
        self.archive_percent = archive_percent
        self.max_frames = max_frames
        self._rolling = Rolling(trigger_percent=trigger_percent, tail_percent=tail_percent, window=window)
        self._cache = FrameCache()

    def summarizes(self, request: Request) -> bool:
        """Whether it needs a summarizer for such a request: only where the model reads no images."""
        return request.images is False

    async def project(self, view: CompactionView) -> tuple[list[PreparedInput], int]:
        """See ``CompactionStrategy.project``.

        Raises:
            ConfigError: there are pictures to draw, and Pillow is not installed.
        """
        if self.summarizes(view.request):
            return await self._rolling.project(as_text(self._rolling, view))
        seen = self._see(view)
        pictures = [await self._picture(frame, seen.shape) for frame in seen.frames]
        return self._assemble(view, seen, pictures)

    async def compact(self, view: CompactionView, work: CompactionWork, *, force: bool) -> bool:
        """See ``CompactionStrategy.compact``. Nothing is summarised unless the model reads no images.

        Raises:
            ConfigError: Pillow is not installed; nothing was changed.
        """
        if self.summarizes(view.request):
            text_work = WordedWork(self._rolling, work)
            return await self._rolling.compact(as_text(self._rolling, view), text_work, force=force)
        seen = self._see(view)
        before = self._tokens(view)
        room = self._room(view, seen)
        tail_tokens = self._tail_tokens(view, room)
        if force:
            tail_tokens = min(tail_tokens, before * self.limits.tail_percent // 100)
        history = view.history
        in_folds = {history.place(seq) for fold in seen.prior.folds for seq in fold.seqs}
        folded = {
            number
            for number, unit in enumerate(history.units)
            if in_folds and not in_folds.isdisjoint(range(unit.start, unit.stop))
        }
        plan = plan_eviction(history, seen.covered, tail_tokens, folded, view.request.keep_last)
        stubs = plan_stubs(plan.tail, seen.archive.stubs, room, view.estimator)
        if not plan.evicted and stubs == seen.archive.stubs:
            return False
        if plan.evicted and view.trigger is not None and view.fixed_tokens >= view.trigger and not force:
            raise CompactionError(
                f"what cannot be made smaller takes {view.fixed_tokens} tokens, and the request is compacted from "
                f"{view.trigger} on: shorten the instructions or the context, or reserve less",
                tokens=before,
                window=view.window,
            )
        check_pillow()
        states = await self._pages(view, work, stretches_of(view, plan.evicted, seen.covered))
        if stubs != seen.archive.stubs:
            states.append(_encode(SnapState(stubs=stubs)))
        after_view = view
        for raw in states:
            after_view = after_view.with_state(raw)
        after = self._tokens(after_view)
        if after >= before:
            raise CompactionError(
                f"with more of it as pictures the request would have {after} tokens, it has {before}: nothing was "
                "changed",
                tokens=before,
                window=view.window,
            )
        saved = False
        for number, raw in enumerate(states, 1):
            last = number == len(states)
            if await work.save(raw, before=before if last else 0, after=after if last else 0) is None:
                return saved
            saved = True
        return saved

    # ------------------------------------------------------------------------------------------------ looking

    def _see(self, view: CompactionView) -> _Seen:
        history = view.history
        archive = read_archive(view.own, view, history.floor, view.memo)
        covered = bytearray(len(history.rows))
        for page in archive.pages:
            for first, last in page.spans:
                start, stop = history.place(first), history.place(last + 1)
                covered[start:stop] = b"\1" * (stop - start)
        for place, row in enumerate(history.rows):
            if covered[place] and row.pinned:
                covered[place] = 0
        found = Prior((), ())
        if view.has_prior:
            rows = history.rows
            found = view.prior([row for place, row in enumerate(rows) if not covered[place] and not row.pinned])
            for fold in found.folds:
                for seq in fold.seqs:
                    covered[history.place(seq)] = 1
        room = self._archive_tokens(view)
        shape = shape_for(view.request.provider, room)
        budget = frame_budget(view.request.provider, room, self.max_frames, shape.tokens)
        frames = lay_out(cells_of(archive, view.memo), shape, budget)
        folds = [said(fold.text, "fold") for fold in found.folds]
        return _Seen(archive, covered, found, folds, shape, frames)

    def _assemble(
        self, view: CompactionView, seen: _Seen, pictures: Sequence[PreparedInput]
    ) -> tuple[list[PreparedInput], int]:
        # The folds come first: what is left out for the budget is then among the pictures only.
        first = [*seen.folds, *pictures]
        return assemble(view, seen.covered, {0: first} if first else {}, frozenset(seen.archive.stubs))

    def _tokens(self, view: CompactionView) -> int:
        """What the request would cost, without drawing."""
        seen = self._see(view)
        blank = [PreparedInput(b"", frame.tokens, "frame") for frame in seen.frames]
        inputs, _ = self._assemble(view, seen, blank)
        return view.request.reserved + sum(one.tokens for one in (*view.request.context, *inputs))

    def _archive_tokens(self, view: CompactionView) -> int | None:
        return None if view.window is None else view.window * self.archive_percent // 100

    def _room(self, view: CompactionView, seen: _Seen) -> int:
        """Tokens that the rows that stay may cost."""
        archive = self._archive_tokens(view)
        if view.trigger is None or archive is None:
            return 1 << 62
        # The first caption is longer than those that the budget counts with.
        pictures = max(archive, seen.shape.tokens) + _FIRST_CAPTION
        folds = sum(one.tokens for one in seen.folds)
        return max(0, view.trigger - 1 - view.fixed_tokens - pictures - folds)

    def _tail_tokens(self, view: CompactionView, room: int) -> int:
        if view.window is None:
            return view.full_tokens * self.limits.tail_percent // 100
        return min(view.window * self.limits.tail_percent // 100, room)

    # ------------------------------------------------------------------------------------------------ making

    async def _pages(
        self, view: CompactionView, work: CompactionWork, stretches: Sequence[Stretch]
    ) -> list[msgspec.Raw]:
        total = sum(row.tokens for _, rows in stretches for row in rows)
        done = 0
        states: list[msgspec.Raw] = []
        for spans, rows in stretches:
            work.report(done, total)
            words: list[str] = []
            for row in rows:
                # Taking secrets out of a row costs about as much as all else together.
                await anyio.lowlevel.checkpoint()
                words.append(neutral(redact(paragraph(row))))
                done += row.tokens
            states += (_encode(SnapState(page)) for page in pages_of(rows, spans, "\n".join(words)))
        work.report(done, total)
        return states

    async def _picture(self, frame: Frame, shape: Shape) -> PreparedInput:
        picture = self._cache.find(frame.cells, shape.columns)
        if picture is None:
            picture = await anyio.to_thread.run_sync(self._cache.draw, frame.cells, shape.columns)
        return PreparedInput(payload_of(frame.caption, picture, shape), frame.tokens, "frame")

    def __repr__(self) -> str:
        return f"Snapcompact({self.limits}, archive_percent={self.archive_percent}, max_frames={self.max_frames})"


def _encode(state: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(state))
