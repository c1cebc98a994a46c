"""Keyword search in memory's read view: BM25 with counts of the asked items only.

FTS5 keeps which items have which words, and stems them. Its own ranking looks at every item that has any of the words,
and counts the items of all owners: too slow with common words, and an owner's scores would move with what others
remember. So the scores are made here: items with the rarer words of the question are candidates, and the common ones
are asked of these only.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from laser.engines._words import label_words, question_words
from laser.engines.sqlite.views.memory_tokens import index_token

__all__ = ["Scope", "keyword_scores", "labelled", "named_labels"]

# BM25's constants as Lucene-based evaluations use them for short texts.
_K1: Final = 0.9
_B: Final = 0.4
# An item counts twice where the question names who says it.
_NAMED: Final = 2.0
_ONLY_NAMED: Final = 0.01
# What an item gives of its score to the next and the previous one of its conversation: answers follow questions.
_AFTER: Final = 0.4
_BEFORE: Final = 0.2
# Items with the rarer words that are looked at closely, and those whose neighbours are.
_CANDIDATES: Final = 2_500
_CLOSE: Final = 250

_COUNT: Final = "SELECT count(*) FROM memory_words WHERE memory_words MATCH ?"
_ROWS: Final = "SELECT rowid FROM memory_words WHERE memory_words MATCH ?"
_SIZES: Final = "SELECT row, size FROM memory_items WHERE row IN (SELECT value FROM json_each(?))"
# {0} is what the scope asks of a neighbour: what others remember in a conversation must not come between.
_NEIGHBOURS: Final = """
SELECT i.row,
    (SELECT n.row FROM memory_items n WHERE n.ns = i.ns AND n.conv = i.conv AND n.state >= 2 AND {0}
        AND (n.at, n.part, n.off) > (i.at, i.part, i.off) ORDER BY n.at, n.part, n.off LIMIT 1),
    (SELECT n.row FROM memory_items n WHERE n.ns = i.ns AND n.conv = i.conv AND n.state >= 2 AND {0}
        AND (n.at, n.part, n.off) < (i.at, i.part, i.off) ORDER BY n.at DESC, n.part DESC, n.off DESC LIMIT 1)
FROM memory_items i WHERE i.row IN (SELECT value FROM json_each(?))
"""


class Scope:
    """The items that an owner sees, as a condition of the index and as one of the table.

    Args:
        columns: of ``memory_items`` with their values, the namespace's first.
    """

    def __init__(self, columns: Mapping[str, int]) -> None:
        names = [f'":{number}"' for number in columns.values()]
        # Across conversations each item counts once.
        self.within_one = "conv" in columns
        if not self.within_one:
            names.append('":first"')
        self.match = " AND ".join(names)
        conditions = ["state >= 2" if self.within_one else "state = 3", *(f"{column} = ?" for column in columns)]
        self._conditions = conditions
        self.where = " AND ".join(conditions)
        self.values = list(columns.values())

    def of(self, table: str) -> str:
        """The condition on a table of another name."""
        return " AND ".join(f"{table}.{condition}" for condition in self._conditions)

    def having(self, *conditions: str) -> str:
        """A question to the index: items of the scope that meet conditions."""
        return " AND ".join([self.match, *conditions])


def keyword_scores(connection: sqlite3.Connection, scope: Scope, query: str, depth: int) -> list[tuple[int, float]]:
    """Rows with their scores, best first, newer before older where they are equal.

    Args:
        depth: how many are wanted at least, where there are so many.
    """
    words = question_words(query)
    counts = {word: _count(connection, scope, word) for word in words}
    present = sorted((word for word in words if counts[word]), key=lambda word: counts[word])
    named = named_labels(connection, scope, query)
    if not present and not named:
        return []
    total = _scalar(connection, _COUNT, scope.match)
    weights = {word: math.log(1 + (total - counts[word] + 0.5) / (counts[word] + 0.5)) for word in present}
    own = _own_scores(connection, scope, present, counts, weights)
    if len(own) < depth:
        # Better than nothing: what those say whom the question names, the newest first.
        for word in sorted(named):
            newest = sorted(labelled(connection, scope, word), reverse=True)[: depth - len(own)]
            own.update({row: _ONLY_NAMED for row in newest if row not in own})
    close = _closest(connection, scope, own, named, max(_CLOSE, depth))
    return sorted(_with_neighbours(connection, scope, close).items(), key=lambda entry: (-entry[1], -entry[0]))


def named_labels(connection: sqlite3.Connection, scope: Scope, query: str) -> frozenset[str]:
    """Words of a question that are in labels of the scope's items."""
    return frozenset(
        word
        for word in label_words(query)
        if connection.execute(f"{_ROWS} LIMIT 1", (scope.having(_term(f"@{word}")),)).fetchone() is not None
    )


