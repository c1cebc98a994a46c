"""Snapshot stores: where snapshots are kept. Any object with ``latest`` and ``save`` is one."""

from __future__ import annotations

import hashlib
import inspect
import logging
from collections.abc import Awaitable
from typing import Any, Final, Protocol, runtime_checkable

from laser.context.connection import Connection
from laser.context.snapshot_scan import SnapshotFinder
from laser.context.snapshots import check_snapshot, check_version, still_fits
from laser.context.telemetry import observe
from laser.errors import CodecError, ConflictError, InvalidError, LimitError
from laser.limits import MAX_KV_NAMESPACE_BYTES, MAX_KV_VALUE_BYTES, MAX_SCAN_LIMIT
from laser.model.checks import check_name
from laser.model.ids import new_record_id, parse_conversation_id
from laser.model.records import NewRecord
from laser.model.snapshot import Snapshot
from laser.model.topics import AgentTopic
from laser.ports.kv import ABSENT, KeyValue, KvEntry
from laser.ports.log import Log
from laser.wire.snapshot import decode_snapshot, encode_snapshot

__all__ = ["KvSnapshotStore", "SnapshotBackend", "SnapshotStore", "TopicSnapshotStore", "as_store"]

_logger = logging.getLogger("laser.context")

_NAMESPACE: Final = "agent.snapshots"
_SAVE_TRIES: Final = 64


@runtime_checkable
class SnapshotBackend(Protocol):
    """What a store of your own implements. Both methods may be plain or async."""

    def latest(self, conversation: str) -> Snapshot | Awaitable[Snapshot | None] | None:
        """The snapshot to start from, ``None`` for none."""
        ...

    def save(self, snapshot: Snapshot) -> Awaitable[None] | None:
        """Keeps a snapshot. One that folded less than the latest must not become the latest."""
        ...


class SnapshotStore:
    """A store over a backend of your own.

    Attributes:
        fold, version: the fold that its snapshots are of, as the backend says; ``None`` where it does not.
    """

    def __init__(self, backend: SnapshotBackend) -> None:
        if isinstance(backend, type) or not isinstance(backend, SnapshotBackend):
            raise InvalidError(
                f"backend: {backend!r} has no latest(conversation) and save(snapshot)", argument="backend"
            )
        self._backend = backend
        self.fold: str | None = getattr(backend, "fold", None)
        self.version: int | None = getattr(backend, "version", None)

    async def latest(self, conversation: str) -> Snapshot | None:
        """The snapshot to start from, ``None`` for none."""
        found: Any = self._backend.latest(conversation)
        if inspect.isawaitable(found):
            found = await found
        if found is not None and not isinstance(found, Snapshot):
            raise InvalidError(
                f"backend: latest returned {type(found).__name__}; it must return a Snapshot or None",
                argument="backend",
            )
        return found

    async def save(self, snapshot: Snapshot) -> None:
        """Keeps a snapshot."""
        check_snapshot(snapshot)
        done: Any = self._backend.save(snapshot)
        if inspect.isawaitable(done):
            await done


class TopicSnapshotStore:
    """Snapshots as records of a topic, ``agent.snapshots`` by default. Needs nothing but the log.

    ``latest`` reads the topic backward from its end and looks at no more than the newest ``CONTEXT_READ_WINDOW``
    records of a partition, so give the topic a retention and save from time to time. The newest by place wins,
    unless one shortly before it folded more: two processes that save at once never take anything back.

    Args:
        fold: the name of the fold. version: of its code, from 1; a snapshot of another version is not used.
    """

    def __init__(self, laser: Connection, fold: str, *, version: int = 1) -> None:
        self._laser = laser
        self._topic: str = AgentTopic.Snapshots
        self._finder: tuple[Log, SnapshotFinder] | None = None
        self.fold = check_name(fold, "fold")
        self.version = check_version(version)

    @classmethod
    def on_topic(cls, laser: Connection, topic: str, fold: str, *, version: int = 1) -> TopicSnapshotStore:
        """A store on another topic, which must exist."""
        store = cls(laser, fold, version=version)
        store._topic = check_name(topic, "topic")
        return store

    async def latest(self, conversation: str) -> Snapshot | None:
        """The snapshot to start from, ``None`` for none."""
        with observe("snapshot.load", self._laser.stream, conversation, self._topic, fold=self.fold):
            return await self._latest(conversation)

    async def _latest(self, conversation: str) -> Snapshot | None:
        log, stream = self._laser.open_log(), self._laser.stream
        if self._finder is None or self._finder[0] is not log:
            self._finder = (log, SnapshotFinder(log, stream, self._topic, self.fold))
        found = await self._finder[1].newest(parse_conversation_id(conversation))
        # One of another version is no use, but tells the caller that there was one.
        usable = [snapshot for snapshot in found if snapshot.version == self.version] or found[:1]
        best: Snapshot | None = None
        for snapshot in usable:
            if best is None or await _leads(log, stream, snapshot, best):
                best = snapshot
        return best

    async def save(self, snapshot: Snapshot) -> None:
        """Appends a snapshot, keyed by its conversation, unless the latest one folded more.

        Raises:
            NotFoundError: the topic is absent.
        """
        check_snapshot(snapshot)
        with observe("snapshot.save", self._laser.stream, snapshot.conversation, self._topic, fold=self.fold):
            await self._save(snapshot)

    async def _save(self, snapshot: Snapshot) -> None:
        log, stream = self._laser.open_log(), self._laser.stream
        record = NewRecord(new_record_id(), encode_snapshot(snapshot))
        there = await self._latest(snapshot.conversation)
        if there is not None and there.version == snapshot.version and await _leads(log, stream, there, snapshot):
            return
        await log.append(stream, self._topic, (record,), key=parse_conversation_id(snapshot.conversation))

    def __repr__(self) -> str:
        return f"TopicSnapshotStore({self._topic!r}, fold={self.fold!r}, version={self.version})"


