"""Keyword search in memory's read view: BM25 with counts of the asked items only, as on SQLite."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from laser.engines._words import label_words, question_words
from laser.engines.postgres.driver import Connection
from laser.engines.postgres.views.memory_words import label_hash, word_hash

__all__ = ["Scope", "keyword_scores", "named_labels"]

# See the SQLite engine's view, whose scores these are.
_K1: Final = 0.9
_B: Final = 0.4
_NAMED: Final = 2.0
_ONLY_NAMED: Final = 0.01
_AFTER: Final = 0.4
_BEFORE: Final = 0.2
_CANDIDATES: Final = 2_000
_CLOSE: Final = 250
_NEAR: Final = 100
_MAX_WORDS: Final = 64

_PLACE: Final = "(n.at, n.part, n.off) {0} (i.at, i.part, i.off)"


class Scope:
    """The items that an owner sees, as a condition of the table.

    Args:
        columns: of ``memory_items`` with their values, the namespace's first.
    """

    def __init__(self, columns: Mapping[str, int]) -> None:
        self.ns = columns["ns"]
        self.values = list(columns.values())
        # Across conversations each item counts once.
        first = "state >= 2" if "conv" in columns else "state = 3"
        self._conditions = [first, *(f"{column} = %s" for column in columns)]

    def of(self, table: str) -> str:
        """The condition on a table of a name."""
        return " AND ".join(f"{table}.{condition}" for condition in self._conditions)


def keyword_scores(connection: Connection, scope: Scope, query: str, depth: int) -> list[tuple[int, float]]:
    """Rows with their scores, best first, newer before older where they are equal."""
    words = {word: word_hash(scope.ns, word) for word in question_words(query)}
    counts = _counts(connection, scope, words.values())
    present = sorted((word for word in words if counts[words[word]]), key=lambda word: counts[words[word]])[:_MAX_WORDS]
    named = [label_hash(scope.ns, word) for word in sorted(named_labels(connection, scope, query))]
    found: list[tuple[int, float, int]] = []
    if present:
        total = _one(connection, f"SELECT count(*) FROM laser.memory_items i WHERE {scope.of('i')}", scope.values)  # noqa: S608
        numbers = [words[word] for word in present]
        found = _candidates(connection, scope, numbers, [counts[number] for number in numbers], total, named, depth)
    if len(found) < depth and named:
        # Better than nothing: what those say whom the question names, the newest first.
        known = [row for row, _, _ in found]
        rows = _rows(
            connection,
            f"SELECT i.row, i.size FROM laser.memory_items i WHERE i.words && %s::bigint[] AND {scope.of('i')} "  # noqa: S608
            "AND i.row <> ALL(%s::bigint[]) ORDER BY i.row DESC LIMIT %s",
            (named, *scope.values, known, depth - len(found)),
        )
        found += [(row, _ONLY_NAMED * _NAMED, size) for row, size in rows]
    close = _closest(found, max(_CLOSE, depth))
    scores = _with_neighbours(connection, scope, close)
    return sorted(scores.items(), key=lambda entry: (-entry[1], -entry[0]))


def named_labels(connection: Connection, scope: Scope, query: str) -> frozenset[str]:
    """Words of a question that are in labels of the scope's items."""
    words = {label_hash(scope.ns, word): word for word in label_words(query)}
    if not words:
        return frozenset()
    there = _rows(
        connection,
        "SELECT word FROM unnest(%s::bigint[]) AS word WHERE EXISTS (SELECT 1 FROM laser.memory_items i "  # noqa: S608
        f"WHERE i.words @> ARRAY[word] AND {scope.of('i')})",
        (list(words), *scope.values),
    )
    return frozenset(words[number] for (number,) in there)


def _counts(connection: Connection, scope: Scope, words: Iterable[int]) -> dict[int, int]:
    rows = _rows(
        connection,
        "SELECT word, (SELECT count(*) FROM laser.memory_items i "  # noqa: S608
        f"WHERE i.words @> ARRAY[word] AND {scope.of('i')}) FROM unnest(%s::bigint[]) AS word",
        (*scope.values, list(words)),
    )
    return dict(rows)


