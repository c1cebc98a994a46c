"""A topic as plain lists, and what a log must answer about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from laser.model.records import LogRecord, NewRecord
from laser.model.window import Match, WindowQuery
from laser.wire.routing import Route, route

__all__ = ["TopicModel"]


class TopicModel:
    """What was acknowledged, by partition: the list index is the offset."""

    def __init__(self, partitions: int) -> None:
        self.partitions: list[list[NewRecord]] = [[] for _ in range(partitions)]

    def add(self, records: Sequence[NewRecord], places: Sequence[tuple[int, int]]) -> None:
        """Notes an acknowledged append."""
        for record, (partition, offset) in zip(records, places, strict=True):
            assert offset == len(self.partitions[partition]), "an acknowledged offset is not the next one"
            self.partitions[partition].append(record)

    def purge(self) -> None:
        """Notes a purge."""
        for partition in self.partitions:
            partition.clear()

    def check_window(
        self, query: WindowQuery, records: Sequence[LogRecord], times: Mapping[tuple[int, int], int]
    ) -> None:
        """Compares the answer to a query with the rule.

        A log may show more than the ``newest``, but nothing beyond the window. Records that belong to no conversation
        must be there from the oldest of the newest on.

        Args:
            times: of every record, by partition and offset.
        """
        got = [(record.partition, record.offset, record.id) for record in records]
        assert got == sorted(got), "not by partition, then offset"
        assert len(got) == len(set(got)), "a record stands twice"
        most, own = [], []
        for number, partition in enumerate(self.partitions):
            for offset in _examined(number, len(partition), query.size, query.starts, query.stops):
                record = partition[offset]
                found = route(record.headers, record.payload)
                if _wanted(found, query.match):
                    most.append((times[number, offset], number, offset, record.id))
                    if found.conversation_id is not None:
                        own.append(most[-1])
        least = sorted(most)
        if query.newest is not None and len(own) > query.newest:
            newest = sorted(own)[len(own) - query.newest :]
            strays = set(most) - set(own)
            least = newest + [stray for stray in strays if newest and stray >= newest[0]]
        missing = {entry[1:] for entry in least} - set(got)
        assert not missing, f"{query}: missing {sorted(missing)[:5]}"
        extra = set(got) - {entry[1:] for entry in most}
        assert not extra, f"{query}: not asked for {sorted(extra)[:5]}"

    def matching(self, partition: int, start: int, match: Match | None) -> list[tuple[int, int]]:
        """(offset, id) of the records that reading on from ``start`` must show."""
        return [
            (offset, record.id)
            for offset, record in enumerate(self.partitions[partition])
            if offset >= start and (match is None or _wanted(route(record.headers, record.payload), match))
        ]


def _examined(
    partition: int, end: int, size: int, starts: Mapping[int, int] | None, stops: Mapping[int, int] | None
) -> range:
    """The rule in other words than the engines': open reads take the newest ``size``, reads with a stop the ``size``
    that end there, and a start only ever leaves records out."""
    stop = end if stops is None else min(end, stops.get(partition, 0))
    start = 0 if starts is None else starts.get(partition, 0)
    return range(max(0, stop - size, start), stop)


def _wanted(found: Route, match: Match) -> bool:
    if found.conversation_id is None:
        return True
    names = {found.conversation_id}
    if match.children:
        names |= {found.parent_conversation_id or "", found.root_conversation_id or ""}
    return match.conversation_id in names
