"""Following one topic of a session: what is new since the last look, or everything where the log is another one."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

import anyio.lowlevel

from laser.context.connection import Connection
from laser.context.replay import Replay
from laser.context.snapshots import resume_point, snapshot_of_spans
from laser.context.spans import look_up, spans_from_checkpoint, spans_full
from laser.errors import NotFoundError, RetentionGapError, StaleCheckpointError
from laser.model.messages import ContextMessage
from laser.model.snapshot import Snapshot
from laser.model.topics import TopicInfo
from laser.model.window import Match

__all__ = ["Following"]

_logger = logging.getLogger("laser.compaction")

_FOLD: Final = "laser.compaction"
_CHUNK: Final = 128


class Following(ABC):
    """What one topic says of one conversation, folded in this process. Not for several tasks at once."""

    def __init__(self, laser: Connection, conversation: str, topic: str) -> None:
        self._laser = laser
        self._conversation = conversation
        self._topic = topic
        self._at: Snapshot | None = None
        self._last_ids: dict[tuple[str, int], tuple[int, int | None]] = {}
        self.began = 0

    @abstractmethod
    def begin(self) -> None:
        """Forgets everything."""

    @abstractmethod
    def take(self, messages: Sequence[ContextMessage]) -> None:
        """Takes the next messages, few at a time."""

    @abstractmethod
    def trim(self, info: TopicInfo) -> None:
        """Lets go of what retention took from the topic."""

    async def catch_up(self) -> None:
        """Takes everything that was on the log when this was called.

        Cancelled in the middle, the next call begins anew: every message is taken once.
        """
        log, stream = self._laser.open_log(), self._laser.stream
        infos = await look_up(log, stream, [self._topic])
        try:
            replay = self._replay(infos)
            await self._run(replay)
        except (StaleCheckpointError, RetentionGapError, NotFoundError) as error:
            _logger.warning("session %s: %s is read anew: %s", self._conversation, self._topic, error)
            self._at = None
            self._last_ids.clear()
            infos = await look_up(log, stream, [self._topic])
            replay = self._replay(infos)
            await self._run(replay)
        info = infos.get(self._topic)
        if info is not None:
            self.trim(info)

    def _replay(self, infos: dict[str, TopicInfo]) -> Replay:
        log, stream = self._laser.open_log(), self._laser.stream
        topics = [self._topic]
        if self._at is None:
            self.began += 1
            self.begin()
            spans = spans_full(topics, infos)
        else:
            spans = spans_from_checkpoint(topics, infos, resume_point(self._at, topics, infos, stream))
        return Replay(log, stream, Match(self._conversation), spans)

    async def _run(self, replay: Replay) -> None:
        taken = 0
        try:
            while (batch := await replay.next_batch(_CHUNK)) is not None:
                taken += len(batch)
                self.take(batch)
                await anyio.lowlevel.checkpoint()
            if taken or self._at is None:
                self._at = await self._position(replay)
        except BaseException:
            if taken:
                # What was taken is not in the position: the next look begins anew, so that nothing is taken twice.
                self._at = None
            raise

    async def _position(self, replay: Replay) -> Snapshot | None:
        log, stream = self._laser.open_log(), self._laser.stream
        return await snapshot_of_spans(
            log, stream, self._conversation, _FOLD, 1, replay.positions(), b"{}", None, self._last_ids
        )
