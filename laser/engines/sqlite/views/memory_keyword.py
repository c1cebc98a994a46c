"""Keyword search in memory's read view: BM25 with counts of the asked items only.

FTS5 keeps which items have which words, and stems them. Its own ranking looks at every item that has any of the words,
and counts the items of all owners: too slow with common words, and an owner's scores would move with what others
remember. So the scores are made here: items with the rarer words of the question are candidates, and the common ones
are asked of these only.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import orjson

from laser.engines._words import is_unspaced, label_words, question_words
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
# Items with the rarer words whose words are counted, those that are looked at closely, and those whose neighbours are.
_CANDIDATES: Final = 2_000
_CLOSE: Final = 250
_NEAR: Final = 100
# Of a question that is a whole text, the rarest words say what it is about.
_MAX_WORDS: Final = 64

_COUNT: Final = "SELECT count(*) FROM memory_words WHERE memory_words MATCH ?"
_ROWS_SINCE: Final = "SELECT rowid FROM memory_words WHERE memory_words MATCH ? AND rowid >= ?"
_NEWEST_ROWS: Final = """
SELECT rowid FROM memory_words WHERE memory_words MATCH ? ORDER BY rowid DESC LIMIT ? OFFSET ?
"""
_ALL_ROWS: Final = "SELECT json_group_array(rowid) FROM memory_words WHERE memory_words MATCH ?"
_SIZES: Final = "SELECT row, size FROM memory_items WHERE row IN (SELECT value FROM json_each(?))"
# {0} is what the scope asks of a neighbour: what others remember in a conversation must not come between. That an item
# comes after another is told by hand: a comparison of rows would use only the time in the index, and all records of a
# batch have the same.
_ONE: Final = "SELECT n.row FROM memory_items n INDEXED BY memory_items_conv WHERE n.ns = i.ns AND n.conv = i.conv"
_NEIGHBOURS: Final = f"""
SELECT i.row, coalesce(
    ({_ONE} AND n.state >= 2 AND {{0}} AND n.at = i.at AND n.part = i.part AND n.off > i.off ORDER BY n.off LIMIT 1),
    ({_ONE} AND n.state >= 2 AND {{0}} AND n.at = i.at AND n.part > i.part ORDER BY n.part, n.off LIMIT 1),
    ({_ONE} AND n.state >= 2 AND {{0}} AND n.at > i.at ORDER BY n.at, n.part, n.off LIMIT 1)
), coalesce(
    ({_ONE} AND n.state >= 2 AND {{0}} AND n.at = i.at AND n.part = i.part AND n.off < i.off
        ORDER BY n.off DESC LIMIT 1),
    ({_ONE} AND n.state >= 2 AND {{0}} AND n.at = i.at AND n.part < i.part ORDER BY n.part DESC, n.off DESC LIMIT 1),
    ({_ONE} AND n.state >= 2 AND {{0}} AND n.at < i.at ORDER BY n.at DESC, n.part DESC, n.off DESC LIMIT 1)
)
FROM memory_items i WHERE i.row IN (SELECT value FROM json_each(?))
"""  # noqa: S608 - columns of our own
_SUBQUERIES: Final = 6


class Scope:
    """The items that an owner sees, as a condition of the index and as one of the table.

    Args:
        columns: of ``memory_items`` with their values, the namespace's first.
    """

    def __init__(self, columns: Mapping[str, int]) -> None:
        self._ns, *others = columns.values()
        self._names = [f'":{number}"' for number in others]
        self.within_one = "conv" in columns
        conditions = ["state >= 2" if self.within_one else "state = 3", *(f"{column} = ?" for column in columns)]
        self._conditions = conditions
        self.where = " AND ".join(conditions)
        self.values = list(columns.values())

    def of(self, table: str) -> str:
        """The condition on a table of another name."""
        return " AND ".join(f"{table}.{condition}" for condition in self._conditions)

    def having(self, *conditions: str) -> str:
        """A question to the index: items of the scope that meet conditions, of which one at least is of its own."""
        match = " AND ".join([*self._names, *conditions])
        # Across conversations each item counts once. Hardly any is in several, so little is looked through.
        return match if self.within_one else f'({match}) NOT ":copy{self._ns}"'

    def word(self, word: str) -> str:
        """The condition that an item of the namespace has a word."""
        quoted = _quoted(f"{self._ns}:{index_token(word)}")
        # One character of an unspaced script is looked for at the beginning of pairs.
        return f"{quoted} *" if len(word) == 1 and is_unspaced(word) else quoted

    def label(self, word: str) -> str:
        """The condition that an item of the namespace has a word in its label."""
        return _quoted(f"{self._ns}@{index_token(word)}")


def keyword_scores(
    connection: sqlite3.Connection, scope: Scope, query: str, depth: int, total: int
) -> list[tuple[int, float]]:
    """Rows with their scores, best first, newer before older where they are equal.

    Args:
        depth: how many are wanted at least, where there are so many. total: items of the scope.
    """
    words = question_words(query)
    counts = {word: _scalar(connection, _COUNT, scope.having(scope.word(word))) for word in words}
    present = sorted((word for word in words if counts[word]), key=lambda word: counts[word])[:_MAX_WORDS]
    named = named_labels(connection, scope, query)
    own: dict[int, float] = {}
    doubled: set[int] = set()
    if present:
        weights = {word: math.log(1 + (total - counts[word] + 0.5) / (counts[word] + 0.5)) for word in present}
        candidates = _Candidates(connection, scope, present, counts)
        own = candidates.scores(weights)
        for word in named:
            doubled.update(candidates.having(scope.label(word)))
    if len(own) < depth:
        # Better than nothing: what those say whom the question names, the newest first.
        for word in sorted(named):
            rows = _newest(connection, scope.having(scope.label(word)), depth)
            for row in [row for row in rows if row not in own][: depth - len(own)]:
                own[row] = _ONLY_NAMED
                doubled.add(row)
    close = _closest(connection, own, doubled, max(_CLOSE, depth))
    return sorted(_with_neighbours(connection, scope, close).items(), key=lambda entry: (-entry[1], -entry[0]))


def named_labels(connection: sqlite3.Connection, scope: Scope, query: str) -> frozenset[str]:
    """Words of a question that are in labels of the scope's items."""
    return frozenset(word for word in label_words(query) if _newest(connection, scope.having(scope.label(word)), 1))


