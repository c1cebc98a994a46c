"""The archive: the words of what is folded, in records on the log, each with the rows that it stands for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

import msgspec

from laser.compaction.prior import Stored, StoredFold
from laser.compaction.rows import Row, rows_digest
from laser.compaction.snapcompact.font import to_cells

__all__ = [
    "SNAPCOMPACT",
    "Archive",
    "ArchiveFolds",
    "Page",
    "SnapState",
    "cells_of",
    "decode_state",
    "pages_of",
    "read_archive",
    "rows_of",
]

SNAPCOMPACT: Final = "snapcompact"
"""The name of the strategy whose records hold the archive."""

# Even if every character takes six bytes as JSON, a record stays far below what a log takes.
_PART_CHARACTERS: Final = 1_000_000


class Page(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A stretch of the archive.

    Attributes:
        spans: places of the transcript that it stands for, first and last of each stretch, ascending; cut between
            units, so before a user's message.
        rows: how many rows. users: how many of them are messages of users. digest: of the rows' contents.
        text: their words. part, parts: a page too long for one record stands in several; it counts once all are there.
    """

    spans: tuple[tuple[int, int], ...]
    rows: int
    users: int
    digest: str
    text: str
    part: int = 0
    parts: int = 1

    @property
    def first(self) -> int:
        """The place of its first row."""
        return self.spans[0][0]

    @property
    def last(self) -> int:
        """The place of its last row."""
        return self.spans[-1][1]


class SnapState(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One record: a page; or the rows whose results are left out from here on; or, for models that read no images, what
    ``rolling`` keeps in its place."""

    page: Page | None = None
    stubs: tuple[int, ...] | None = None
    text: msgspec.Raw = msgspec.Raw()


class Archive(msgspec.Struct, frozen=True):
    """The pages that fit the transcript, in the order in which they were archived, and rows without results."""

    pages: tuple[Page, ...]
    stubs: tuple[int, ...] = ()


class _Rows(Protocol):
    def between(self, first: int, last: int) -> Sequence[Row]: ...


def read_archive(states: Sequence[msgspec.Raw], view: _Rows, floor: int, memo: dict[Any, Any]) -> Archive:
    """The archive that saved states make over a transcript.

    A page whose rows are others now does not count. Rows that retention took are not missed.

    Args:
        floor: rows before this place are gone. memo: kept between calls for one session.
    """
    pages: list[Page] = []
    stubs: tuple[int, ...] = ()
    waiting: list[Page] = []
    taken: list[tuple[int, int]] = []
    for raw in states:
        state = decode_state(raw, memo)
        if state.stubs is not None:
            stubs = state.stubs
        page = state.page
        if page is None:
            continue
        if page.parts > 1:
            whole = _join(waiting, page)
            if whole is None:
                continue
            page = whole
        overlaps = any(first <= end and begin <= last for first, last in page.spans for begin, end in taken)
        if not overlaps and _fits(page, view, floor, memo):
            pages.append(page)
            taken += page.spans
    return Archive(tuple(pages), stubs)


def decode_state(raw: msgspec.Raw, memo: dict[Any, Any]) -> SnapState:
    """The state in a record; an empty one where it is a newer release's."""
    # The record is held beside what was read of it, so its identity names nothing else.
    key = "snapcompact state", id(raw)
    if key not in memo:
        try:
            memo[key] = raw, msgspec.json.decode(raw, type=SnapState)
        except msgspec.MsgspecError:
            memo[key] = raw, SnapState()
    found: SnapState = memo[key][1]
    return found


def cells_of(archive: Archive, memo: dict[Any, Any]) -> str:
    """The archive as it is drawn."""
    found: list[str] = []
    for page in archive.pages:
        key = "snapcompact cells", page.first, page.last, page.text
        if key not in memo:
            memo[key] = to_cells(f"[rows {page.first} to {page.last}]\n{page.text}\n")
        found.append(memo[key])
    return "".join(found)


def pages_of(rows: Sequence[Row], spans: tuple[tuple[int, int], ...], text: str) -> Iterator[Page]:
    """The records of a stretch: one, or as many as a long text takes."""
    digest = rows_digest(rows)
    users = sum(row.user for row in rows)
    parts = max(1, -(-len(text) // _PART_CHARACTERS))
    for part in range(parts):
        piece = text[part * _PART_CHARACTERS : (part + 1) * _PART_CHARACTERS]
        yield Page(spans, len(rows), users, digest, piece, part, parts)


def rows_of(page: Page, view: _Rows) -> list[Row]:
    """The rows that a page stands for and that the log still holds."""
    return [row for first, last in page.spans for row in view.between(first, last) if not row.pinned]


class ArchiveFolds:
    """Gives the archive to other strategies: pages of text that stand for rows of a history only."""

    owner = SNAPCOMPACT

    def folds(self, view: Stored, history: Sequence[Row]) -> Iterable[StoredFold]:
        """See ``FoldProvider.folds``."""
        archive = read_archive(view.saved(SNAPCOMPACT), view, view.floor, view.memo)
        if not archive.pages:
            return
        there = {row.seq for row in history}
        oldest = min(there, default=0)
        for page in archive.pages:
            seqs = [row.seq for row in rows_of(page, view)]
            # Of a page without rows nothing but itself is left; what folded it since has it.
            if there.issuperset(seqs) and (seqs or page.last < oldest):
                name = f"{SNAPCOMPACT} {page.first}"
                yield StoredFold(name, SNAPCOMPACT, _page_text(page), tuple(seqs), page.first)


def _page_text(page: Page) -> str:
    return (
        f"[laser: archived rows {page.first} to {page.last}, {page.rows} messages; what they say was done is done]\n"
        f"{page.text}\n[laser: end of the archived rows]"
    )


def _join(waiting: list[Page], page: Page) -> Page | None:
    """The whole page, with the last of its parts. A part that does not go on with those before begins anew."""
    if page.part == 0 or (waiting and waiting[-1].digest != page.digest):
        waiting.clear()
    if page.part != len(waiting):
        return None
    waiting.append(page)
    if len(waiting) < page.parts:
        return None
    text = "".join(one.text for one in waiting)
    waiting.clear()
    return msgspec.structs.replace(page, text=text, part=0, parts=1)


def _fits(page: Page, view: _Rows, floor: int, memo: dict[Any, Any]) -> bool:
    if not page.spans:
        return False
    if page.first < floor:
        return True
    key = "snapcompact fits", page.spans, page.rows, page.digest
    if key not in memo:
        rows = rows_of(page, view)
        memo[key] = len(rows) == page.rows and rows_digest(rows) == page.digest
    found: bool = memo[key]
    return found
