"""Tail folds: what one topic says of one conversation, folded once and then only from where the last look ended."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final

import anyio.lowlevel

from laser.context.connection import Connection
from laser.context.replay import Replay
from laser.context.snapshots import resume_point, snapshot_of_spans
from laser.context.spans import Span, look_up, spans_from_checkpoint, spans_full
from laser.errors import LaserError, NotFoundError, RetentionGapError, StaleCheckpointError
from laser.model.messages import ContextMessage
from laser.model.snapshot import Snapshot
from laser.model.topics import TopicInfo
from laser.model.window import Match

__all__ = ["TailFold"]

_logger = logging.getLogger("laser.context")

_CHUNK: Final = 256
# Raw records of others after which the place is moved although nothing was taken: else each look would pass them again.
_FAR: Final = 4_096


class TailFold(ABC):
    """A fold that is kept in this process and brought up to date at each look. Not for several tasks at once.

    Where the log is another one than was folded (made anew, purged, cut short), or no longer holds what comes next, it
    begins anew: from what ``saved`` gives, else from the log's beginning. A subclass that cannot do without its
    beginning refuses a log that lacks it, in ``take`` and ``end``.

    A look that fails or is cancelled half-way is never gone on from: the next one begins anew, so that every message
    is taken once. When it had taken nothing yet, the fold stays as it was.

    Args:
        name, version: of the fold, as in snapshots. chunk: the most messages to take at once.

    Attributes:
        began: how often it began anew. anew_after: the errors of the log after which it does.
    """

    anew_after: ClassVar[tuple[type[LaserError], ...]] = (StaleCheckpointError, RetentionGapError, NotFoundError)

    def __init__(
        self, laser: Connection, conversation: str, topic: str, name: str, *, version: int = 1, chunk: int = _CHUNK
    ) -> None:
        self._laser = laser
        self._conversation = conversation
        self._topic = topic
        self._name = name
        self._version = version
        self._chunk = chunk
        self._whole = False
        self._at: Snapshot | None = None
        self._last_ids: dict[tuple[str, int], tuple[int, int | None]] = {}
        self.began = 0

    @abstractmethod
    def begin(self) -> None:
        """Forgets everything."""

    @abstractmethod
    async def take(self, messages: Sequence[ContextMessage], topic: TopicInfo) -> None:
        """Takes the next messages. topic: as it was when the look began."""

    async def saved(self) -> Snapshot | None:
        """Takes the fold as somebody saved it, and says up to where that goes; ``None`` where there is none."""
        return None

    async def end(self, topic: TopicInfo | None) -> None:  # noqa: B027 - most folds have nothing to do then
        """Everything was taken. topic: as when the look began, ``None`` where it is absent."""

    async def catch_up(self) -> int:
        """Takes everything that was on the log when this was called.

        Returns:
            How many messages it took.

        Raises:
            An error that is none of ``anew_after``, or one that stands however the fold begins.
        """
        if self._whole:
            try:
                return await self._go_on(self._at)
            except self.anew_after as error:
                self._warn(error)
        self._begin()
        start = await self.saved()
        if start is not None:
            try:
                return await self._go_on(start)
            except self.anew_after as error:
                self._warn(error)
                self._begin()
        return await self._go_on(None)

    @property
    def place(self) -> Snapshot | None:
        """How far it is, with a state that says nothing; ``None`` where there is no topic, or nothing to go on from."""
        return self._at if self._whole else None

    @property
    def is_whole(self) -> bool:
        """Whether it holds everything up to its place."""
        return self._whole

    def _begin(self) -> None:
        self._whole = False
        self._at = None
        self._last_ids.clear()
        self.began += 1
        self.begin()

    async def _go_on(self, start: Snapshot | None) -> int:
        log, stream, topics = self._laser.open_log(), self._laser.stream, [self._topic]
        infos = await look_up(log, stream, topics)
        info = infos.get(self._topic)
        spans = spans_full(topics, infos)
        if start is not None:
            spans = spans_from_checkpoint(topics, infos, resume_point(start, topics, infos, stream))
        replay = Replay(log, stream, Match(self._conversation), spans)
        taken = 0
        try:
            while (batch := await replay.next_batch(self._chunk)) is not None:
                assert info is not None
                taken += len(batch)
                await self.take(batch, info)
                await anyio.lowlevel.checkpoint()
            await self.end(info)
            if taken or start is None or replay.read > _FAR:
                start = await self._place_of(replay.positions())
        except BaseException:
            if taken:
                self._whole = False
            raise
        self._at, self._whole = start, True
        return taken

    async def _place_of(self, positions: Sequence[tuple[Span, int]]) -> Snapshot | None:
        return await snapshot_of_spans(
            self._laser.open_log(),
            self._laser.stream,
            self._conversation,
            self._name,
            self._version,
            positions,
            b"{}",
            None,
            self._last_ids,
        )

    def _warn(self, error: LaserError) -> None:
        _logger.warning("conversation %s: %s is folded anew: %s", self._conversation, self._topic, error)
