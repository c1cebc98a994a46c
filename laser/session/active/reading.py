"""Reading an active context: from a snapshot and the tail of the log, or from the log's beginning."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Final

import anyio
import msgspec

from laser.context.connection import Connection
from laser.context.replay import Replay
from laser.context.snapshots import resume_point, snapshot_of_spans
from laser.context.spans import look_up, spans_from_checkpoint, spans_full
from laser.context.stores import Store, TopicSnapshotStore
from laser.errors import CodecError, LaserError, NotFoundError, StaleCheckpointError
from laser.model.ids import new_record_id
from laser.model.messages import ContextMessage
from laser.model.snapshot import Snapshot
from laser.model.topics import AgentTopic, TopicConfig
from laser.model.window import Match
from laser.session.active.events import ACTIVE_TOPIC, Event, decode_active, encode_active
from laser.session.active.fold import ActiveFold, Saved
from laser.session.scope import ContextScope

__all__ = ["ActiveLog"]

_logger = logging.getLogger("laser.session")

_FOLD: Final = "laser.active"
_VERSION: Final = 1
_PARTITIONS: Final = 4
_SAVE_EVERY: Final = 1_000
_VERDICTS: Final = 1_024
_APPLY_CHUNK: Final = 256


class ActiveLog:
    """The events of one session's active context: written to the log, and folded from it.

    It goes on from what this handle has folded before, else from the newest snapshot on ``agent.snapshots``, else from
    the beginning; a snapshot that cannot be used costs time, never truth. Every thousand events it saves one.
    """

    def __init__(self, laser: Connection, scope: ContextScope, agent: str | None) -> None:
        self._laser = laser
        self._scope = scope
        self._agent = agent
        self._store: Store = TopicSnapshotStore(laser, _FOLD, version=_VERSION)
        self._lock = anyio.Lock()
        self._fold: ActiveFold | None = None
        self._at: Snapshot | None = None
        self._last_ids: dict[tuple[str, int], tuple[int, int | None]] = {}
        self._since_save = 0
        self._verdicts: OrderedDict[int, str | None] = OrderedDict()

    async def append(self, event: Event) -> str | None:
        """Writes an event, and says what the log made of it: ``None``, or why it changed nothing."""
        payload, record = encode_active(event), new_record_id()
        try:
            await self._scope.append(ACTIVE_TOPIC, payload, agent=self._agent, id=record)
        except NotFoundError:
            await self._laser.open_log().ensure_topic(self._laser.stream, ACTIVE_TOPIC, TopicConfig(_PARTITIONS))
            await self._scope.append(ACTIVE_TOPIC, payload, agent=self._agent, id=record)
        async with self._lock:
            await self._catch_up()
            return self._verdicts.get(record)

    async def read(self) -> ActiveFold:
        """The fold, with everything that was on the log when this was called. Not to be changed."""
        async with self._lock:
            return await self._catch_up()

    async def at(self, revision: int) -> ActiveFold | None:
        """The fold at its last moment at a revision, replayed from the log's beginning; ``None`` if it never was."""
        fold, found = ActiveFold(), Saved() if revision == 0 else None
        replay = await self._replay(None)
        while fold.revision <= revision and (batch := await replay.next_batch(_APPLY_CHUNK)) is not None:
            for message in batch:
                self._apply(fold, message, note=False)
                if fold.revision > revision:
                    break
                if fold.revision == revision:
                    found = fold.save()
            await anyio.lowlevel.checkpoint()
        return None if found is None else ActiveFold(found)

    async def _catch_up(self) -> ActiveFold:
        fold, start = self._fold, self._at
        if fold is None:
            fold, start = await self._saved()
        try:
            replay = await self._replay(start)
            applied = await self._run(replay, fold)
        except StaleCheckpointError as error:
            # The log is another one than was folded: a topic made anew, or cut short.
            _logger.warning("session %s: the active context is folded anew: %s", self._scope.conversation, error)
            self._verdicts.clear()
            self._last_ids.clear()
            fold = ActiveFold()
            replay = await self._replay(None)
            applied = await self._run(replay, fold)
        if applied or self._at is None:
            self._at = await self._snapshot(replay, b"{}")
        self._fold = fold
        self._since_save += applied
        if self._since_save >= _SAVE_EVERY:
            await self._save(replay, fold)
        return fold

    async def _replay(self, start: Snapshot | None) -> Replay:
        log, stream = self._laser.open_log(), self._laser.stream
        infos = await look_up(log, stream, [ACTIVE_TOPIC])
        if start is None:
            spans = spans_full([ACTIVE_TOPIC], infos)
        else:
            spans = spans_from_checkpoint([ACTIVE_TOPIC], infos, resume_point(start, [ACTIVE_TOPIC], infos, stream))
        return Replay(log, stream, Match(self._scope.conversation), spans)

    async def _run(self, replay: Replay, fold: ActiveFold) -> int:
        applied = 0
        while (batch := await replay.next_batch(_APPLY_CHUNK)) is not None:
            for message in batch:
                self._apply(fold, message, note=True)
            applied += len(batch)
            await anyio.lowlevel.checkpoint()
        return applied

    def _apply(self, fold: ActiveFold, message: ContextMessage, *, note: bool) -> None:
        try:
            verdict = fold.apply(decode_active(message.payload))
        except CodecError as error:
            verdict = f"unreadable: {error}"
            _logger.warning("session %s: event at %s: %s", self._scope.conversation, message.id, error)
        if note:
            self._verdicts[message.record_id] = verdict
            if len(self._verdicts) > _VERDICTS:
                self._verdicts.popitem(last=False)

    async def _saved(self) -> tuple[ActiveFold, Snapshot | None]:
        snapshot = await self._store.latest(self._scope.conversation)
        if snapshot is None or snapshot.version != _VERSION:
            return ActiveFold(), None
        try:
            return ActiveFold(msgspec.json.decode(snapshot.state, type=Saved)), snapshot
        except msgspec.MsgspecError as error:
            _logger.warning("session %s: unreadable snapshot: %s", self._scope.conversation, error)
            return ActiveFold(), None

    async def _save(self, replay: Replay, fold: ActiveFold) -> None:
        snapshot = await self._snapshot(replay, msgspec.json.encode(fold.save()))
        self._since_save = 0
        if snapshot is None:
            return
        try:
            await self._store.save(snapshot)
        except NotFoundError:
            # A stream without agent.snapshots folds from the beginning; that is slower and no less true.
            _logger.info("session %s: no topic %s to save to", self._scope.conversation, AgentTopic.Snapshots)
        except LaserError as error:
            _logger.warning("session %s: the context was not saved: %s", self._scope.conversation, error)

    async def _snapshot(self, replay: Replay, state: bytes) -> Snapshot | None:
        log, stream = self._laser.open_log(), self._laser.stream
        return await snapshot_of_spans(
            log, stream, self._scope.conversation, _FOLD, _VERSION, replay.positions(), state, None, self._last_ids
        )