def _candidates(
    connection: Connection,
    scope: Scope,
    words: Sequence[int],
    counts: Sequence[int],
    total: int,
    named: Sequence[int],
    depth: int,
) -> list[tuple[int, float, int]]:
    """Row, score without the length, and length: of the best of those that have the rarer words.

    Args:
        words: the rarest first.
    """
    rare, seen = [words[0]], counts[0]
    for word, count in zip(words[1:], counts[1:], strict=True):
        seen += count
        if seen > _CANDIDATES:
            break
        rare.append(word)
    oldest = 0
    where = scope.of("i")
    if counts[0] > _CANDIDATES:
        oldest = _one(
            connection,
            f"SELECT i.row FROM laser.memory_items i WHERE i.words @> ARRAY[%s::bigint] AND {where} "  # noqa: S608
            "ORDER BY i.row DESC LIMIT 1 OFFSET %s",
            (words[0], *scope.values, _CANDIDATES - 1),
        )
    score = " + ".join("CASE WHEN i.words @> ARRAY[%s::bigint] THEN %s::float8 ELSE 0 END" for _ in words)
    weights = [math.log(1 + (total - count + 0.5) / (count + 0.5)) for count in counts]
    return _rows(
        connection,
        f"SELECT i.row, ({score}) * CASE WHEN i.words && %s::bigint[] THEN %s::float8 ELSE 1 END AS rough, i.size "  # noqa: S608
        f"FROM laser.memory_items i WHERE ((i.words && %s::bigint[] AND i.row >= %s) OR i.words @> %s::bigint[]) "
        f"AND {where} ORDER BY rough DESC, i.row DESC LIMIT %s",
        (
            *(value for pair in zip(words, weights, strict=True) for value in pair),
            list(named),
            _NAMED,
            rare,
            oldest,
            list(words),
            *scope.values,
            2 * max(_CLOSE, depth),
        ),
    )


def _closest(found: Sequence[tuple[int, float, int]], count: int) -> dict[int, float]:
    """The best by BM25, best first."""
    mean = max(1.0, sum(size for _, _, size in found) / max(1, len(found)))
    exact = [(-rough * (_K1 + 1) / (1 + _K1 * (1 - _B + _B * size / mean)), -row) for row, rough, size in found]
    return {-row: -score for score, row in sorted(exact)[:count]}


def _with_neighbours(connection: Connection, scope: Scope, own: Mapping[int, float]) -> dict[int, float]:
    """What an item gives of its score to the next and the previous one of its conversation."""
    parts = {row: [score] for row, score in own.items()}
    one = (
        f"SELECT n.row FROM laser.memory_items n WHERE {scope.of('n')} "  # noqa: S608
        "AND n.ns = i.ns AND n.conv = i.conv AND n.state >= 2"
    )
    rows = _rows(
        connection,
        f"SELECT i.row, ({one} AND {_PLACE.format('>')} ORDER BY n.at, n.part, n.off LIMIT 1), "  # noqa: S608
        f"({one} AND {_PLACE.format('<')} ORDER BY n.at DESC, n.part DESC, n.off DESC LIMIT 1) "
        "FROM laser.memory_items i WHERE i.row = ANY(%s::bigint[])",
        (*scope.values, *scope.values, list(own)[:_NEAR]),
    )
    for row, after, before in rows:
        for neighbour, share in ((after, _AFTER), (before, _BEFORE)):
            if neighbour is not None:
                parts.setdefault(neighbour, []).append(share * own[row])
    # The exact sum: rows come in another order in a view that was folded anew.
    return {row: math.fsum(shares) for row, shares in parts.items()}


def _one(connection: Connection, statement: str, values: Sequence[Any]) -> int:
    rows = _rows(connection, statement, values)
    return int(rows[0][0]) if rows else 0


def _rows(connection: Connection, statement: str, values: Sequence[Any]) -> list[Any]:
    # What is put into statements are names of columns, as many marks for values as there are, and nothing else.
    return connection.execute(statement, values).fetchall()
