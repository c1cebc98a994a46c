"""Writes to memory's read view: what records say, applied a page at a time and in any order of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from laser.engines._words import index_words, split_label
from laser.engines.postgres.driver import Connection
from laser.engines.postgres.views.memory_settling import COPY, SHOWN, FactKey, Item, Key, Tomb, settle
from laser.engines.postgres.views.memory_words import index_hashes
from laser.engines.postgres.views.names import AGENT, APP, CONV, NS, USER, make_names, place_number
from laser.engines.postgres.views.positions import Place
from laser.errors import StaleCheckpointError
from laser.model.memory import Forgotten, MemoryChange, Remembered, Weighed

__all__ = ["apply_changes", "forget_all", "trim_records"]

_ROWS: Final = "SELECT nextval('laser.memory_rows') FROM generate_series(1, %s)"
_COPY_ITEMS: Final = """
COPY laser.memory_items (row, place, ns, id, conv, agent, usr, app, kind, body, at, part, off, fact_key, origin,
    expires, durable, more, size, words, state, weight) FROM STDIN
"""
_FEEDBACK: Final = """
INSERT INTO laser.memory_feedback (place, part, off, ns, target, within, weight) VALUES (%s, %s, %s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING
"""
_TOMB: Final = """
INSERT INTO laser.memory_tombs (place, part, off, ns, target, within, pruned) VALUES (%s, %s, %s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING
"""
_SOURCE: Final = "INSERT INTO laser.memory_sources (ns, source, id) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
_KEYS: Final = "unnest(%s::bigint[], %s::text[]) AS k(ns, id)"
_ITEM: Final = (
    "SELECT i.row, i.ns, i.id, i.conv, i.usr, i.app, i.at, i.part, i.off, i.fact_key, i.more, i.state, i.weight "
    "FROM laser.memory_items i"
)
_BY_KEY: Final = f"{_ITEM} JOIN {_KEYS} ON i.ns = k.ns AND i.id = k.id"
_BY_FACT: Final = f"""
{_ITEM} JOIN unnest(%s::bigint[], %s::bytea[], %s::bigint[]) AS k(ns, fact_key, conv)
ON i.ns = k.ns AND i.fact_key = k.fact_key AND i.conv = k.conv
"""
_TOMBS: Final = f"""
SELECT t.ns, t.target, t.place, t.part, t.off, t.within, t.pruned, t.hides
FROM laser.memory_tombs t JOIN {_KEYS} ON t.ns = k.ns AND t.target = k.id
"""  # noqa: S608
_HIDES: Final = "UPDATE laser.memory_tombs SET hides = true WHERE place = %s AND part = %s AND off = %s"
_WEIGHTS: Final = f"""
SELECT f.ns, f.target, f.within, f.weight FROM laser.memory_feedback f JOIN {_KEYS} ON f.ns = k.ns AND f.target = k.id
"""  # noqa: S608
_SUMMARIES: Final = f"SELECT s.ns, s.id FROM laser.memory_sources s JOIN {_KEYS} ON s.ns = k.ns AND s.source = k.id"  # noqa: S608
_LACK_VECTORS: Final = """
INSERT INTO laser.memory_unembedded (model, ns, row) SELECT m.model, i.ns, i.row FROM laser.memory_items i
JOIN laser.memory_models m ON m.ns = i.ns WHERE i.row = ANY(%s::bigint[])
AND NOT EXISTS (SELECT 1 FROM laser.memory_vectors v WHERE v.model = m.model AND v.row = i.row) ON CONFLICT DO NOTHING
"""
_ID_CHARS: Final = 26
_MANY: Final = 500
_UNKNOWN: Final = "SELECT 1 FROM pg_class WHERE oid = 'laser.memory_items'::regclass AND reltuples <= 0"
_BELOW: Final = "place = %s AND part = %s AND off < %s"
_HIDING_BELOW: Final = f"SELECT 1 FROM laser.memory_tombs WHERE {_BELOW} AND hides LIMIT 1"  # noqa: S608
_DROP_ITEMS: Final = f"DELETE FROM laser.memory_items WHERE {_BELOW} RETURNING row, ns, id, fact_key, conv"  # noqa: S608
_DROP_FEEDBACK: Final = f"DELETE FROM laser.memory_feedback WHERE {_BELOW} RETURNING ns, target"  # noqa: S608
_DROP_TOMBS: Final = f"DELETE FROM laser.memory_tombs WHERE {_BELOW}"  # noqa: S608


def apply_changes(connection: Connection, place: Place, changes: Sequence[MemoryChange]) -> None:
    """Applies changes, and settles every item that they touch."""
    if not changes:
        return
    number = place_number(connection, place, make=True)
    assert number is not None
    known = make_names(connection, number, _names_of(changes))
    items: list[Item] = []
    feedback: list[tuple[Any, ...]] = []
    tombs: list[tuple[Any, ...]] = []
    remembered = [change for change in changes if isinstance(change, Remembered)]
    rows = iter([row for (row,) in connection.execute(_ROWS, (len(remembered),))])
    touched: set[Key] = set()
    unwanted: set[Key] = set()
    for change in changes:
        ns = known[NS, change.owner.namespace]
        if isinstance(change, Remembered):
            items.append(_new_item(next(rows), number, change, known))
            touched.add((ns, change.id))
            continue
        within = None if change.within is None else known[CONV, change.within]
        head = (number, change.partition, change.offset, ns, change.target, within)
        touched.add((ns, change.target))
        if isinstance(change, Weighed):
            feedback.append((*head, change.weight))
        else:
            tombs.append((*head, change.pruned))
            if not change.pruned:
                unwanted.add((ns, change.target))
    cursor = connection.cursor()
    for statement, values in (
        (_FEEDBACK, feedback),
        (_TOMB, tombs),
        (_SOURCE, [(item.ns, source, item.id) for item in items for source in item.sources]),
    ):
        if values:
            cursor.executemany(statement, values)
    if unwanted:
        touched.update((ns, item_id) for ns, item_id in connection.execute(_SUMMARIES, _keys(unwanted)))
    _settle(connection, touched, items, set())
    if len(items) >= _MANY and connection.execute(_UNKNOWN).fetchone():
        # Without statistics the server looks for words by reading every item, and it makes them only after a minute.
        connection.execute("ANALYZE laser.memory_items")


def trim_records(connection: Connection, place: Place, firsts: Mapping[int, int]) -> None:
    """Removes what came from records that the log does not hold any more.

    Raises:
        StaleCheckpointError: a forget is gone that hid what may still be there, so all has to be folded anew.
    """
    number = place_number(connection, place, make=False)
    touched: set[Key] = set()
    facts: set[FactKey] = set()
    for part, first in firsts.items():
        if first <= 0 or number is None:
            continue
        where = (number, part, first)
        if connection.execute(_HIDING_BELOW, where).fetchone():
            raise StaleCheckpointError(
                "retention took a forget", topic=place[1], partition=part, expected=0, actual=first
            )
        gone = connection.execute(_DROP_ITEMS, where).fetchall()
        for _, ns, item_id, fact_key, conv in gone:
            touched.add((ns, item_id))
            if fact_key is not None:
                facts.add((ns, bytes(fact_key), conv))
        _drop_vectors(connection, [row[0] for row in gone])
        touched.update(connection.execute(_DROP_FEEDBACK, where))
        connection.execute(_DROP_TOMBS, where)
    if touched:
        _settle(connection, touched, [], facts)


def forget_all(connection: Connection, place: Place) -> None:
    """Removes everything of a topic."""
    number = place_number(connection, place, make=False)
    if number is None:
        return
    for statement in (
        "DELETE FROM laser.memory_vectors v USING laser.memory_items i WHERE i.place = %s AND v.row = i.row",
        "DELETE FROM laser.memory_unembedded u USING laser.memory_items i WHERE i.place = %s AND u.row = i.row",
        "DELETE FROM laser.memory_items WHERE place = %s",
        "DELETE FROM laser.memory_feedback WHERE place = %s",
        "DELETE FROM laser.memory_tombs WHERE place = %s",
        "DELETE FROM laser.memory_sources s USING laser.memory_names n WHERE n.place = %s AND s.ns = n.id",
        "DELETE FROM laser.memory_models m USING laser.memory_names n WHERE n.place = %s AND m.ns = n.id",
        # Names tell who was here.
        "DELETE FROM laser.memory_names WHERE place = %s",
    ):
        connection.execute(statement, (number,))


def _settle(connection: Connection, touched: set[Key], new: Sequence[Item], facts: set[FactKey]) -> None:
    known = {item.row: item for item in new}
    for item in _read(connection.execute(_BY_KEY, _keys(touched))):
        known.setdefault(item.row, item)
    facts |= {(item.ns, item.fact_key, item.conv) for item in known.values() if item.fact_key is not None}
    if facts:
        values = ([ns for ns, _, _ in facts], [key for _, key, _ in facts], [conv for _, _, conv in facts])
        for item in _read(connection.execute(_BY_FACT, values)):
            known.setdefault(item.row, item)
    asked = touched | {(item.ns, source) for item in known.values() for source in item.sources}
    tombs: dict[Key, list[Tomb]] = {}
    for row in connection.execute(_TOMBS, _keys(asked)):
        tombs.setdefault((row[0], row[1]), []).append(Tomb(*row[2:]))
    idle = [tomb for found in tombs.values() for tomb in found if not tomb.hides]
    feedback: dict[Key, list[tuple[int | None, float]]] = {}
    for ns, target, within, weight in connection.execute(_WEIGHTS, _keys(touched)):
        feedback.setdefault((ns, target), []).append((within, weight))
    before = {item.row: (item.state, item.weight) for item in known.values()}
    settle(known.values(), touched, tombs, feedback)
    hiding = [(tomb.place, tomb.part, tomb.off) for tomb in idle if tomb.hides]
    if hiding:
        connection.cursor().executemany(_HIDES, hiding)
    _write(connection, list(known.values()), before)


def _write(
    connection: Connection, items: Sequence[Item], before: Mapping[int, tuple[int | None, float | None]]
) -> None:
    fresh = [item for item in items if item.values is not None and item.state is not None]
    if fresh:
        with connection.cursor().copy(_COPY_ITEMS) as copy:
            for item in fresh:
                assert item.values is not None
                copy.write_row((*item.values, item.state, item.weight))
    old = [item for item in items if item.values is None]
    gone = [item.row for item in old if item.state is None]
    if gone:
        connection.execute("DELETE FROM laser.memory_items WHERE row = ANY(%s::bigint[])", (gone,))
    changed = [item for item in old if item.state is not None and (item.state, item.weight) != before[item.row]]
    if changed:
        connection.cursor().executemany(
            "UPDATE laser.memory_items SET state = %s, weight = %s WHERE row = %s",
            [(item.state, item.weight, item.row) for item in changed],
        )
    hidden = [item.row for item in changed if (item.state or 0) < SHOWN]
    _drop_vectors(connection, gone)
    if hidden:
        connection.execute("DELETE FROM laser.memory_unembedded WHERE row = ANY(%s::bigint[])", (hidden,))
    shown = [item.row for item in (*fresh, *changed) if (item.state or 0) >= SHOWN]
    if shown:
        connection.execute(_LACK_VECTORS, (shown,))


def _drop_vectors(connection: Connection, rows: Sequence[int]) -> None:
    if rows:
        connection.execute("DELETE FROM laser.memory_vectors WHERE row = ANY(%s::bigint[])", (rows,))
        connection.execute("DELETE FROM laser.memory_unembedded WHERE row = ANY(%s::bigint[])", (rows,))


def _new_item(row: int, place: int, change: Remembered, known: Mapping[tuple[int, str], int]) -> Item:
    owner, fact = change.owner, change.fact
    ns, conv = known[NS, owner.namespace], known[CONV, owner.conversation or ""]
    agent, user, app = (
        None if name is None else known[kind, name]
        for kind, name in ((AGENT, owner.agent), (USER, owner.user), (APP, owner.app))
    )
    more: dict[str, Any] = {}
    if change.sources:
        more["sources"] = change.sources
    if change.lineage:
        more["lineage"] = change.lineage
    text = change.body.decode("utf-8", "replace")
    # What stands before the colon of a fact is its key, and nobody who says it.
    label, body = split_label(text) if fact is None else ("", text)
    words = index_words(body)
    key = None if fact is None else fact.key.encode()
    values = (
        row, place, ns, change.id, conv, agent, user, app, change.kind.encode(), change.body, change.at_micros,
        change.partition, change.offset, key, None if fact is None else fact.origin.encode(),
        None if fact is None else fact.expires_at_micros, change.durable, orjson.dumps(more) if more else None,
        len(words), index_hashes(ns, label, words),
    )  # fmt: skip
    return Item(
        row, ns, change.id, conv, user, app, change.at_micros, change.partition, change.offset, key,
        _ids(change.sources), COPY, None, values,
    )  # fmt: skip


def _read(rows: Iterable[Sequence[Any]]) -> list[Item]:
    items = []
    for row, ns, item_id, conv, user, app, at, part, off, fact_key, more, state, weight in rows:
        sources = _ids(() if more is None else orjson.loads(bytes(more)).get("sources", ()))
        key = None if fact_key is None else bytes(fact_key)
        items.append(Item(row, ns, item_id, conv, user, app, at, part, off, key, sources, state, weight))
    return items


def _ids(sources: Iterable[str]) -> list[str]:
    # What is no id is no item's; and not every text fits into every database.
    return [source for source in sources if len(source) == _ID_CHARS and source.isascii() and source.isalnum()]


def _keys(keys: Iterable[Key]) -> tuple[list[int], list[str]]:
    ordered = sorted(keys)
    return [ns for ns, _ in ordered], [item_id for _, item_id in ordered]


def _names_of(changes: Iterable[MemoryChange]) -> Iterable[tuple[int, str]]:
    for change in changes:
        owner = change.owner
        yield NS, owner.namespace
        if isinstance(change, Remembered):
            yield CONV, owner.conversation or ""
            for kind, name in ((AGENT, owner.agent), (USER, owner.user), (APP, owner.app)):
                if name is not None:
                    yield kind, name
        elif isinstance(change, Weighed | Forgotten) and change.within is not None:
            yield CONV, change.within
