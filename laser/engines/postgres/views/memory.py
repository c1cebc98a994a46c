"""The read view of memory on PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import orjson

from laser.engines._remote import Remote
from laser.engines._vectors import Vectors, pack_vector
from laser.engines._words import without_labels
from laser.engines.postgres.driver import Connection
from laser.engines.postgres.views.memory_keyword import Scope, keyword_scores, named_labels
from laser.engines.postgres.views.memory_words import label_hash
from laser.engines.postgres.views.memory_writing import apply_changes, forget_all, trim_records
from laser.engines.postgres.views.names import MODEL, NS, find_names, make_names, place_number, scope_of
from laser.engines.postgres.views.positions import Positions
from laser.errors import InvalidError
from laser.model.memory import FactMark, MemoryChange, MemoryOwner, Remembered
from laser.ports.memory_view import Found, Unembedded

__all__ = ["PostgresMemoryView"]

T = TypeVar("T")

_ITEM: Final = """
SELECT i.row, i.id, i.kind, i.body, i.at, i.part, i.off, i.fact_key, i.origin, i.expires, i.durable, i.more, i.weight,
    c.name, a.name, u.name, p.name
FROM laser.memory_items i JOIN laser.memory_names c ON c.id = i.conv LEFT JOIN laser.memory_names a ON a.id = i.agent
    LEFT JOIN laser.memory_names u ON u.id = i.usr LEFT JOIN laser.memory_names p ON p.id = i.app
