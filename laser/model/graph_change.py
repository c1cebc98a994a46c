"""What a record of the graph topic says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from laser.model.graph import GraphSource, Node
from laser.model.ids import derive_edge_id

__all__ = ["EdgeFact", "GraphChange", "GraphWrite"]


class EdgeFact(msgspec.Struct, frozen=True):
    """What one record says of one edge.

    Attributes:
        source, target: nodes' ids. type: the edge's.
        weight: of an edge that is asserted: its stretch of time replaces all earlier ones. ``None`` only opens or
            closes a stretch of an edge that others assert.
        start, end: the stretch, microseconds since 1970 UTC; ``None`` for no bound. A stretch is known by its start.
        starts_now, ends_now: the bound is the record's own time, whatever the writer's clock says.
        attributes: to be merged, those with ``None`` to be removed.
    """

    source: str
    type: str
    target: str
    weight: float | None
    start: int | None = None
    end: int | None = None
    starts_now: bool = False
    ends_now: bool = False
    attributes: Mapping[str, Any] = {}

    @property
    def id(self) -> str:
        """The edge's id."""
        return derive_edge_id(self.source, self.type, self.target)


class GraphWrite(msgspec.Struct, frozen=True):
    """What is written to a graph at once.

    Attributes:
        graph: its name. nodes, edges: each at most once by id. source: the record that it was learnt from.
    """

    graph: str
    nodes: tuple[Node, ...]
    edges: tuple[EdgeFact, ...]
    source: GraphSource | None = None


class GraphChange(msgspec.Struct, frozen=True):
    """A write as it stands on the log.

    Attributes:
        write: what was written, its bounds of "now" filled in.
        conversation: who wrote it; ``None`` where none was named.
        timestamp_micros: the broker's time. partition, offset: where the record is.
    """

    write: GraphWrite
    conversation: str | None
    timestamp_micros: int
    partition: int
    offset: int
