"""The read view of memory on SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import orjson

from laser.engines._vectors import Vectors, pack_vector
from laser.engines._words import without_labels
from laser.engines.sqlite.views.database import ViewDatabase
from laser.engines.sqlite.views.memory_keyword import Scope, keyword_scores, labelled, named_labels
from laser.engines.sqlite.views.memory_names import MODEL, NS, Names
from laser.engines.sqlite.views.memory_writing import Writing, forget_all, trim_records
from laser.engines.sqlite.views.positions import Positions
from laser.errors import InvalidError
from laser.model.memory import FactMark, MemoryChange, MemoryOwner, Remembered
from laser.ports.memory_view import Found, Unembedded

__all__ = ["SqliteMemoryView"]

T = TypeVar("T")

_COLUMNS: Final = """
SELECT i.row, i.id, i.kind, i.body, i.at, i.part, i.off, i.fact_key, i.origin, i.expires, i.durable, i.more, i.weight,
    c.name, a.name, u.name, p.name
"""
_NAMES: Final = """
JOIN memory_names c ON c.id = i.conv LEFT JOIN memory_names a ON a.id = i.agent
    LEFT JOIN memory_names u ON u.id = i.user LEFT JOIN memory_names p ON p.id = i.app
"""
_ITEM: Final = f"{_COLUMNS} FROM memory_items i {_NAMES}"
# CROSS JOIN: the rows come first; the planner would rather walk all of a namespace.
_THESE: Final = f"{_COLUMNS} FROM json_each(?) asked CROSS JOIN memory_items i ON i.row = asked.value {_NAMES}"
_HOLDS: Final = "(expires IS NULL OR expires > ?)"
_NEWEST: Final = "at DESC, part DESC, off DESC"
_GET: Final = f"{_ITEM} WHERE i.ns = ? AND i.id = ? AND state >= 2 AND {_HOLDS} ORDER BY at, part, off"
_FACTS: Final = f"""
{_ITEM} WHERE i.ns = ? AND i.conv = ? AND i.user IS ? AND i.app IS ? AND fact_key IS NOT NULL AND state >= 1
AND (? OR fact_key = ?) ORDER BY at, part, off
"""
_OUTLIVED: Final = f"{_ITEM} WHERE i.ns = ? AND expires <= ? AND state >= 1 ORDER BY at, part, off LIMIT ?"
_UNEMBEDDED: Final = """
SELECT row, body FROM memory_unembedded JOIN memory_items USING (row) WHERE model = ? AND memory_unembedded.ns = ?
ORDER BY row LIMIT ?
"""
_MODEL: Final = "SELECT 1 FROM memory_models WHERE ns = ? AND model = ?"
_ALL_LACK_IT: Final = """
INSERT OR IGNORE INTO memory_unembedded SELECT ?1, ns, row FROM memory_items i WHERE ns = ?2 AND state >= 2
AND NOT EXISTS (SELECT 1 FROM memory_vectors WHERE model = ?1 AND row = i.row)
"""
_ADDED: Final = (
    "SELECT number, row, vector FROM memory_vectors WHERE model = ? AND ns = ? AND number > ? ORDER BY number"
)
_EMBED: Final = """
INSERT INTO memory_vectors (model, ns, row, vector) SELECT ?, ns, row, ? FROM memory_items WHERE row = ? AND state >= 2
AND NOT EXISTS (SELECT 1 FROM memory_vectors WHERE model = ?1 AND row = memory_items.row)
"""
_LENGTH: Final = "SELECT length(vector) FROM memory_vectors WHERE model = ? LIMIT 1"


class SqliteMemoryView:
    """The items of one topic. See ``MemoryView``."""

    def __init__(self, database: ViewDatabase, stream: str, topic: str) -> None:
        self._database = database
        self._place = (stream, topic)
        self._positions = Positions(database, "memory", self._place)
        self._vectors: dict[tuple[int, int], Vectors] = {}
        self._counts: dict[tuple[object, ...], int] = {}
        self._counted_at = (0, 0)

    async def position(self) -> str | None:
        """See ``View.position``."""
        return await self._positions.get()

    async def apply(
        self, changes: Sequence[MemoryChange], *, firsts: Mapping[int, int], expect: str | None, position: str
    ) -> bool:
        """See ``View.apply``."""
        return await self._positions.move(
            lambda connection: Writing(connection, *self._place).apply(changes),
            lambda connection, kept: trim_records(connection, *self._place, kept),
            firsts,
            expect=expect,
            position=position,
        )

    async def clear(self, *, expect: str | None) -> None:
        """See ``View.clear``."""
        await self._positions.clear(lambda connection: forget_all(connection, *self._place), expect=expect)
        self._vectors.clear()

    async def recent(
        self, owner: MemoryOwner, limit: int, now_micros: int, *, by_feedback: bool = False
    ) -> list[Found]:
        """See ``MemoryView.recent``."""
        order = f"ifnull(weight, 0) DESC, {_NEWEST}" if by_feedback else _NEWEST

        def run(connection: sqlite3.Connection, scope: Scope) -> list[Found]:
            statement = f"{_ITEM} WHERE {scope.of('i')} AND {_HOLDS} ORDER BY {order} LIMIT ?"
            rows = connection.execute(statement, (*scope.values, now_micros, limit))
            return [_found(owner, row) for row in rows]

        return await self._asked(owner, run, [])

    async def keyword(self, owner: MemoryOwner, query: str, limit: int, now_micros: int) -> list[Found]:
        """See ``MemoryView.keyword``."""

        def run(connection: sqlite3.Connection, scope: Scope) -> list[Found]:
            ranked = keyword_scores(connection, scope, query, limit, self._count(connection, scope))
            return _items(connection, owner, ranked, limit, now_micros)

        return await self._asked(owner, run, [])

    async def nearest(
        self, owner: MemoryOwner, model: str, query: str, vector: Sequence[float], limit: int, now_micros: int
    ) -> list[Found]:
        """See ``MemoryView.nearest``."""
        packed = pack_vector(vector)

        def run(connection: sqlite3.Connection, scope: Scope) -> list[Found]:
            vectors = self._load(connection, model, scope.values[0], len(packed) // 4)
            if vectors is None:
                return []
            named: set[int] = set()
            for word in named_labels(connection, scope, query):
                named.update(labelled(connection, scope, word))
            only: list[int] | None = None
            if len(scope.values) > 1:
                only = _rows(connection, scope.where, scope.values)
            while True:
                ranked = vectors.nearest(packed, 2 * limit, only=only, named=named)
                found = _items(connection, owner, ranked, limit, now_micros, scope)
                if only is not None or len(found) >= min(limit, len(ranked)):
                    return found
                # Copies and outlived facts took the places of others: look only at what can be shown.
                only = _rows(connection, f"{scope.where} AND {_HOLDS}", [*scope.values, now_micros])

        return await self._asked(owner, run, [])

    async def named(self, owner: MemoryOwner, query: str) -> str:
        """See ``MemoryView.named``."""

        def run(connection: sqlite3.Connection, scope: Scope) -> str:
            return without_labels(query, named_labels(connection, scope, query))

        return await self._asked(owner, run, query)

    async def get(self, owner: MemoryOwner, item_id: str, now_micros: int) -> Found | None:
        """See ``MemoryView.get``."""

        def run(connection: sqlite3.Connection, scope: Scope) -> Found | None:
            rows = connection.execute(_GET, (scope.values[0], item_id, now_micros))
            found = (_found(owner, row) for row in rows)
            return next((entry for entry in found if owner.sees(entry.item.owner)), None)

        return await self._asked(owner, run, None)

    async def facts(self, cell: MemoryOwner, key: str | None) -> list[Remembered]:
        """See ``MemoryView.facts``."""

        def run(connection: sqlite3.Connection, scope: Scope) -> list[Remembered]:
            columns = Names(connection, *self._place, make=False).of(cell) or {}
            values = (columns["ns"], columns["conv"], columns.get("user"), columns.get("app"), key is None, key)
            return [_found(cell, row).item for row in connection.execute(_FACTS, values)]

        return await self._asked(cell, run, [])

    async def outlived(self, namespace: str, now_micros: int, limit: int) -> list[Remembered]:
        """See ``MemoryView.outlived``."""
        owner = MemoryOwner(namespace)

        def run(connection: sqlite3.Connection, scope: Scope) -> list[Remembered]:
            rows = connection.execute(_OUTLIVED, (scope.values[0], now_micros, limit))
            return [_found(owner, row).item for row in rows]

        return await self._asked(owner, run, [])

    async def unembedded(self, namespace: str, model: str, limit: int) -> list[Unembedded]:
        """See ``MemoryView.unembedded``."""

        def run(connection: sqlite3.Connection, scope: Scope) -> list[Unembedded] | None:
            number = Names(connection, *self._place, make=False).find(MODEL, model)
            (ns,) = scope.values
            if number is None or connection.execute(_MODEL, (ns, number)).fetchone() is None:
                return None
            rows = connection.execute(_UNEMBEDDED, (number, ns, limit))
            return [Unembedded(row, body.decode("utf-8", "replace")) for row, body in rows]

        def begin(connection: sqlite3.Connection) -> None:
            names = Names(connection, *self._place, make=True)
            number, ns = names.make(MODEL, model), names.make(NS, namespace)
            connection.execute("INSERT OR IGNORE INTO memory_models VALUES (?, ?)", (ns, number))
            connection.execute(_ALL_LACK_IT, (number, ns))

        owner = MemoryOwner(namespace)
        found: list[Unembedded] | None = await self._asked(owner, run, [])
        if found is None:
            await self._database.write(begin)
            found = await self._asked(owner, run, [])
        return found or []

    async def embed(self, model: str, rows: Sequence[int], vectors: Sequence[Sequence[float]]) -> None:
        """See ``MemoryView.embed``."""
        packed = [pack_vector(vector) for vector in vectors]

        def run(connection: sqlite3.Connection) -> None:
            number = Names(connection, *self._place, make=True).make(MODEL, model)
            for row, data in zip(rows, packed, strict=True):
                _check_length(connection, number, model, len(data))
                connection.execute(_EMBED, (number, data, row))
            connection.executemany(
                "DELETE FROM memory_unembedded WHERE model = ? AND row = ?", [(number, row) for row in rows]
            )

        await self._database.write(run)

    async def _asked(self, owner: MemoryOwner, run: Callable[[sqlite3.Connection, Scope], T], nothing: T) -> T:
        def ask(connection: sqlite3.Connection) -> T:
            columns = Names(connection, *self._place, make=False).of(owner)
            return nothing if columns is None else run(connection, Scope(columns))

        return await self._database.read(ask)

    def _count(self, connection: sqlite3.Connection, scope: Scope) -> int:
        """How many items a scope has. Counted again only when something was written since."""
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        now = (version, connection.total_changes)
        if now != self._counted_at:
            self._counts.clear()
            self._counted_at = now
        key = (scope.where, *scope.values)
        if key not in self._counts:
            statement = f"SELECT count(*) FROM memory_items WHERE {scope.where}"  # noqa: S608 - columns of our own
            self._counts[key] = connection.execute(statement, scope.values).fetchone()[0]
        return self._counts[key]

    def _load(self, connection: sqlite3.Connection, model: str, ns: int, dimensions: int) -> Vectors | None:
        """The vectors of a model and namespace, brought up to date."""
        number = Names(connection, *self._place, make=False).find(MODEL, model)
        if number is None:
            return None
        _check_length(connection, number, model, 4 * dimensions)
        vectors = self._vectors.get((number, ns))
        if vectors is None:
            vectors = self._vectors[number, ns] = Vectors(dimensions)
        added = connection.execute(_ADDED, (number, ns, vectors.last))
        while batch := added.fetchmany(4_096):
            vectors.extend(batch)
        return vectors


def _rows(connection: sqlite3.Connection, where: str, values: Sequence[int]) -> list[int]:
    # As one value: many rows cost more to hand over than to find.
    statement = f"SELECT json_group_array(row) FROM memory_items WHERE {where}"  # noqa: S608 - columns of our own
    rows: list[int] = orjson.loads(connection.execute(statement, values).fetchone()[0])
    return rows


def _items(
    connection: sqlite3.Connection,
    owner: MemoryOwner,
    ranked: Sequence[tuple[int, float]],
    limit: int,
    now_micros: int,
    scope: Scope | None = None,
) -> list[Found]:
    """The items of rows in their order, without those that are not to be shown."""
    found: list[Found] = []
    for start in range(0, len(ranked), max(1, limit)):
        part = ranked[start : start + max(1, limit)]
        where, values = ("1", []) if scope is None else (scope.of("i"), scope.values)
        statement = f"{_THESE} WHERE {where} AND {_HOLDS}"
        rows = connection.execute(statement, (orjson.dumps([row for row, _ in part]).decode(), *values, now_micros))
        there = {row[0]: row for row in rows}
        found += (_found(owner, there[row], score) for row, score in part if row in there)
        if len(found) >= limit:
            break
    return found[:limit]


def _found(owner: MemoryOwner, row: Sequence[Any], score: float = 0.0) -> Found:
    number, item_id, kind, body, at, part, off, key, origin, expires, durable, more, weight = row[:13]
    conv, agent, user, app = row[13:]
    extra: dict[str, Any] = {} if more is None else orjson.loads(more)
    item = Remembered(
        item_id,
        kind,
        body,
        MemoryOwner(owner.namespace, conv, agent, user, app),
        at,
        part,
        off,
        None if key is None else FactMark(key, origin, expires),
        bool(durable),
        tuple(extra.get("sources", ())),
        extra.get("lineage", {}),
    )
    return Found(number, item, weight, score)


def _check_length(connection: sqlite3.Connection, number: int, model: str, size: int) -> None:
    row = connection.execute(_LENGTH, (number,)).fetchone()
    if row is not None and row[0] != size:
        raise InvalidError(
            f"embedder: model {model!r} gave a vector of {size // 4} numbers, its earlier ones have {row[0] // 4}; "
            "another version of a model needs another name",
            argument="embedder",
        )
