"""What of a session lies before a moment: its messages, and the events of its active context."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from laser.context.connection import Connection
from laser.context.replay import Replay
from laser.context.resume import record_at
from laser.context.spans import Span, look_up, spans_at, spans_full
from laser.errors import InvalidError, NotFoundError
from laser.model.checkpoint import Checkpoint
from laser.model.messages import ContextMessage
from laser.model.topics import AgentTopic
from laser.model.window import Match
from laser.session.active.events import ACTIVE_TOPIC
from laser.session.active.tail import opens
from laser.session.gaps import check_beginning

__all__ = ["Cut"]

_MESSAGES: Final = AgentTopic.Sessions
_BATCH_RECORDS: Final = 500

Take = Callable[[Sequence[ContextMessage]], Awaitable[None]]


class Cut:
    """What of a session lies before a moment."""

    def __init__(
        self,
        laser: Connection,
        conversation: str,
        messages: Sequence[Span],
        events: Sequence[Span],
        last: ContextMessage | None = None,
        before_micros: int | None = None,
    ) -> None:
        self._laser = laser
        self._match = Match(conversation)
        self._messages = messages
        self._events = events
        self._last = last
        self._before_micros = before_micros

    @classmethod
    async def at(cls, laser: Connection, conversation: str, moment: ContextMessage | Checkpoint | None) -> Cut:
        """What lies before a moment; see ``Session.fork``.

        Raises:
            InvalidError: no moment of the session. StaleCheckpointError: a checkpoint of another log.
        """
        log, stream = laser.open_log(), laser.stream
        infos = await look_up(log, stream, [_MESSAGES, ACTIVE_TOPIC])
        messages, events = spans_full([_MESSAGES], infos), spans_full([ACTIVE_TOPIC], infos)
        if moment is None:
            return cls(laser, conversation, messages, events)
        if isinstance(moment, ContextMessage):
            if moment.topic != _MESSAGES or moment.provenance.conversation_id != conversation:
                raise InvalidError(
                    f"at: message {moment.id} of {moment.topic!r} is none of session {conversation} on {_MESSAGES!r}",
                    argument="at",
                )
            return cls(laser, conversation, messages, events, moment, moment.timestamp_micros + 1)
        if not isinstance(moment, Checkpoint):
            raise InvalidError(
                f"at: expected a ContextMessage, a Checkpoint or None, got {type(moment).__name__}", argument="at"
            )
        if moment.topic_offsets(_MESSAGES) is None:
            raise InvalidError(f"at: the checkpoint does not cover {_MESSAGES!r}", argument="at")
        messages = await spans_at(log, stream, [_MESSAGES], moment)
        if moment.topic_offsets(ACTIVE_TOPIC) is not None:
            return cls(laser, conversation, messages, await spans_at(log, stream, [ACTIVE_TOPIC], moment))
        after = [await record_at(log, stream, _MESSAGES, span.partition, span.stop) for span in messages]
        times = [record.timestamp_micros for record in after if record is not None]
        return cls(laser, conversation, messages, events, before_micros=min(times, default=None))

    async def messages(self, take: Take, began: int, *, partial: bool) -> int:
        """Gives out the messages, in batches, and returns how many there were.

        Args:
            began: when the session's records began, microseconds since 1970 UTC. partial: without the oldest will do.

        Raises:
            NotFoundError: the message that is the moment is gone. RetentionGapError: others are.
        """
        replay = self._replay(self._messages)
        count = 0
        seen: set[int] = set()
        found = self._last is None
        while (batch := await replay.next_batch(_BATCH_RECORDS)) is not None:
            fresh = {message.partition for message in batch} - seen
            if fresh and not partial:
                await self._check(self._messages, fresh, began)
            seen |= fresh
            place = next((place for place, one in enumerate(batch) if self._is_last(one)), None)
            found = found or place is not None
            kept = batch if place is None else batch[: place + 1]
            await take(kept)
            count += len(kept)
            if place is not None:
                break
        if not found:
            assert self._last is not None
            raise NotFoundError(f"at: message {self._last.id} is not on {_MESSAGES!r} any more", topic=_MESSAGES)
        if not partial and not seen:
            await self._check(self._messages, {span.partition for span in self._messages}, began)
        return count

    async def events(self, take: Take, began: int) -> int:
        """Gives out the events of the active context, as ``messages`` does.

        Raises:
            RetentionGapError: some are gone.
        """
        replay = self._replay(self._events)
        first, count = True, 0
        while (batch := await replay.next_batch(_BATCH_RECORDS)) is not None:
            if first and not opens(batch[0]):
                await self._check(self._events, {batch[0].partition}, None)
            first = False
            kept = [one for one in batch if self._before_micros is None or one.timestamp_micros < self._before_micros]
            if kept:
                await take(kept)
                count += len(kept)
            if len(kept) < len(batch):
                break
        if first:
            await self._check(self._events, {span.partition for span in self._events}, began)
        return count

    def _replay(self, spans: Sequence[Span]) -> Replay:
        return Replay(self._laser.open_log(), self._laser.stream, self._match, spans)

    def _is_last(self, message: ContextMessage) -> bool:
        last = self._last
        return last is not None and (message.partition, message.offset) == (last.partition, last.offset)

    async def _check(self, spans: Sequence[Span], partitions: set[int], began: int | None) -> None:
        async def known() -> int:
            assert began is not None
            return began

        if spans:
            await check_beginning(
                self._laser.open_log(),
                self._laser.stream,
                spans[0].topic,
                partitions,
                None if began is None else known,
            )
