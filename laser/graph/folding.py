"""The fold behind all graphs of a client: one topic, one view, one catch-up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from laser.context.catching_up import CatchUp, CatchUpProgress
from laser.context.connection import Connection
from laser.context.own_topics import append_to_own
from laser.errors import CodecError
from laser.model.graph_change import GraphChange, GraphWrite
from laser.model.ids import new_record_id
from laser.model.messages import SkippedRecord
from laser.model.records import LogRecord, NewRecord
from laser.model.topics import TopicInfo
from laser.ports.graph_view import GraphView
from laser.wire.graph import GRAPH_TOPIC, decode_graph, encode_graph

__all__ = ["GraphFold"]

T = TypeVar("T")

# Of records with MAX_GRAPH_WRITE things each: what is applied at once has to fit into the timeout of a call.
_PAGE: Final = 50


class GraphFold:
    """Writes to the graph topic, and gives a view that has seen all of it."""

    def __init__(self, laser: Connection) -> None:
        self._laser = laser
        self._opened: tuple[GraphView, CatchUp[GraphChange]] | None = None

    @property
    def skipped(self) -> tuple[SkippedRecord, ...]:
        """Records of the topic that this client could not decode, the first 1,000."""
        return () if self._opened is None else tuple(self._opened[1].skipped)

    async def write(self, write: GraphWrite, conversation: str | None) -> None:
        """Appends a write; the topic is created where it is absent."""
        headers, payload = encode_graph(write, conversation)
        record = NewRecord(new_record_id(), payload, headers)
        await append_to_own(self._laser.open_log(), self._laser.stream, GRAPH_TOPIC, (record,), key=write.graph)

    async def ask(self, question: Callable[[GraphView], Awaitable[T]]) -> T:
        """An answer of the view, with everything that was on the topic when this was called.

        Args:
            question: may be asked again; see ``CatchUp.ask``.
        """
        view, catch_up = await self._open()
        return await catch_up.ask(view, question)

    async def rebuild(self, progress: Callable[[CatchUpProgress], None] | None) -> int:
        """Folds the topic anew from its start. Returns how many raw records were read."""
        _, catch_up = await self._open()
        return await catch_up.rebuild(progress)

    async def _open(self) -> tuple[GraphView, CatchUp[GraphChange]]:
        log, views = self._laser.open_log(), await self._laser.open_views()
        if self._opened is None:
            view = views.graph(self._laser.stream, GRAPH_TOPIC)
            self._opened = view, CatchUp(log, self._laser.stream, GRAPH_TOPIC, view, _decode, page=_PAGE)
        return self._opened


def _decode(record: LogRecord, topic: TopicInfo) -> GraphChange | SkippedRecord:
    try:
        return decode_graph(record)
    except CodecError as error:
        return SkippedRecord(topic.name, record.partition, record.offset, str(error))