def labelled(connection: sqlite3.Connection, scope: Scope, word: str) -> list[int]:
    """The scope's rows with a word in their label."""
    # As one value: many rows cost more to hand over than to find.
    rows: list[int] = orjson.loads(_scalar(connection, _ALL_ROWS, scope.having(scope.label(word))))
    return rows


class _Candidates:
    """The items that are looked at: those with the rarer words, and where even these are common, the newest.

    Args:
        words: of the question, the rarest first. counts: in how many items of the scope each is.
    """

    def __init__(
        self, connection: sqlite3.Connection, scope: Scope, words: Sequence[str], counts: Mapping[str, int]
    ) -> None:
        self._connection = connection
        self._scope = scope
        self._words = words
        self._rare = [words[0]]
        self._oldest = 0
        seen = counts[words[0]]
        if seen > _CANDIDATES:
            self._oldest = _newest(connection, scope.having(scope.word(words[0])), 1, _CANDIDATES - 1)[0]
        for word in words[1:]:
            seen += counts[word]
            if seen > _CANDIDATES:
                break
            self._rare.append(word)

    def scores(self, weights: Mapping[str, float]) -> dict[int, float]:
        """For each candidate, the sum of the weights of its words."""
        scores: dict[int, float] = {}
        if self._oldest and len(self._words) > 1:
            # Older ones that have every word.
            every = sum(weights.values())
            match = self._scope.having(*map(self._scope.word, self._words))
            scores = {row: every for row in _newest(self._connection, match, _CANDIDATES) if row < self._oldest}
        for word in self._words:
            weight = weights[word]
            term = self._scope.word(word)
            # The question for a common word goes to the candidates only.
            for row in self._rows(term) if word in self._rare else self.having(term):
                scores[row] = scores.get(row, 0.0) + weight
        return scores

    def having(self, condition: str) -> list[int]:
        """Candidates that meet a condition."""
        return self._rows(condition, f"({' OR '.join(map(self._scope.word, self._rare))})")

    def _rows(self, *conditions: str) -> list[int]:
        rows = self._connection.execute(_ROWS_SINCE, (self._scope.having(*conditions), self._oldest))
        return [row for (row,) in rows]


def _newest(connection: sqlite3.Connection, match: str, count: int, skip: int = 0) -> list[int]:
    return [row for (row,) in connection.execute(_NEWEST_ROWS, (match, count, skip))]


def _closest(
    connection: sqlite3.Connection, own: Mapping[int, float], doubled: Collection[int], count: int
) -> dict[int, float]:
    """The best candidates by BM25, best first, doubled where the question names who says it."""
    # Negative, so that the smallest are the best, and the newer of equal ones.
    rough = [(-score * (_NAMED if row in doubled else 1.0), -row) for row, score in own.items()]
    best = sorted(rough)[: 2 * count]
    sizes = dict(connection.execute(_SIZES, (orjson.dumps([-row for _, row in best]).decode(),)).fetchall())
    mean = max(1.0, sum(sizes.values()) / max(1, len(sizes)))
    exact = [
        (score * (_K1 + 1) / (1 + _K1 * (1 - _B + _B * sizes[-row] / mean)), row)
        for score, row in best
        if -row in sizes
    ]
    return {-row: -score for score, row in sorted(exact)[:count]}


def _with_neighbours(connection: sqlite3.Connection, scope: Scope, own: Mapping[int, float]) -> dict[int, float]:
    parts = {row: [score] for row, score in own.items()}
    near = list(own)[:_NEAR]
    values = (*scope.values * _SUBQUERIES, orjson.dumps(near).decode())
    statement = _NEIGHBOURS.format(scope.of("n"))
    for row, after, before in connection.execute(statement, values).fetchall():
        for neighbour, share in ((after, _AFTER), (before, _BEFORE)):
            if neighbour is not None:
                parts.setdefault(neighbour, []).append(share * own[row])
    # The exact sum: rows come in another order in a view that was folded anew.
    return {row: math.fsum(shares) for row, shares in parts.items()}


def _scalar(connection: sqlite3.Connection, statement: str, *values: Any) -> Any:
    return connection.execute(statement, values).fetchone()[0]


def _quoted(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'