class KvSnapshotStore:
    """Snapshots in the client's key-value store, one for each stream, conversation and fold.

    A save replaces the snapshot unless the one there folded more. With ``keep`` above 1, that many are kept for
    people to look at; the oldest are removed.

    Args:
        fold: the name of the fold. version: of its code, from 1; a snapshot of another version is not used.
    """

    def __init__(self, laser: Connection, fold: str, *, version: int = 1, keep: int = 1) -> None:
        if type(keep) is not int or keep < 1:
            raise InvalidError(f"keep: {keep!r} is not a whole number from 1", argument="keep")
        self._laser = laser
        self._namespace = _NAMESPACE
        self._keep = keep
        self.fold = check_name(fold, "fold")
        self.version = check_version(version)

    @classmethod
    def in_namespace(
        cls, laser: Connection, namespace: str, fold: str, *, version: int = 1, keep: int = 1
    ) -> KvSnapshotStore:
        """A store in another namespace of the key-value store, 1 to ``MAX_KV_NAMESPACE_BYTES`` bytes."""
        store = cls(laser, fold, version=version, keep=keep)
        store._namespace = check_name(namespace, "namespace")
        _check_size(len(namespace.encode()), MAX_KV_NAMESPACE_BYTES, "namespace")
        return store

    async def latest(self, conversation: str) -> Snapshot | None:
        """The snapshot to start from, ``None`` for none or when the one there cannot be read (with a warning)."""
        with observe("snapshot.load", self._laser.stream, conversation, fold=self.fold):
            entry = await (await self._laser.open_kv()).get(self._namespace, self._key(conversation))
            return None if entry is None else _read(entry)

    async def save(self, snapshot: Snapshot) -> None:
        """Keeps a snapshot, unless the one there folded more.

        Raises:
            LimitError: it has more than ``MAX_KV_VALUE_BYTES`` bytes. ConflictError: other processes saved all the
                while.
        """
        check_snapshot(snapshot)
        with observe("snapshot.save", self._laser.stream, snapshot.conversation, fold=self.fold):
            await self._save(snapshot)

    async def _save(self, snapshot: Snapshot) -> None:
        kv = await self._laser.open_kv()
        log, stream = self._laser.open_log(), self._laser.stream
        key = self._key(snapshot.conversation)
        data = encode_snapshot(snapshot)
        _check_size(len(data), MAX_KV_VALUE_BYTES, "snapshot")
        for _ in range(_SAVE_TRIES):
            entry = await kv.get(self._namespace, key)
            there = None if entry is None else _read(entry)
            if there is not None and there.version == snapshot.version and await _leads(log, stream, there, snapshot):
                return
            try:
                version = await kv.set(self._namespace, key, data, expect=ABSENT if entry is None else entry.version)
            except ConflictError:
                continue
            if self._keep > 1:
                await self._remember(kv, snapshot, data, version)
            return
        raise ConflictError(f"snapshot of {snapshot.conversation}: lost {_SAVE_TRIES} saves to other processes")

    async def _remember(self, kv: KeyValue, snapshot: Snapshot, data: bytes, version: int) -> None:
        # No key of a latest snapshot begins like this, nor does that of another fold, whatever is in its name.
        past = f"{parse_conversation_id(snapshot.conversation)}.past/{self._owner()}/{len(self.fold)}:{self.fold}/"
        await kv.set(self._namespace, f"{past}{version:020d}", data)
        keys: list[str] = []
        after: str | None = None
        while True:
            page = await kv.scan(self._namespace, prefix=past, after=after, limit=MAX_SCAN_LIMIT)
            keys += (entry.key for entry in page.entries)
            after = page.next
            if after is None:
                break
        for key in keys[: -self._keep]:
            await kv.delete(self._namespace, key)

    def _key(self, conversation: str) -> str:
        return f"{parse_conversation_id(conversation)}/{self._owner()}/{self.fold}"

    def _owner(self) -> str:
        # Streams that share a store can have the same conversation ids; a name of 255 bytes would be too long a key.
        return hashlib.blake2b(self._laser.stream.encode(), digest_size=16).hexdigest()

    def __repr__(self) -> str:
        return f"KvSnapshotStore({self._namespace!r}, fold={self.fold!r}, version={self.version})"


Store = SnapshotStore | TopicSnapshotStore | KvSnapshotStore


def as_store(store: Store | SnapshotBackend) -> Store:
    """A store, made from a backend where need be.

    Raises:
        InvalidError: neither.
    """
    if isinstance(store, SnapshotStore | TopicSnapshotStore | KvSnapshotStore):
        return store
    if isinstance(store, type) or not isinstance(store, SnapshotBackend):
        raise InvalidError(f"store: {store!r} has no latest(conversation) and save(snapshot)", argument="store")
    return SnapshotStore(store)


def _read(entry: KvEntry) -> Snapshot | None:
    try:
        return decode_snapshot(entry.value)
    except CodecError as error:
        _logger.warning("snapshot %s cannot be read and is passed over: %s", entry.key, error)
        return None


async def _leads(log: Log, stream: str, one: Snapshot, other: Snapshot) -> bool:
    """Whether a snapshot folded more than another one, of a log that is still there.

    After a purge the old snapshots have the larger offsets: without a look at the log they would win for ever.
    """
    return one.covers(other) and not other.covers(one) and await still_fits(log, stream, one)


def _check_size(size: int, limit: int, argument: str) -> None:
    if size > limit:
        raise LimitError(
            f"{argument}: has {size} bytes, allowed are {limit}", argument=argument, size=size, limit=limit
        )
