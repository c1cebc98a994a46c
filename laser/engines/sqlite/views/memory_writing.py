"""Writes to memory's read view: what records say, applied in any order of partitions."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from laser.engines._words import index_words, label_words, split_label
from laser.engines.sqlite.views.memory_names import AGENT, APP, CONV, NS, USER, Names
from laser.engines.sqlite.views.memory_tokens import index_token
from laser.errors import StaleCheckpointError
from laser.model.memory import Forgotten, MemoryChange, Remembered, Weighed

__all__ = ["Writing", "forget_all", "trim_records"]

_COPY: Final = 0
_REPLACED: Final = 1
_SHOWN: Final = 2
_FIRST: Final = 3

_INSERT: Final = "INSERT INTO memory_items VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_KNOWN: Final = """
SELECT value FROM json_each(?2) WHERE EXISTS (SELECT 1 FROM memory_items WHERE ns = ?1 AND id = value)
    OR EXISTS (SELECT 1 FROM memory_tombs WHERE ns = ?1 AND target = value)
    OR EXISTS (SELECT 1 FROM memory_feedback WHERE ns = ?1 AND target = value)
"""
_HAS_MODELS: Final = "SELECT 1 FROM memory_models LIMIT 1"
_NEW_LACK_VECTORS: Final = """
INSERT INTO memory_unembedded SELECT m.model, i.ns, i.row FROM memory_items i JOIN memory_models m ON m.ns = i.ns
WHERE i.row >= ? AND i.state >= 2
"""
_INDEX: Final = """
INSERT INTO memory_words (rowid, words)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?)
"""
_DROPPED_ALL: Final = "SELECT row, state, ns, id, conv, fact_key FROM memory_items WHERE place = ?"
_DROPPED_BELOW: Final = f"{_DROPPED_ALL} AND part = ? AND off < ?"

_Key = tuple[int, str]
"""Namespace and item id."""


class Writing:
    """Applies changes to the view of one topic, inside one transaction."""

    def __init__(self, connection: sqlite3.Connection, stream: str, topic: str) -> None:
        self._db = connection
        self._names = Names(connection, stream, topic, make=True)
        self._touched: set[_Key] = set()
        self._facts: set[tuple[int, str, int]] = set()

    def apply(self, changes: Sequence[MemoryChange]) -> None:
        """Applies changes, and settles every item that they touch."""
        last = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'memory_items'").fetchone()
        next_row = 1 if last is None else int(last[0]) + 1
        items: list[tuple[Any, ...]] = []
        texts: list[tuple[str, list[str]]] = []
        fresh: dict[_Key, int] = {}
        known = self._known(changes)
        for change in changes:
            if isinstance(change, Remembered):
                label, body = _label_and_body(change.body, None if change.fact is None else change.fact.key)
                words = index_words(body)
                row = self._item(next_row + len(items), change, len(words))
                key = (row[2], change.id)
                items.append(row)
                texts.append((label, words))
                plain = change.fact is None and not change.sources
                if key not in self._touched and key not in fresh and key not in known and plain:
                    # Most items are new and stay the only one of their id: nothing is to be settled then.
                    fresh[key] = len(items) - 1
                    items[-1] = (*row[:18], _FIRST, *row[19:])
                else:
                    if key in fresh:
                        place = fresh.pop(key)
                        items[place] = (*items[place][:18], _COPY, *items[place][19:])
                    self._touch(key)
                    self._note(key, change)
            elif isinstance(change, Weighed):
                self._feedback(change)
            else:
                self._tomb(change)
        for key in self._touched & fresh.keys():
            place = fresh.pop(key)
            items[place] = (*items[place][:18], _COPY, *items[place][19:])
        self._db.executemany(_INSERT, items)
        if items and self._db.execute(_HAS_MODELS).fetchone() is not None:
            self._db.execute(_NEW_LACK_VECTORS, (next_row,))
        entries = [(items[place][0], _index_text(items[place], *texts[place])) for place in fresh.values()]
        if entries:
            # One statement for all: between statements this thread would have to wait for the event loop's.
            self._db.execute(_INDEX, (orjson.dumps(entries).decode(),))
        self.settle()

    def touch_many(self, keys: Iterable[_Key]) -> None:
        """Items that have to be settled."""
        self._touched.update(keys)

    def settle(self) -> None:
        """Decides what each touched item is now."""
        while self._touched:
            self._settle(self._touched.pop())
        while self._facts:
            self._settle_fact(*self._facts.pop())

    # ---------------------------------------------------------------------------------------------- one record each

    def _item(self, row: int, change: Remembered, size: int) -> tuple[Any, ...]:
        names, owner, fact = self._names, change.owner, change.fact
        more: dict[str, Any] = {}
        if change.sources:
            more["sources"] = change.sources
        if change.lineage:
            more["lineage"] = change.lineage
        return (
            row, names.place, names.make(NS, owner.namespace), change.id, names.make(CONV, owner.conversation or ""),
            names.find(AGENT, owner.agent), names.find(USER, owner.user), names.find(APP, owner.app), change.kind,
            change.body, change.at_micros, change.partition, change.offset,
            None if fact is None else fact.key, None if fact is None else fact.origin,
            None if fact is None else fact.expires_at_micros, change.durable,
            orjson.dumps(more).decode() if more else None, _COPY, None, size,
        )  # fmt: skip

    def _note(self, key: _Key, change: Remembered) -> None:
        sources = [(key[0], source, change.id) for source in change.sources]
        self._db.executemany("INSERT OR IGNORE INTO memory_sources VALUES (?, ?, ?)", sources)

    def _feedback(self, change: Weighed) -> None:
        names = self._names
        ns, within = names.make(NS, change.owner.namespace), names.find(CONV, change.within)
        row = (names.place, change.partition, change.offset, ns, change.target, within, change.weight)
        self._db.execute("INSERT OR REPLACE INTO memory_feedback VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        self._touch((ns, change.target))

    def _tomb(self, change: Forgotten) -> None:
        names = self._names
        ns, within = names.make(NS, change.owner.namespace), names.find(CONV, change.within)
        row = (names.place, change.partition, change.offset, ns, change.target, within, change.pruned)
        self._db.execute("INSERT OR REPLACE INTO memory_tombs VALUES (?, ?, ?, ?, ?, ?, ?, 0)", row)
        self._touch((ns, change.target))
        if not change.pruned:
            summaries = self._db.execute(
                "SELECT id FROM memory_sources WHERE ns = ? AND source = ?", (ns, change.target)
            )
            for (summary,) in summaries.fetchall():
                self._touch((ns, summary))

    def _touch(self, key: _Key) -> None:
        self._touched.add(key)

    def _known(self, changes: Sequence[MemoryChange]) -> set[_Key]:
        """Which items of some changes the view has heard of before."""
        asked: dict[str, list[str]] = {}
        for change in changes:
            if isinstance(change, Remembered):
                asked.setdefault(change.owner.namespace, []).append(change.id)
        known: set[_Key] = set()
        for namespace, ids in asked.items():
            ns = self._names.make(NS, namespace)
            known.update((ns, item) for (item,) in self._db.execute(_KNOWN, (ns, orjson.dumps(ids).decode())))
        return known

    # ---------------------------------------------------------------------------------------------- settling

    def _settle(self, key: _Key) -> None:
        db = self._db
        tombs = db.execute("SELECT within, part, off FROM memory_tombs WHERE ns = ? AND target = ?", key).fetchall()
        feedback = db.execute("SELECT within, weight FROM memory_feedback WHERE ns = ? AND target = ?", key).fetchall()
        rows = db.execute(
            "SELECT row, conv, state, weight, fact_key, more, part, off FROM memory_items WHERE ns = ? AND id = ? "
            "ORDER BY at, part, off", key
        ).fetchall()  # fmt: skip
        seen: set[int] = set()
        for row, conv, state, weight, fact_key, more, part, off in rows:
            if fact_key is not None:
                self._facts.add((key[0], fact_key, conv))
            hiding = [(where, at) for within, where, at in tombs if within in (None, conv)]
            if hiding or (more is not None and self._is_unwanted(key[0], more)):
                # A forget that stands behind the item in its partition is there as long as the item is.
                if not any(where == part and at > off for where, at in hiding):
                    self._note_hiding(key, conv, more)
                self._show(row, state, None)
                continue
            wanted = _COPY if conv in seen else _SHOWN if seen else _FIRST
            if fact_key is not None and wanted != _COPY:
                # Whether it is the newest of its key is settled with the others of the key.
                wanted = state if state != _COPY else _REPLACED
            seen.add(conv)
            self._show(row, state, wanted)
            weights = [number for within, number in feedback if within in (None, conv)]
            total = math.fsum(weights) if weights else None
            if total != weight:
                db.execute("UPDATE memory_items SET weight = ? WHERE row = ?", (total, row))

    def _note_hiding(self, key: _Key, conv: int, more: str | None) -> None:
        self._db.execute(
            "UPDATE memory_tombs SET hides = 1 WHERE ns = ? AND target = ? AND (within IS NULL OR within = ?)",
            (*key, conv),
        )
        if more is not None:
            sources = orjson.dumps(orjson.loads(more).get("sources", ())).decode()
            self._db.execute(
                "UPDATE memory_tombs SET hides = 1 WHERE ns = ? AND NOT pruned "
                "AND target IN (SELECT value FROM json_each(?))",
                (key[0], sources),
            )

    def _settle_fact(self, ns: int, fact_key: str, conv: int) -> None:
        rows = self._db.execute(
            "SELECT row, state, user, app FROM memory_items WHERE ns = ? AND fact_key = ? AND conv = ? AND state > 0 "
            "ORDER BY at DESC, part DESC, off DESC", (ns, fact_key, conv)
        ).fetchall()  # fmt: skip
        seen: set[tuple[int | None, int | None]] = set()
        for row, state, user, app in rows:
            self._show(row, state, _REPLACED if (user, app) in seen else _FIRST)
            seen.add((user, app))

    def _is_unwanted(self, ns: int, more: str) -> bool:
        for source in orjson.loads(more).get("sources", ()):
            found = self._db.execute(
                "SELECT 1 FROM memory_tombs WHERE ns = ? AND target = ? AND NOT pruned", (ns, source)
            ).fetchone()
            if found is not None:
                return True
        return False

    def _show(self, row: int, before: int, after: int | None) -> None:
        """Moves an item from one state to another; ``None`` removes it."""
        if before == after:
            return
        db = self._db
        if before >= _SHOWN:
            self._unindex(row)
        if after is None:
            db.execute("DELETE FROM memory_items WHERE row = ?", (row,))
            db.execute("DELETE FROM memory_vectors WHERE row = ?", (row,))
            db.execute("DELETE FROM memory_unembedded WHERE row = ?", (row,))
            return
        db.execute("UPDATE memory_items SET state = ? WHERE row = ?", (after, row))
        if after >= _SHOWN:
            item = db.execute("SELECT * FROM memory_items WHERE row = ?", (row,)).fetchone()
            db.execute("INSERT INTO memory_words (rowid, words) VALUES (?, ?)", (row, _text(item)))

    def _unindex(self, row: int) -> None:
        item = self._db.execute("SELECT * FROM memory_items WHERE row = ?", (row,)).fetchone()
        self._db.execute(
            "INSERT INTO memory_words (memory_words, rowid, words) VALUES ('delete', ?, ?)", (row, _text(item))
        )

    def drop(self, row: int, state: int, ns: int, item_id: str, conv: int, fact_key: str | None) -> None:
        """Removes a record that retention took; what stood behind it has to be settled."""
        self._show(row, state, None)
        self._touch((ns, item_id))
        if fact_key is not None:
            self._facts.add((ns, fact_key, conv))


def trim_records(connection: sqlite3.Connection, stream: str, topic: str, firsts: Mapping[int, int]) -> None:
    """Removes what came from records that the log does not hold any more.

    Raises:
        StaleCheckpointError: a forget is gone that hid what may still be there, so all has to be folded anew.
    """
    below = [(part, first) for part, first in firsts.items() if first > 0]
    if not below:
        return
    writing = Writing(connection, stream, topic)
    place = Names(connection, stream, topic, make=True).place
    for part, first in below:
        where = (place, part, first)
        if connection.execute(
            "SELECT 1 FROM memory_tombs WHERE place = ? AND part = ? AND off < ? AND hides LIMIT 1", where
        ).fetchone():
            raise StaleCheckpointError("retention took a forget", topic=topic, partition=part, expected=0, actual=first)
        gone = connection.execute(_DROPPED_BELOW, where).fetchall()
        for row in gone:
            writing.drop(*row)
        targets = connection.execute(
            "SELECT DISTINCT ns, target FROM memory_feedback WHERE place = ? AND part = ? AND off < ?", where
        ).fetchall()
        writing.touch_many(targets)
        connection.execute("DELETE FROM memory_feedback WHERE place = ? AND part = ? AND off < ?", where)
        connection.execute("DELETE FROM memory_tombs WHERE place = ? AND part = ? AND off < ?", where)
    writing.settle()


def forget_all(connection: sqlite3.Connection, stream: str, topic: str) -> None:
    """Removes everything of a topic."""
    place = Names(connection, stream, topic, make=True).place
    if connection.execute("SELECT 1 FROM memory_items WHERE place <> ? LIMIT 1", (place,)).fetchone() is None:
        # The only topic: the index need not be told of each item.
        connection.execute("INSERT INTO memory_words (memory_words) VALUES ('delete-all')")
        connection.execute("DELETE FROM memory_vectors")
        connection.execute("DELETE FROM memory_unembedded")
        connection.execute("DELETE FROM memory_items")
    else:
        writing = Writing(connection, stream, topic)
        for row in connection.execute(_DROPPED_ALL, (place,)).fetchall():
            writing.drop(*row)
    connection.execute("DELETE FROM memory_feedback WHERE place = ?", (place,))
    connection.execute("DELETE FROM memory_tombs WHERE place = ?", (place,))
    for statement in (
        "DELETE FROM memory_sources WHERE ns IN (SELECT id FROM memory_names WHERE kind = ? AND place = ?)",
        "DELETE FROM memory_models WHERE ns IN (SELECT id FROM memory_names WHERE kind = ? AND place = ?)",
    ):
        connection.execute(statement, (NS, place))
    # Names tell who was here.
    connection.execute("DELETE FROM memory_names WHERE place = ?", (place,))


def _text(item: Sequence[Any]) -> str:
    """What the index keeps of a row of ``memory_items``."""
    label, body = _label_and_body(item[9], item[13])
    return _index_text(item, label, index_words(body))


def _index_text(item: Sequence[Any], label: str, words: Sequence[str]) -> str:
    ns = item[2]
    found = [f":{number}" for number in item[4:8] if number is not None]
    if item[18] == _SHOWN:
        found.append(f":copy{ns}")
    if label:
        found += [f"{ns}@{index_token(word)}" for word in label_words(label)]
    between = f" {ns}:"
    text = between.join(words if _is_plain(item[9]) else map(index_token, words))
    return f"{' '.join(found)}{between}{text}" if words else " ".join(found)


def _is_plain(body: bytes) -> bool:
    # Words of ASCII are tokens as they are.
    return body.isascii()


def _label_and_body(body: bytes, fact_key: str | None) -> tuple[str, str]:
    text = body.decode("utf-8", "replace")
    # What stands before the colon of a fact is its key, and nobody who says it.
    return split_label(text) if fact_key is None else ("", text)
