"""Reading an active context: from a snapshot and the tail of the log, or from the log's beginning."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import anyio.to_thread
import msgspec

from laser.context.appending import build_provenance, build_record, with_lineage
from laser.context.connection import Connection
from laser.context.replay import Replay
from laser.context.snapshots import resume_point, snapshot_of_spans
from laser.context.spans import look_up, spans_from_checkpoint, spans_full
from laser.context.stores import Store, TopicSnapshotStore
from laser.errors import (
    AppendIndeterminateError,
    CodecError,
    LaserError,
    NotFoundError,
    StaleCheckpointError,
    StorageError,
)
from laser.model.ids import new_record_id
from laser.model.messages import ContextMessage
from laser.model.provenance import Provenance
from laser.model.records import NewRecord
from laser.model.snapshot import Snapshot
from laser.model.topics import AgentTopic, TopicConfig
from laser.model.window import Match
from laser.models.fragments import FragmentCache
from laser.session.active.events import ACTIVE_TOPIC, Event, Opened, decode_active, encode_active
from laser.session.active.fold import ActiveFold, Saved
from laser.session.active.state import ActiveState
from laser.session.gaps import check_beginning

__all__ = ["ActiveLog", "Outcome"]

_logger = logging.getLogger("laser.session")

_FOLD: Final = "laser.active"
_VERSION: Final = 1
_PARTITIONS: Final = 4
_WRITE_TRIES: Final = 4
_SAVE_EVERY: Final = 1_000
_APPLY_CHUNK: Final = 256
# A larger state is encoded and decoded in a worker thread: it would hold up the event loop for milliseconds.
_INLINE_ENTRIES: Final = 500
_INLINE_BYTES: Final = 128 * 1024


class Outcome(msgspec.Struct, frozen=True):
    """What the log made of an event.

    Attributes:
        verdict: ``None``, or why it changed nothing. state: the context right after it, whatever came later.
    """

    verdict: str | None
    state: ActiveState


class ActiveLog:
    """The events of one session's active context: written to the log, and folded from it.

    It goes on from what this handle has folded before, else from the newest snapshot on ``agent.snapshots``, else from
    the beginning; a snapshot that cannot be used costs time, never truth. Every thousand events it saves one.

    Args:
        began: when the session's records began, microseconds since 1970 UTC by the log's clock.
        fresh: the session was started by this very handle: before it has events, none can be missing.

    Attributes:
        conversation: the session's. fragments: what its requests were lowered from before.
    """

    def __init__(
        self,
        laser: Connection,
        conversation: str,
        lineage: Provenance | None,
        agent: str | None,
        began: Callable[[], Awaitable[int]],
        *,
        fresh: bool = False,
    ) -> None:
        self._laser = laser
        self.conversation = conversation
        self.fragments = FragmentCache()
        self._lineage = lineage
        self._agent = agent
        self._began = began
        self._fresh = fresh
        self._store: Store = TopicSnapshotStore(laser, _FOLD, version=_VERSION)
        self._lock = anyio.Lock()
        self._fold: ActiveFold | None = None
        self._at: Snapshot | None = None
        self._last_ids: dict[tuple[str, int], tuple[int, int | None]] = {}
        self._since_save = 0
        self._awaited: dict[int, Outcome | None] = {}

    async def append(self, event: Event) -> Outcome:
        """Writes an event, and says what the log made of it."""
        record = self._record(event)
        async with self._lock:
            fold = self._fold or await self._catch_up()
        records = [record] if fold.opened else [self._record(Opened()), record]
        self._awaited[record.id] = None
        try:
            await self._write(records)
            async with self._lock:
                await self._catch_up()
            outcome = self._awaited[record.id]
        finally:
            del self._awaited[record.id]
        if outcome is None:
            # The log acknowledged the record and does not show it.
            raise StorageError(f"session {self.conversation}: an event is not on {ACTIVE_TOPIC} although it was kept")
        return outcome

    async def read(self) -> ActiveState:
        """The context, with everything that was on the log when this was called."""
        async with self._lock:
            return (await self._catch_up()).state()

    async def at(self, revision: int) -> ActiveState | None:
        """The context at its last moment at a revision, replayed from the log's beginning; ``None`` if it never was."""
        fold, found = ActiveFold(), ActiveFold().state() if revision == 0 else None
        replay = await self._replay(None)
        while fold.revision <= revision and (batch := await replay.next_batch(_APPLY_CHUNK)) is not None:
            for message in batch:
                before = fold.save() if fold.revision == revision else None
                await self._check_first(fold, replay, message)
                self._apply(fold, message)
                if fold.revision > revision:
                    found = ActiveFold(before).state() if before is not None else found
                    break
            await anyio.lowlevel.checkpoint()
        return fold.state() if fold.revision == revision else found

    async def replay(self, each: Callable[[Event, ContextMessage, str | None], None]) -> ActiveState:
        """Gives out every event from the log's beginning, with why it changed nothing, and returns the context.

        Raises:
            RetentionGapError: events are gone.
        """
        fold = ActiveFold()
        replay = await self._replay(None)
        while (batch := await replay.next_batch(_APPLY_CHUNK)) is not None:
            for message in batch:
                await self._check_first(fold, replay, message)
                try:
                    event = decode_active(message.payload)
                except CodecError:
                    continue
                each(event, message, fold.apply(event, message.timestamp_micros))
            await anyio.lowlevel.checkpoint()
        await self._check_first(fold, replay, None)
        return fold.state()

    # ------------------------------------------------------------------------------------------------ writing

    def _record(self, event: Event) -> NewRecord:
        lineage = None if self._lineage is None else with_lineage(self._lineage, None)
        provenance = build_provenance(self.conversation, ACTIVE_TOPIC, self._agent, lineage)
        return build_record(encode_active(event), provenance, new_record_id())

    async def _write(self, records: list[NewRecord]) -> None:
        log, stream = self._laser.open_log(), self._laser.stream
        in_doubt = False
        for attempt in range(1, _WRITE_TRIES + 1):
            try:
                # Once in doubt, looking first: what the log has already is not written twice.
                await log.append(stream, ACTIVE_TOPIC, records, key=self.conversation, find_first=in_doubt)
                return
            except NotFoundError:
                if attempt == _WRITE_TRIES:
                    raise
                await log.ensure_topic(stream, ACTIVE_TOPIC, TopicConfig(_PARTITIONS))
            except AppendIndeterminateError:
                if attempt == _WRITE_TRIES:
                    raise
                in_doubt = True

    # ------------------------------------------------------------------------------------------------ reading

    async def _catch_up(self) -> ActiveFold:
        # Taken out while it is folded into: a fold that was cancelled half-way must not be gone on from.
        fold, start = self._fold, self._at
        self._fold = self._at = None
        if fold is None:
            fold, start = await self._saved()
        try:
            replay = await self._replay(start)
            applied = await self._run(replay, fold)
        except StaleCheckpointError as error:
            # The log is another one than was folded: a topic made anew, or cut short.
            _logger.warning("session %s: the active context is folded anew: %s", self.conversation, error)
            self._last_ids.clear()
            start, fold = None, ActiveFold()
            replay = await self._replay(None)
            applied = await self._run(replay, fold)
        if applied or start is None:
            start = await self._snapshot(replay, b"{}")
        self._fold, self._at = fold, start
        self._fresh = self._fresh and not fold.opened
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
        return Replay(log, stream, Match(self.conversation), spans)

    async def _run(self, replay: Replay, fold: ActiveFold) -> int:
        applied = 0
        while (batch := await replay.next_batch(_APPLY_CHUNK)) is not None:
            for message in batch:
                await self._check_first(fold, replay, message)
                self._apply(fold, message)
            applied += len(batch)
            await anyio.lowlevel.checkpoint()
        if not fold.opened:
            await self._check_first(fold, replay, None)
        return applied

    async def _check_first(self, fold: ActiveFold, replay: Replay, message: ContextMessage | None) -> None:
        """Refuses a log that lacks a context's first event.

        Raises:
            RetentionGapError: so it is.
        """
        if fold.opened or (self._fresh if message is None else _opens(message)):
            return
        spans = [span for span, _ in replay.positions()]
        log, stream = self._laser.open_log(), self._laser.stream
        if spans:
            parts = [span.partition for span in spans] if message is None else [message.partition]
            began = self._began if message is None else None
            await check_beginning(log, stream, spans[0].topic, parts, began)

    def _apply(self, fold: ActiveFold, message: ContextMessage) -> None:
        try:
            verdict = fold.apply(decode_active(message.payload), message.timestamp_micros)
        except CodecError as error:
            verdict = f"unreadable: {error}"
            _logger.warning("session %s: event at %s: %s", self.conversation, message.id, error)
        if message.record_id in self._awaited:
            self._awaited[message.record_id] = Outcome(verdict, fold.state())

    # ------------------------------------------------------------------------------------------------ snapshots

    async def _saved(self) -> tuple[ActiveFold, Snapshot | None]:
        snapshot = await self._store.latest(self.conversation)
        if snapshot is None or snapshot.version != _VERSION:
            return ActiveFold(), None
        try:
            if len(snapshot.state) < _INLINE_BYTES:
                return ActiveFold(_decode(snapshot.state)), snapshot
            return ActiveFold(await anyio.to_thread.run_sync(_decode, snapshot.state)), snapshot
        except msgspec.MsgspecError as error:
            _logger.warning("session %s: unreadable snapshot: %s", self.conversation, error)
            return ActiveFold(), None

    async def _save(self, replay: Replay, fold: ActiveFold) -> None:
        saved = fold.save()
        if len(saved.entries.entries) < _INLINE_ENTRIES:
            state = msgspec.json.encode(saved)
        else:
            state = await anyio.to_thread.run_sync(msgspec.json.encode, saved)
        snapshot = await self._snapshot(replay, state)
        self._since_save = 0
        if snapshot is None:
            return
        try:
            await self._store.save(snapshot)
        except NotFoundError:
            # A stream without agent.snapshots folds from the beginning; that is slower and no less true.
            _logger.info("session %s: no topic %s to save to", self.conversation, AgentTopic.Snapshots)
        except LaserError as error:
            _logger.warning("session %s: the context was not saved: %s", self.conversation, error)

    async def _snapshot(self, replay: Replay, state: bytes) -> Snapshot | None:
        log, stream = self._laser.open_log(), self._laser.stream
        return await snapshot_of_spans(
            log, stream, self.conversation, _FOLD, _VERSION, replay.positions(), state, None, self._last_ids
        )


def _decode(state: bytes) -> Saved:
    return msgspec.json.decode(state, type=Saved)


def _opens(message: ContextMessage) -> bool:
    try:
        return isinstance(decode_active(message.payload), Opened)
    except CodecError:
        return False
