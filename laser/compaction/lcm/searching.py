"""Literal search through the rows of a session, upper and lower case alike."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from laser.compaction.rows import Row

__all__ = ["TextIndex", "excerpt"]

_PAGE_ROWS: Final = 2_048
_EXCERPT: Final = 160


class TextIndex:
    """The words of a session's rows, folded to one case, in pages. It grows at its end; not for two threads at once."""

    def __init__(self) -> None:
        self._pages: list[tuple[str, list[int]]] = []
        self._first: int | None = None
        self._count = 0

    def find(self, rows: Sequence[Row], text: str, start: int, stop: int) -> Iterator[int]:
        """Places of rows that hold a text, ascending, within ``[start, stop)``. Reads rows that are new first."""
        self._follow(rows)
        wanted = text.casefold()
        for number in range(start // _PAGE_ROWS, len(self._pages)):
            words, begins = self._pages[number]
            base = number * _PAGE_ROWS
            if base >= stop:
                return
            at = begins[start - base] if start > base else 0
            while (at := words.find(wanted, at)) >= 0:
                place = bisect_right(begins, at) - 1
                if base + place >= stop:
                    return
                end = begins[place + 1] - 1 if place + 1 < len(begins) else len(words)
                if at + len(wanted) <= end:
                    yield base + place
                    at = end
                at += 1

    def _follow(self, rows: Sequence[Row]) -> None:
        first = rows[0].seq if rows else None
        if first != self._first or len(rows) < self._count:
            self._pages.clear()
            self._first, self._count = first, 0
        # A page that is not full is made again.
        full = self._count // _PAGE_ROWS
        if self._count < len(rows):
            del self._pages[full:]
        for base in range(full * _PAGE_ROWS, len(rows), _PAGE_ROWS) if self._count < len(rows) else ():
            words: list[str] = []
            begins: list[int] = []
            at = 0
            for row in rows[base : base + _PAGE_ROWS]:
                # A mark that is in no text parts the rows, so that nothing is found across two of them.
                folded = row.text.casefold().replace("\0", " ")
                begins.append(at)
                words.append(folded)
                at += len(folded) + 1
            self._pages.append(("\0".join(words), begins))
        self._count = len(rows)


def excerpt(text: str, wanted: str) -> str:
    """The words around the first place of a text; its beginning where casing hides the place."""
    at = text.casefold().find(wanted.casefold())
    at = max(0, min(at, len(text)))
    begin = max(0, at - _EXCERPT // 2)
    end = min(len(text), at + len(wanted) + _EXCERPT // 2)
    return f"{'…' if begin else ''}{text[begin:end]}{'…' if end < len(text) else ''}"
