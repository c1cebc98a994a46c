"""What ``rolling`` keeps: a summary and its cut, laid over the transcript."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from laser.compaction.rows import Row, rows_digest
from laser.compaction.text import clip, neutral, user_text
from laser.compaction.view import CompactionView

__all__ = ["RollingCut", "RollingState", "next_state", "read_cut"]

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


class RollingCut(msgspec.Struct, frozen=True):
    """A state laid over a transcript. covered: by the place of a row, whether the summary stands for it."""

    state: RollingState | None
    boundary: int
    covered: bytes | bytearray


def read_cut(view: CompactionView) -> RollingCut:
    """The newest state laid over the transcript; none where it does not fit."""
    rows = view.history.rows
    nothing = RollingCut(None, 0, bytes(len(rows)))
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
    return RollingCut(state, boundary, covered)


def next_state(
    view: CompactionView, evicted: Sequence[int], boundary: int, cut: RollingCut, summary: str, stubs: tuple[int, ...]
) -> RollingState:
    """What is to be kept when more was summarised.

    Args:
        evicted: numbers of the units that the summary stands for from here on. boundary: the place of the new cut.
        cut: the one before. summary: the new one.
    """
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
        fingerprint=rows_digest(users),
        ending=rows_digest(ending),
        rows=gone + sum(_plain(rows, folded)) if summary else 0,
        summary=summary,
        recap=_recap([row for place, row in enumerate(rows[:boundary]) if row.user and folded[place]]),
        held=tuple(held),
        stubs=stubs,
    )


def _boundary(view: CompactionView, state: RollingState) -> int | None:
    """The place of the cut: before the user's message after those that were counted; ``None`` when it is another
    transcript."""
    history = view.history
    if state.first < history.floor:
        # Retention took what came first: the summary is all that is left of it.
        last = history.between(state.cursor, state.cursor)
        if last and rows_digest(last) != state.ending:
            return None
        return history.place(state.cursor + 1)
    key = "rolling", view.ids(view.strategy)[-1]
    if key not in view.memo:
        rows = history.rows
        users = [place for place, row in enumerate(rows) if row.user]
        fits = (
            rows[0].seq == state.first
            and len(users) > state.users
            and rows_digest([rows[place] for place in users[: state.users]]) == state.fingerprint
        )
        view.memo[key] = (users[state.users] if state.users else 0) if fits else None
    boundary: int | None = view.memo[key]
    return boundary


def _plain(rows: Sequence[Row], folded: Sequence[int]) -> list[bool]:
    return [bool(fold) and not row.pinned for row, fold in zip(rows, folded, strict=True)]


def _decode(raw: msgspec.Raw) -> RollingState | None:
    try:
        return msgspec.json.decode(raw, type=RollingState)
    except msgspec.MsgspecError:
        return None


def _recap(users: Sequence[Row]) -> str:
    """The newest messages of the user among those that are folded, quoted line by line."""
    quotes: list[str] = []
    for row in [row for row in users if row.speaker is None][-_RECAP_MESSAGES:]:
        text = clip(neutral(user_text(row.payload)).strip(), _RECAP_CHARACTERS)
        if text:
            quotes.append("\n".join(f"> {line}" for line in text.splitlines()))
    if not quotes:
        return ""
    body = "\n\n".join(quotes)
    return f"[laser: earlier words of the user, answered already]\n{body}\n[laser: end of the quotes]"
