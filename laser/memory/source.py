"""One memory topic of a client: writes to it, the fold of it, and its read view."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from laser.context.catching_up import CatchUp, CatchUpProgress
from laser.context.connection import Connection
from laser.context.own_topics import append_to_own
from laser.errors import CodecError, ProvenanceError
from laser.memory.fold import MemoryFold
from laser.model.ids import new_record_id
from laser.model.memory import MemoryChange
from laser.model.messages import SkippedRecord
from laser.model.records import LogRecord, NewRecord
from laser.model.topics import AgentTopic, TopicInfo
from laser.ports.memory_view import MemoryView
from laser.wire.memory_reading import decode_memory

__all__ = ["MemorySource"]

T = TypeVar("T")


class MemorySource:
    """What all memory handles of a client share. Get it with ``of``."""

    def __init__(self, laser: Connection) -> None:
        self._laser = laser
        self._folded: tuple[MemoryFold, CatchUp[MemoryChange]] | None = None
        self._viewed: tuple[MemoryView, CatchUp[MemoryChange]] | None = None

    @classmethod
    def of(cls, laser: Connection) -> MemorySource:
        """The client's one."""
        return laser.share("memory", lambda: cls(laser))

    @property
    def skipped(self) -> tuple[SkippedRecord, ...]:
        """Records of the topic that this client could not decode, the first 1,000."""
        opened = self._viewed or self._folded
        return () if opened is None else tuple(opened[1].skipped)

    async def append(self, records: Sequence[tuple[bytes, bytes]], conversation: str) -> None:
        """Appends records of (payload, header block); the topic is created where it is absent."""
        made = [NewRecord(new_record_id(), payload, headers) for payload, headers in records]
        await append_to_own(self._laser.open_log(), self._laser.stream, AgentTopic.Memory, made, key=conversation)

    async def fold(self) -> MemoryFold:
        """The fold, with everything that was on the topic when this was called."""
        log = self._laser.open_log()
        if self._folded is None:
            fold = MemoryFold()
            self._folded = fold, CatchUp(log, self._laser.stream, AgentTopic.Memory, fold, _decode)
        fold, catch_up = self._folded
        await catch_up.run()
        return fold

    async def ask(self, question: Callable[[MemoryView], Awaitable[T]]) -> T:
        """An answer of the view, with everything that was on the topic when this was called.

        Args:
            question: may be asked again; see ``CatchUp.ask``.
        """
        view, catch_up = await self._open()
        return await catch_up.ask(view, question)

    async def rebuild(self, progress: Callable[[CatchUpProgress], None] | None) -> int:
        """Folds the view anew from the topic's start. Returns how many raw records were read."""
        _, catch_up = await self._open()
        return await catch_up.rebuild(progress)

    async def _open(self) -> tuple[MemoryView, CatchUp[MemoryChange]]:
        log, views = self._laser.open_log(), await self._laser.open_views()
        if self._viewed is None:
            view = views.memory(self._laser.stream, AgentTopic.Memory)
            self._viewed = view, CatchUp(log, self._laser.stream, AgentTopic.Memory, view, _decode)
        return self._viewed


def _decode(record: LogRecord, topic: TopicInfo) -> MemoryChange | SkippedRecord | None:
    try:
        return decode_memory(record)
    except (CodecError, ProvenanceError) as error:
        return SkippedRecord(topic.name, record.partition, record.offset, str(error))
