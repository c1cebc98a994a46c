"""The fold of one session's active context, kept up to date, and saved from time to time."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import anyio.to_thread
import msgspec

from laser.context.connection import Connection
from laser.context.stores import Store, TopicSnapshotStore
from laser.context.tail_fold import TailFold
from laser.errors import CodecError, LaserError, NotFoundError
from laser.model.messages import ContextMessage
from laser.model.snapshot import Snapshot
from laser.model.topics import AgentTopic, TopicInfo
from laser.session.active.events import ACTIVE_TOPIC, Opened, decode_active
from laser.session.active.fold import ActiveFold, Saved
from laser.session.active.state import ActiveState
from laser.session.gaps import check_beginning

__all__ = ["ActiveTail", "Outcome", "opens"]

_logger = logging.getLogger("laser.session")

_FOLD: Final = "laser.active"
_VERSION: Final = 1
_SAVE_EVERY: Final = 1_000
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


class ActiveTail(TailFold):
    """The context folded so far. Every thousand events it is saved to ``agent.snapshots``.

    Args:
        began: when the session's records began, microseconds since 1970 UTC by the log's clock.
        fresh: the session was started by this very handle: before it has events, none can be missing.

    Attributes:
        fold: the context now. awaited: by a record's id, what the log made of it; only of those that are in here.
    """

    def __init__(
        self, laser: Connection, conversation: str, began: Callable[[], Awaitable[int]], *, fresh: bool = False
    ) -> None:
        super().__init__(laser, conversation, ACTIVE_TOPIC, _FOLD, version=_VERSION)
        self._began = began
        self._fresh = fresh
        self._store: Store = TopicSnapshotStore(laser, _FOLD, version=_VERSION)
        self._since_save = 0
        self.fold = ActiveFold()
        self.awaited: dict[int, Outcome | None] = {}

    def begin(self) -> None:
        """See ``TailFold.begin``."""
        self.fold = ActiveFold()

    async def saved(self) -> Snapshot | None:
        """See ``TailFold.saved``. A snapshot that cannot be used costs time, never truth."""
        if self.awaited:
            # A snapshot of another process may hold what somebody here waits for, and does not say what became of it.
            return None
        snapshot = await self._store.latest(self._conversation)
        if snapshot is None or snapshot.version != _VERSION:
            return None
        try:
            if len(snapshot.state) < _INLINE_BYTES:
                self.fold = ActiveFold(_decode(snapshot.state))
            else:
                self.fold = ActiveFold(await anyio.to_thread.run_sync(_decode, snapshot.state))
        except msgspec.MsgspecError as error:
            _logger.warning("session %s: unreadable snapshot: %s", self._conversation, error)
            return None
        return snapshot

    async def take(self, messages: Sequence[ContextMessage], topic: TopicInfo) -> None:
        """See ``TailFold.take``."""
        for message in messages:
            await self.check_first(self.fold, topic, message)
            verdict = self.apply(self.fold, message)
            if message.record_id in self.awaited:
                self.awaited[message.record_id] = Outcome(verdict, self.fold.state())

    async def end(self, topic: TopicInfo | None) -> None:
        """See ``TailFold.end``."""
        await self.check_first(self.fold, topic, None)

    async def catch_up(self) -> int:
        """See ``TailFold.catch_up``."""
        taken = await super().catch_up()
        self._fresh = self._fresh and not self.fold.opened
        self._since_save += taken
        if self._since_save >= _SAVE_EVERY:
            await self._save()
        return taken

    def apply(self, fold: ActiveFold, message: ContextMessage) -> str | None:
        """Applies an event to a fold, and says why it changed nothing, if so."""
        try:
            return fold.apply(decode_active(message.payload), message.timestamp_micros)
        except CodecError as error:
            _logger.warning("session %s: event at %s: %s", self._conversation, message.id, error)
            return f"unreadable: {error}"

    async def check_first(self, fold: ActiveFold, topic: TopicInfo | None, message: ContextMessage | None) -> None:
        """Refuses a log that lacks a context's first event.

        Args:
            message: that the fold is about to take; ``None`` when there is no more.

        Raises:
            RetentionGapError: so it is.
        """
        if topic is None or fold.opened or (self._fresh if message is None else opens(message)):
            return
        parts = [part.id for part in topic.partitions] if message is None else [message.partition]
        began = self._began if message is None else None
        await check_beginning(self._laser.open_log(), self._laser.stream, topic, parts, began)

    async def _save(self) -> None:
        self._since_save = 0
        place, saved = self.place, self.fold.save()
        if place is None:
            return
        if len(saved.entries.entries) < _INLINE_ENTRIES:
            state = msgspec.json.encode(saved)
        else:
            state = await anyio.to_thread.run_sync(msgspec.json.encode, saved)
        try:
            await self._store.save(msgspec.structs.replace(place, state=state))
        except NotFoundError:
            # A stream without agent.snapshots folds from the beginning; that is slower and no less true.
            _logger.info("session %s: no topic %s to save to", self._conversation, AgentTopic.Snapshots)
        except LaserError as error:
            _logger.warning("session %s: the context was not saved: %s", self._conversation, error)


def opens(message: ContextMessage) -> bool:
    """Whether a message is the first event of a context."""
    try:
        return isinstance(decode_active(message.payload), Opened)
    except CodecError:
        return False


def _decode(state: bytes) -> Saved:
    return msgspec.json.decode(state, type=Saved)
