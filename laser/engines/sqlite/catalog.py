"""Creating, growing, emptying and removing topics."""

from __future__ import annotations

from typing import Final

from laser.engines.sqlite.retention import retire_partition
from laser.engines.sqlite.states import TopicRow, load_partitions, topic_info
from laser.engines.sqlite.transaction import Transaction
from laser.errors import InvalidError, LimitError, NotFoundError, StorageError, UnsupportedError
from laser.limits import MAX_PARTITIONS
from laser.model.topics import DURABILITIES, TopicConfig, TopicInfo

__all__ = ["DEFAULT_DURABILITY", "add_partitions", "check_config", "delete_topic", "ensure_topic", "purge"]

DEFAULT_DURABILITY: Final = "process"
_MAX_U32: Final = 2**32 - 1
# A partition's key takes the bits of a signed 64-bit row id that its offsets leave.
_MAX_KEY: Final = 2**23 - 1


def check_config(config: TopicConfig) -> None:
    """Refuses what no topic can have.

    Raises:
        InvalidError, LimitError: a number of partitions. UnsupportedError: a durability.
    """
    if config.partitions < 1:
        raise InvalidError(f"partitions: {config.partitions} is not 1 or more", argument="partitions")
    if config.partitions > MAX_PARTITIONS:
        raise _too_many(config.partitions, "partitions")
    if config.durability is not None and config.durability not in DURABILITIES:
        raise UnsupportedError(f"durability: {config.durability!r} is not one of {', '.join(DURABILITIES)}")


def ensure_topic(tx: Transaction, stream: str, topic: str, config: TopicConfig) -> TopicInfo:
    """Creates the stream and topic where absent, and returns the topic as it is."""
    try:
        return _info(tx, tx.topic(stream, topic))
    except NotFoundError:
        tx.require_power()
    db = tx.connection
    row = db.execute("SELECT id FROM streams WHERE name = ?", (stream,)).fetchone()
    if row is None:
        cursor = db.execute("INSERT INTO streams (name, created_at) VALUES (?, ?)", (stream, tx.creation_time()))
        stream_id = _id(tx, cursor.lastrowid)
    else:
        (stream_id,) = row
    retention = config.retention
    cursor = db.execute(
        "INSERT INTO topics (stream_id, name, created_at, expire_micros, max_size, durability, partitions) "
        "VALUES (?, ?, ?, ?, ?, ?, 0)",
        (
            stream_id,
            topic,
            tx.creation_time(),
            None if retention is None else retention.expire_micros,
            None if retention is None else retention.max_size,
            config.durability or DEFAULT_DURABILITY,
        ),
    )
    _grow(tx, _id(tx, cursor.lastrowid), 0, config.partitions)
    return _info(tx, tx.topic(stream, topic))


def add_partitions(tx: Transaction, stream: str, topic: str, count: int) -> TopicInfo:
    """Adds partitions at the end."""
    row = tx.topic(stream, topic)
    if row.partitions + count > MAX_PARTITIONS:
        raise _too_many(row.partitions + count, "count")
    tx.require_power()
    _grow(tx, row.id, row.partitions, count)
    return _info(tx, tx.topic(stream, topic))


def purge(tx: Transaction, stream: str, topic: str) -> None:
    """Removes every record. The partitions get new keys, under which offsets start at 0."""
    row = tx.topic(stream, topic)
    tx.require_power()
    key = _next_key(tx, row.partitions)
    for part in load_partitions(tx.connection, row.id):
        retire_partition(tx.connection, part)
        tx.connection.execute(
            "UPDATE partitions SET key = ?, first = 0, first_total = 0, last_ts = ? WHERE topic_id = ? AND id = ?",
            (key, part.last_ts, row.id, part.id),
        )
        key += 1
    tx.forget()


def delete_topic(tx: Transaction, stream: str, topic: str) -> None:
    """Removes a topic with its records."""
    row = tx.topic(stream, topic)
    tx.require_power()
    for part in load_partitions(tx.connection, row.id):
        retire_partition(tx.connection, part)
    tx.connection.execute("DELETE FROM partitions WHERE topic_id = ?", (row.id,))
    tx.connection.execute("DELETE FROM topics WHERE id = ?", (row.id,))
    tx.forget()


def _grow(tx: Transaction, topic_id: int, have: int, count: int) -> None:
    key, created_at = _next_key(tx, count), tx.creation_time()
    tx.connection.executemany(
        "INSERT INTO partitions (topic_id, id, key, created_at, first, first_total, last_ts) "
        "VALUES (?, ?, ?, ?, 0, 0, 0)",
        [(topic_id, have + index, key + index, created_at) for index in range(count)],
    )
    tx.connection.execute("UPDATE topics SET partitions = ? WHERE id = ?", (have + count, topic_id))
    tx.forget()


def _next_key(tx: Transaction, count: int) -> int:
    (newest,) = tx.connection.execute(
        "SELECT max((SELECT ifnull(max(key), 0) FROM partitions), (SELECT ifnull(max(key), 0) FROM sweeps))"
    ).fetchone()
    if newest + count > _MAX_KEY:
        raise StorageError(f"{tx.path}: holds {newest} partitions, no more fit", path=tx.path)
    key: int = newest + 1
    return key


def _id(tx: Transaction, value: int | None) -> int:
    if value is None or value > _MAX_U32:
        raise StorageError(f"{tx.path}: no more streams or topics can be numbered", path=tx.path)
    return value


def _info(tx: Transaction, row: TopicRow) -> TopicInfo:
    return topic_info(row, load_partitions(tx.connection, row.id))


def _too_many(count: int, argument: str) -> LimitError:
    return LimitError(
        f"{argument}: {count} partitions, a topic has at most {MAX_PARTITIONS}",
        argument=argument,
        size=count,
        limit=MAX_PARTITIONS,
    )
