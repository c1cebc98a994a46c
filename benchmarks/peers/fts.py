"""Plain full-text search, as one would write it first: SQLite's FTS5 with its own ranking."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from typing import Final

__all__ = ["PlainFts"]

_WORD: Final = re.compile(r"\w+")


class PlainFts:
    """Texts in an FTS5 table with the Porter stemmer; any word of a question matches, BM25 ranks."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._connection = sqlite3.connect(":memory:")
        self._connection.execute("CREATE VIRTUAL TABLE texts USING fts5 (text, tokenize = 'porter unicode61')")
        self._connection.executemany("INSERT INTO texts VALUES (?)", ((text,) for text in texts))

    def search(self, question: str, limit: int) -> list[int]:
        """The numbers of the best texts, from 0, best first."""
        match = " OR ".join(f'"{word}"' for word in _WORD.findall(question))
        rows = self._connection.execute(
            "SELECT rowid - 1 FROM texts WHERE texts MATCH ? ORDER BY bm25(texts) LIMIT ?", (match, limit)
        )
        return [row for (row,) in rows]

    def close(self) -> None:
        """Lets go of the texts."""
        self._connection.close()