def labelled(connection: sqlite3.Connection, scope: Scope, word: str) -> list[int]:
    """The scope's rows with a word in their label."""
    return [row for (row,) in connection.execute(_ROWS, (scope.having(_term(f"@{word}")),))]


def _own_scores(
    connection: sqlite3.Connection,
    scope: Scope,
    words: Sequence[str],
    counts: Mapping[str, int],
    weights: Mapping[str, float],
) -> dict[int, float]:
    """The sums of the words' weights in the candidates."""
    scores: dict[int, float] = {}
    rare: list[str] = []
    seen = 0
    for word in words:
        if rare and seen + counts[word] > _CANDIDATES:
            # The question for a common word goes to the candidates only.
            match = scope.having(_term(word), f"({' OR '.join(rare)})")
        else:
            rare.append(_term(word))
            seen += counts[word]
            match = scope.having(_term(word))
        for (row,) in connection.execute(_ROWS, (match,)):
            scores[row] = scores.get(row, 0.0) + weights[word]
    return scores


def _closest(
    connection: sqlite3.Connection, scope: Scope, own: Mapping[int, float], named: frozenset[str], count: int
) -> dict[int, float]:
    """The best candidates by BM25, doubled where the question names who says it."""
    doubled: set[int] = set()
    for word in named:
        doubled.update(row for row in labelled(connection, scope, word) if row in own)
    rough = {row: score * (_NAMED if row in doubled else 1.0) for row, score in own.items()}
    best = sorted(rough, key=lambda row: (-rough[row], -row))[: 2 * count]
    sizes = dict(connection.execute(_SIZES, (orjson.dumps(best).decode(),)).fetchall())
    mean = max(1.0, sum(sizes.values()) / max(1, len(sizes)))
    exact = {row: rough[row] * (_K1 + 1) / (1 + _K1 * (1 - _B + _B * size / mean)) for row, size in sizes.items()}
    kept = sorted(exact, key=lambda row: (-exact[row], -row))[:count]
    return {row: exact[row] for row in kept}


def _with_neighbours(connection: sqlite3.Connection, scope: Scope, own: Mapping[int, float]) -> dict[int, float]:
    scores = dict(own)
    rows = orjson.dumps(list(own)).decode()
    values = (*scope.values, *scope.values, rows)
    for row, after, before in connection.execute(_NEIGHBOURS.format(scope.of("n")), values).fetchall():
        for neighbour, share in ((after, _AFTER), (before, _BEFORE)):
            if neighbour is not None:
                scores[neighbour] = scores.get(neighbour, 0.0) + share * own[row]
    return scores


def _count(connection: sqlite3.Connection, scope: Scope, word: str) -> int:
    return _scalar(connection, _COUNT, scope.having(_term(word)))


def _scalar(connection: sqlite3.Connection, statement: str, *values: Any) -> int:
    found: int = connection.execute(statement, values).fetchone()[0]
    return found


def _term(word: str) -> str:
    quoted = '"' + index_token(word).replace('"', '""') + '"'
    # One character of an unspaced script is looked for at the beginning of pairs.
    return f"{quoted} *" if len(word) == 1 and not word.isascii() else quoted
