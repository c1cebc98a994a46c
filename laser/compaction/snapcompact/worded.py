"""``rolling`` in the place of ``snapcompact``, for models that read no images."""

from __future__ import annotations

import msgspec

from laser.compaction.rolling import Rolling
from laser.compaction.snapcompact.archive import SNAPCOMPACT, SnapState, decode_state
from laser.compaction.strategy import CompactionWork
from laser.compaction.view import CompactionView
from laser.ports.summarizer import Summary, SummaryRequest

__all__ = ["WordedWork", "as_text"]


class WordedWork:
    """What ``rolling`` saves, as a record of this strategy."""

    def __init__(self, rolling: Rolling, work: CompactionWork) -> None:
        self._rolling = rolling
        self._work = work

    async def ask(self, request: SummaryRequest, *, redacted: bool = False) -> Summary:
        """See ``CompactionWork.ask``."""
        return await self._work.ask(request, redacted=redacted)

    async def save(self, state: object, *, before: int = 0, after: int = 0) -> CompactionView | None:
        """See ``CompactionWork.save``."""
        text = msgspec.Raw(msgspec.json.encode(state))
        view = await self._work.save(SnapState(text=text), before=before, after=after)
        return None if view is None else as_text(self._rolling, view)

    def report(self, done: int, total: int) -> None:
        """See ``CompactionWork.report``."""
        self._work.report(done, total)


def as_text(rolling: Rolling, view: CompactionView) -> CompactionView:
    """The session as ``rolling`` sees it in this one's place: with what it kept here, and the archive as pages."""
    states: list[tuple[str, msgspec.Raw]] = []
    for name, raw in zip(view.ids(SNAPCOMPACT), view.saved(SNAPCOMPACT), strict=True):
        text = decode_state(raw, view.memo).text
        if bytes(text):
            states.append((name, text))
    return view.lent_to(rolling, states)
