"""The transcript of a session: its chat messages on ``agent.sessions``, as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from laser.compaction.inputs import PreparedInput, shown
from laser.compaction.rows import Row, make_row
from laser.compaction.sizes import Estimator
from laser.compaction.units import Unit, UnitFold
from laser.context.connection import Connection
from laser.context.tail_fold import TailFold
from laser.model.messages import ContextMessage
from laser.model.topics import AgentTopic, TopicInfo
from laser.model.transcript import SourceRef

__all__ = ["History", "Transcript", "place_of"]

_FOLD: Final = "laser.compaction"
_CHUNK: Final = 128
_ERA: Final = 1 << 44


class History(msgspec.Struct, frozen=True):
    """A transcript at some moment.

    Attributes:
        rows: all that the log still holds, oldest first. units: of these rows.
        inputs: the rows as a request shows them.
        floor: rows before this place are gone by retention, if there were any.
    """

    rows: tuple[Row, ...]
    units: tuple[Unit, ...]
    inputs: tuple[PreparedInput, ...]
    floor: int = 0

    def place(self, seq: int) -> int:
        """How many rows come before a place of the transcript."""
        low, high = 0, len(self.rows)
        while low < high:
            middle = (low + high) // 2
            if self.rows[middle].ref.seq < seq:
                low = middle + 1
            else:
                high = middle
        return low

    def between(self, first: int, last: int) -> tuple[Row, ...]:
        """The rows from one place of the transcript to another, both included."""
        return self.rows[self.place(first) : self.place(last + 1)]


class Transcript(TailFold):
    """A session's rows, kept in this process and brought up to date at each look.

    Args:
        repairs: texts in the place of an assistant's, by ``place_of`` of the message, for summaries.
    """

    def __init__(
        self, laser: Connection, conversation: str, estimator: Estimator, repairs: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(laser, conversation, AgentTopic.Sessions, _FOLD, chunk=_CHUNK)
        self._estimator = estimator
        self._repairs = repairs or {}
        self.begin()

    def begin(self) -> None:
        """See ``TailFold.begin``."""
        self._rows: list[Row] = []
        self._inputs: list[PreparedInput] = []
        self._units = UnitFold()
        self._places: list[tuple[int, int]] = []
        self._era = 0
        self._partition: int | None = None
        self._history: History | None = None
        self._floor = 0

    async def take(self, messages: Sequence[ContextMessage], topic: TopicInfo) -> None:
        """See ``TailFold.take``."""
        for message in messages:
            if self._partition is not None and message.partition != self._partition:
                self._era += 1
            self._partition = message.partition
            ref = SourceRef(self._conversation, self._era * _ERA + message.offset)
            repair = self._repairs.get(place_of(message)) if self._repairs else None
            speaker = message.provenance.agent
            row = make_row(ref, message.payload, self._estimator, message.content, repair, speaker)
            self._rows.append(row)
            self._inputs.append(shown(row, "tail"))
            self._units.take(row)
            self._places.append((message.partition, message.offset))
        self._history = None

    async def end(self, topic: TopicInfo | None) -> None:
        """Lets go of rows that retention took from the log."""
        if topic is None:
            return
        firsts = {part.id: part.first for part in topic.partitions}
        gone = 0
        for partition, offset in self._places:
            if offset >= firsts.get(partition, 0):
                break
            gone += 1
        if gone:
            del self._rows[:gone], self._places[:gone], self._inputs[:gone]
            self._units = UnitFold(self._rows)
        floor = 0
        if self._rows:
            floor = self._rows[0].seq // _ERA * _ERA + firsts.get(self._places[0][0], 0)
        if gone or floor != self._floor:
            self._floor = floor
            self._history = None

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        """Partition and offset of each row now."""
        return tuple(self._places)

    @property
    def history(self) -> History:
        """The rows now."""
        if self._history is None:
            self._history = History(tuple(self._rows), self._units.units(), tuple(self._inputs), self._floor)
        return self._history


def place_of(message: ContextMessage) -> str:
    """A message's place as a key."""
    return f"{message.topic}:{message.partition}:{message.offset}"