"""
_HOLDS: Final = "(i.expires IS NULL OR i.expires > %s)"
_NEWEST: Final = "i.at DESC, i.part DESC, i.off DESC"
_OLDEST: Final = "i.at, i.part, i.off"
_FACTS: Final = f"""
{_ITEM} WHERE i.ns = %s AND i.conv = %s AND i.usr IS NOT DISTINCT FROM %s::bigint
AND i.app IS NOT DISTINCT FROM %s::bigint AND i.fact_key IS NOT NULL AND i.state >= 1
AND (%s::boolean OR i.fact_key = %s::bytea) ORDER BY {_OLDEST}
"""
_KNOWS_MODEL: Final = "SELECT 1 FROM laser.memory_models WHERE ns = %s AND model = %s"
_UNEMBEDDED: Final = """
SELECT u.row, i.body FROM laser.memory_unembedded u JOIN laser.memory_items i ON i.row = u.row
WHERE u.model = %s AND u.ns = %s AND i.state >= 2 ORDER BY u.row LIMIT %s
"""
_ALL_LACK_IT: Final = """
INSERT INTO laser.memory_unembedded (model, ns, row) SELECT %(model)s, ns, row FROM laser.memory_items i
WHERE ns = %(ns)s AND state >= 2
AND NOT EXISTS (SELECT 1 FROM laser.memory_vectors v WHERE v.model = %(model)s AND v.row = i.row) ON CONFLICT DO NOTHING
"""
_EMBED: Final = """
INSERT INTO laser.memory_vectors (model, ns, row, vector)
SELECT %s, i.ns, i.row, v.vector FROM unnest(%s::bigint[], %s::bytea[]) AS v(row, vector)
JOIN laser.memory_items i ON i.row = v.row AND i.state >= 2 ORDER BY i.row ON CONFLICT DO NOTHING
"""
_EMBEDDED: Final = "DELETE FROM laser.memory_unembedded WHERE model = %s AND row = ANY(%s::bigint[])"
_LENGTH: Final = "SELECT octet_length(vector) FROM laser.memory_vectors WHERE model = %s LIMIT 1"
_ADDED: Final = """
SELECT number, row, vector FROM laser.memory_vectors WHERE model = %s AND ns = %s AND number > %s
ORDER BY number LIMIT %s
"""
_BATCH: Final = 4_096


class PostgresMemoryView:
    """The items of one topic. See ``MemoryView``. Vectors are kept in the database, and compared in this process."""

    def __init__(self, remote: Remote[Connection], stream: str, topic: str) -> None:
        self._place = (stream, topic)
        self._positions = Positions(remote, "memory", self._place)
        # Threads of several calls look at the same vectors.
        self._lock = threading.Lock()
        self._vectors: dict[tuple[int, int], Vectors] = {}

    async def position(self) -> str | None:
        """See ``View.position``."""
        return await self._positions.get()

    async def apply(
        self, changes: Sequence[MemoryChange], *, firsts: Mapping[int, int], expect: str | None, position: str
    ) -> bool:
        """See ``View.apply``."""
        return await self._positions.move(
            lambda connection: apply_changes(connection, self._place, changes),
            lambda connection, kept: trim_records(connection, self._place, kept),
            firsts,
            expect=expect,
            position=position,
        )

    async def clear(self, *, expect: str | None) -> None:
        """See ``View.clear``."""
        await self._positions.clear(lambda connection: forget_all(connection, self._place), expect=expect)
        with self._lock:
            self._vectors.clear()

    async def recent(
        self, owner: MemoryOwner, limit: int, now_micros: int, *, by_feedback: bool = False
    ) -> list[Found]:
        """See ``MemoryView.recent``."""
        order = f"coalesce(i.weight, 0) DESC, {_NEWEST}" if by_feedback else _NEWEST

        def run(connection: Connection, scope: Scope) -> list[Found]:
            statement = f"{_ITEM} WHERE {scope.of('i')} AND {_HOLDS} ORDER BY {order} LIMIT %s"
            return [_found(owner, row) for row in _rows(connection, statement, (*scope.values, now_micros, limit))]

        return await self._asked(owner, run, [])

    async def keyword(self, owner: MemoryOwner, query: str, limit: int, now_micros: int) -> list[Found]:
        """See ``MemoryView.keyword``."""

        def run(connection: Connection, scope: Scope) -> list[Found]:
            return _items(connection, owner, keyword_scores(connection, scope, query, limit), limit, now_micros)

        return await self._asked(owner, run, [])

    async def nearest(
        self, owner: MemoryOwner, model: str, query: str, vector: Sequence[float], limit: int, now_micros: int
    ) -> list[Found]:
        """See ``MemoryView.nearest``."""
        packed = pack_vector(vector)

        def run(connection: Connection, scope: Scope) -> list[Found]:
            hashes = [label_hash(scope.ns, word) for word in named_labels(connection, scope, query)]
            named = _numbers(connection, f"i.words && %s::bigint[] AND {scope.of('i')}", (hashes, *scope.values))
            # Only what can be shown: what others have, copies and outlived facts would take places.
            only = _numbers(connection, f"{scope.of('i')} AND {_HOLDS}", (*scope.values, now_micros))
            with self._lock:
                vectors = self._load(connection, model, scope.ns, len(packed) // 4)
                ranked = [] if vectors is None else vectors.nearest(packed, limit, only=only, named=named)
            return _items(connection, owner, ranked, limit, now_micros)

        return await self._asked(owner, run, [])

    async def named(self, owner: MemoryOwner, query: str) -> str:
        """See ``MemoryView.named``."""

        def run(connection: Connection, scope: Scope) -> str:
            return without_labels(query, named_labels(connection, scope, query))

        return await self._asked(owner, run, query)

    async def get(self, owner: MemoryOwner, item_id: str, now_micros: int) -> Found | None:
        """See ``MemoryView.get``."""

        def run(connection: Connection, scope: Scope) -> Found | None:
            statement = f"{_ITEM} WHERE i.ns = %s AND i.id = %s AND i.state >= 2 AND {_HOLDS} ORDER BY {_OLDEST}"
            found = (_found(owner, row) for row in _rows(connection, statement, (scope.ns, item_id, now_micros)))
            return next((entry for entry in found if owner.sees(entry.item.owner)), None)

        return await self._asked(owner, run, None)

    async def facts(self, cell: MemoryOwner, key: str | None) -> list[Remembered]:
        """See ``MemoryView.facts``."""

        def run(connection: Connection) -> list[Remembered]:
            columns = scope_of(
                connection, self._place, MemoryOwner(cell.namespace, cell.conversation, None, cell.user, cell.app)
            )
            if columns is None:
                return []
            which = [columns["ns"], columns.get("conv"), columns.get("usr"), columns.get("app")]
            values = (*which, key is None, None if key is None else key.encode())
            return [_found(cell, row).item for row in _rows(connection, _FACTS, values)]

        return await self._positions.read(run)

    async def outlived(self, namespace: str, now_micros: int, limit: int) -> list[Remembered]:
        """See ``MemoryView.outlived``."""
        owner = MemoryOwner(namespace)

        def run(connection: Connection, scope: Scope) -> list[Remembered]:
            statement = f"{_ITEM} WHERE i.ns = %s AND i.expires <= %s AND i.state >= 1 ORDER BY {_OLDEST} LIMIT %s"
            return [_found(owner, row).item for row in _rows(connection, statement, (scope.ns, now_micros, limit))]

        return await self._asked(owner, run, [])

    async def unembedded(self, namespace: str, model: str, limit: int) -> list[Unembedded]:
        """See ``MemoryView.unembedded``."""

        def run(connection: Connection, scope: Scope) -> list[Unembedded] | None:
            number = self._model(connection, model)
            if number is None or connection.execute(_KNOWS_MODEL, (scope.ns, number)).fetchone() is None:
                return None
            rows = _rows(connection, _UNEMBEDDED, (number, scope.ns, limit))
            return [Unembedded(row, bytes(body).decode("utf-8", "replace")) for row, body in rows]

        def begin(connection: Connection) -> None:
            self._positions.hold(connection)
            place = place_number(connection, self._place, make=True)
            assert place is not None
            names = make_names(connection, place, [(NS, namespace), (MODEL, model)])
            ns, number = names[NS, namespace], names[MODEL, model]
            connection.execute(
                "INSERT INTO laser.memory_models (ns, model) VALUES (%s, %s) ON CONFLICT DO NOTHING", (ns, number)
            )
            connection.execute(_ALL_LACK_IT, {"ns": ns, "model": number})

        owner = MemoryOwner(namespace)
        found: list[Unembedded] | None = await self._asked(owner, run, [])
        if found is None:
            await self._positions.write(begin)
            found = await self._asked(owner, run, [])
        return found or []

    async def embed(self, model: str, rows: Sequence[int], vectors: Sequence[Sequence[float]]) -> None:
        """See ``MemoryView.embed``."""
        packed = [pack_vector(vector) for vector in vectors]

        def run(connection: Connection) -> None:
            # Held, so that nothing is forgotten between the look at an item and its vector.
            self._positions.hold(connection)
            place = place_number(connection, self._place, make=True)
            assert place is not None
            number = make_names(connection, place, [(MODEL, model)])[MODEL, model]
            for size in {len(data) for data in packed}:
                _check_length(connection, number, model, size)
            connection.execute(_EMBED, (number, list(rows), packed))
            connection.execute(_EMBEDDED, (number, list(rows)))

        if len({len(data) for data in packed}) > 1:
            raise InvalidError("embedder: gave vectors of several lengths", argument="embedder")
        await self._positions.write(run)

    async def _asked(self, owner: MemoryOwner, run: Callable[[Connection, Scope], T], nothing: T) -> T:
        def ask(connection: Connection) -> T:
            columns = scope_of(connection, self._place, owner)
            return nothing if columns is None else run(connection, Scope(columns))

        return await self._positions.read(ask)

    def _model(self, connection: Connection, model: str) -> int | None:
        place = place_number(connection, self._place, make=False)
        return None if place is None else find_names(connection, place, [(MODEL, model)]).get((MODEL, model))

    def _load(self, connection: Connection, model: str, ns: int, dimensions: int) -> Vectors | None:
        """The vectors of a model and namespace, brought up to date."""
        number = self._model(connection, model)
        if number is None:
            return None
        _check_length(connection, number, model, 4 * dimensions)
        vectors = self._vectors.get((number, ns))
        if vectors is None:
            vectors = self._vectors[number, ns] = Vectors(dimensions)
        while True:
            batch = _rows(connection, _ADDED, (number, ns, vectors.last, _BATCH))
            vectors.extend((found, row, bytes(data)) for found, row, data in batch)
            if len(batch) < _BATCH:
                return vectors


def _items(
    connection: Connection, owner: MemoryOwner, ranked: Sequence[tuple[int, float]], limit: int, now_micros: int
) -> list[Found]:
    """The items of rows in their order, without those that are not to be shown."""
    found: list[Found] = []
    for start in range(0, len(ranked), max(1, limit)):
        part = ranked[start : start + max(1, limit)]
        statement = f"{_ITEM} WHERE i.row = ANY(%s::bigint[]) AND {_HOLDS}"
        there = {row[0]: row for row in _rows(connection, statement, ([row for row, _ in part], now_micros))}
        found += (_found(owner, there[row], score) for row, score in part if row in there)
        if len(found) >= limit:
            break
    return found[:limit]


def _rows(connection: Connection, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    # Binary: as text each byte of a value would take two.
    return connection.cursor(binary=True).execute(statement, values).fetchall()


def _numbers(connection: Connection, where: str, values: Sequence[Any]) -> list[int]:
    return [row for (row,) in _rows(connection, f"SELECT i.row FROM laser.memory_items i WHERE {where}", values)]  # noqa: S608


def _found(owner: MemoryOwner, row: Sequence[Any], score: float = 0.0) -> Found:
    number, item_id, kind, body, at, part, off, key, origin, expires, durable, more, weight = row[:13]
    conv, agent, user, app = (None if name is None else bytes(name).decode() for name in row[13:])
    extra: dict[str, Any] = {} if more is None else orjson.loads(bytes(more))
    item = Remembered(
        item_id,
        bytes(kind).decode(),
        bytes(body),
        MemoryOwner(owner.namespace, conv, agent, user, app),
        at,
        part,
        off,
        None if key is None else FactMark(bytes(key).decode(), bytes(origin).decode(), expires),
        durable,
        tuple(extra.get("sources", ())),
        extra.get("lineage", {}),
    )
    return Found(number, item, weight, score)


def _check_length(connection: Connection, number: int, model: str, size: int) -> None:
    row = connection.execute(_LENGTH, (number,)).fetchone()
    if row is not None and row[0] != size:
        raise InvalidError(
            f"embedder: model {model!r} gave a vector of {size // 4} numbers, its earlier ones have {row[0] // 4}; "
            "another version of a model needs another name",
            argument="embedder",
        )
