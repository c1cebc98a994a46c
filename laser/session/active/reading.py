"""The events of an active context: written to the log, and read back as contexts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import anyio.lowlevel

from laser.context.appending import build_provenance, build_record, with_lineage
from laser.context.connection import Connection
from laser.context.own_topics import append_to_own
from laser.context.replay import Replay
from laser.context.spans import look_up, spans_full
from laser.errors import AppendIndeterminateError, CodecError, StorageError
from laser.model.ids import new_record_id
from laser.model.messages import ContextMessage
from laser.model.provenance import Provenance
from laser.model.records import NewRecord
from laser.model.topics import TopicInfo
from laser.model.window import Match
from laser.models.fragments import FragmentCache
from laser.session.active.events import ACTIVE_TOPIC, Event, Opened, decode_active, encode_active
from laser.session.active.fold import ActiveFold
from laser.session.active.state import ActiveState
from laser.session.active.tail import ActiveTail, Outcome

__all__ = ["ActiveLog"]

_WRITE_TRIES: Final = 4
_CHUNK: Final = 256


class ActiveLog:
    """The events of one session's active context: written to the log, and folded from it.

    It goes on from what this handle has folded before, else from the newest snapshot on ``agent.snapshots``, else from
    the beginning.

    Args:
        began, fresh: see ``ActiveTail``.

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
        self._lock = anyio.Lock()
        self._tail = ActiveTail(laser, conversation, began, fresh=fresh)

    async def append(self, event: Event) -> Outcome:
        """Writes an event, and says what the log made of it."""
        record = self._record(event)
        async with self._lock:
            if not self._tail.is_whole:
                await self._tail.catch_up()
            opened = self._tail.fold.opened
        records = [record] if opened else [self._record(Opened()), record]
        awaited = self._tail.awaited
        awaited[record.id] = None
        try:
            await self._write(records)
            async with self._lock:
                await self._tail.catch_up()
            outcome = awaited[record.id]
        finally:
            del awaited[record.id]
        if outcome is None:
            # The log acknowledged the record and does not show it.
            raise StorageError(f"session {self.conversation}: an event is not on {ACTIVE_TOPIC} although it was kept")
        return outcome

    async def read(self) -> ActiveState:
        """The context, with everything that was on the log when this was called."""
        async with self._lock:
            await self._tail.catch_up()
            return self._tail.fold.state()

    async def at(self, revision: int) -> ActiveState | None:
        """The context at its last moment at a revision, replayed from the log's beginning; ``None`` if it never was."""
        fold, found = ActiveFold(), ActiveFold().state() if revision == 0 else None
        replay, topic = await self._replay()
        while fold.revision <= revision and (batch := await replay.next_batch(_CHUNK)) is not None:
            for message in batch:
                before = fold.save() if fold.revision == revision else None
                await self._tail.check_first(fold, topic, message)
                self._tail.apply(fold, message)
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
        replay, topic = await self._replay()
        while (batch := await replay.next_batch(_CHUNK)) is not None:
            for message in batch:
                await self._tail.check_first(fold, topic, message)
                try:
                    event = decode_active(message.payload)
                except CodecError:
                    continue
                each(event, message, fold.apply(event, message.timestamp_micros))
            await anyio.lowlevel.checkpoint()
        await self._tail.check_first(fold, topic, None)
        return fold.state()

    def _record(self, event: Event) -> NewRecord:
        lineage = None if self._lineage is None else with_lineage(self._lineage, None)
        provenance = build_provenance(self.conversation, ACTIVE_TOPIC, self._agent, lineage)
        return build_record(encode_active(event), provenance, new_record_id())

    async def _write(self, records: list[NewRecord]) -> None:
        log, stream, key = self._laser.open_log(), self._laser.stream, self.conversation
        in_doubt = False
        for attempt in range(1, _WRITE_TRIES + 1):
            try:
                # Once in doubt, looking first: what the log has already is not written twice.
                await append_to_own(log, stream, ACTIVE_TOPIC, records, key=key, find_first=in_doubt)
                return
            except AppendIndeterminateError:
                if attempt == _WRITE_TRIES:
                    raise
                in_doubt = True

    async def _replay(self) -> tuple[Replay, TopicInfo | None]:
        log, stream = self._laser.open_log(), self._laser.stream
        infos = await look_up(log, stream, [ACTIVE_TOPIC])
        spans = spans_full([ACTIVE_TOPIC], infos)
        return Replay(log, stream, Match(self.conversation), spans), infos.get(ACTIVE_TOPIC)
