"""What a session's strategies have saved, folded from the log."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from laser.compaction.events import COMPACTION_TOPIC, Event, Failed, Saved, Switched, decode_event, encode_event
from laser.context.connection import Connection
from laser.context.own_topics import in_own_topic
from laser.context.scope import ConversationScope
from laser.context.tail_fold import TailFold
from laser.errors import CodecError
from laser.model.ids import new_record_id
from laser.model.messages import ContextMessage
from laser.model.topics import TopicInfo

__all__ = ["CompactionStep", "SavedState"]

_logger = logging.getLogger("laser.compaction")

_FOLD: Final = "laser.compaction"
_CHUNK: Final = 128
_VERDICTS: Final = 1_024
UNCHOSEN: Final = ""
"""The strategy of a session that nobody chose one for."""


class CompactionStep(msgspec.Struct, frozen=True):
    """One step in a session's compaction history.

    Attributes:
        at_micros: the broker's time. strategy: whose; ``None`` for a switch to none.
        kind: ``switched``, ``saved``, ``stale`` for a record that came too late, ``summary`` and ``stalled`` for what
            failed, ``left`` for what did not become small enough.
        before, after: tokens of the request, 0 where nobody measured. reason: of a failure.
    """

    at_micros: int
    strategy: str | None
    kind: Literal["switched", "saved", "stale", "summary", "stalled", "left"]
    before: int = 0
    after: int = 0
    reason: str = ""


class SavedState(TailFold):
    """The records of ``agent.compaction`` of one session: which count, decided by their order on the log.

    What counted goes on counting when retention takes it: what came after was made on top of it.
    """

    def __init__(self, laser: Connection, conversation: str, agent: str | None) -> None:
        super().__init__(laser, conversation, COMPACTION_TOPIC, _FOLD, chunk=_CHUNK)
        self._scope = ConversationScope(laser, conversation)
        self._agent = agent
        self._verdicts: OrderedDict[int, bool] = OrderedDict()
        self.begin()

    def begin(self) -> None:
        """See ``TailFold.begin``."""
        self._saved: dict[str, list[Saved]] = {}
        self.chosen: str | None = UNCHOSEN
        self.failure: Failed | None = None
        self.steps: list[CompactionStep] = []

    async def take(self, messages: Sequence[ContextMessage], topic: TopicInfo) -> None:
        """See ``TailFold.take``."""
        for message in messages:
            try:
                event = decode_event(message.payload)
            except CodecError as error:
                _logger.warning("session %s: record at %s: %s", self._conversation, message.id, error)
                continue
            self._verdicts[message.record_id] = self._apply(event, message.timestamp_micros)
            if len(self._verdicts) > _VERDICTS:
                self._verdicts.popitem(last=False)

    def records(self, strategy: str) -> Sequence[Saved]:
        """The records of a strategy that count, oldest first. Not to be changed."""
        return self._saved.get(strategy, ())

    def head(self, strategy: str) -> str | None:
        """The name of a strategy's newest record."""
        records = self._saved.get(strategy)
        return records[-1].id if records else None

    async def append(self, event: Event) -> bool:
        """Writes an event, and says whether it counts. The topic is created where it is absent."""
        payload, record = encode_event(event), new_record_id()
        log, stream = self._laser.open_log(), self._laser.stream

        async def append() -> None:
            await self._scope.append(COMPACTION_TOPIC, payload, agent=self._agent, id=record)

        await in_own_topic(log, stream, COMPACTION_TOPIC, append)
        await self.catch_up()
        return self._verdicts.get(record, False)

    def _apply(self, event: Event, at_micros: int) -> bool:
        if isinstance(event, Switched):
            self.chosen = event.strategy
            self.failure = None
            self.steps.append(CompactionStep(at_micros, event.strategy, "switched"))
            return True
        if isinstance(event, Failed):
            self.failure = event
            step = CompactionStep(at_micros, event.strategy, event.kind, event.tokens, event.tokens, event.reason)
            self.steps.append(step)
            return True
        records = self._saved.setdefault(event.strategy, [])
        # Without any record the beginning of the topic is gone, or this is the first one.
        fits = not records or records[-1].id == event.base
        if fits:
            records.append(event)
            self.failure = None
        kind: Literal["saved", "stale"] = "saved" if fits else "stale"
        self.steps.append(CompactionStep(at_micros, event.strategy, kind, event.before, event.after))
        return fits
