"""A knowledge graph's nodes and edges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from laser.errors import IdError, InvalidError, LimitError
from laser.limits import MAX_GRAPH_LABEL_BYTES, MAX_GRAPH_VALUE_BYTES
from laser.model.ids import derive_edge_id, derive_node_id, parse_conversation_id

__all__ = [
    "Edge",
    "GraphAssertion",
    "GraphSource",
    "Moment",
    "Node",
    "check_label",
    "check_text",
    "check_moment",
    "check_node_id",
    "check_weight",
    "node_id_of",
    "node_of",
]

Moment = int | datetime
"""A time: microseconds since 1970 UTC, or a ``datetime`` that knows its time zone."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Every datetime is within, and engines keep room for "for ever" outside.
_MAX_MOMENT: Final = 2**62


class GraphSource(msgspec.Struct, frozen=True, gc=False):
    """The record that something was learnt from.

    Attributes:
        topic: its topic. partition, offset: where it is there.
    """

    topic: str
    partition: int
    offset: int


class GraphAssertion(msgspec.Struct, frozen=True, gc=False):
    """The newest record of the graph's topic that says something about a stretch of an edge, or about a node.

    Of a node, the newest that names a conversation or a source, where one does.

    Attributes:
        timestamp_micros: the broker's time, microseconds since 1970 UTC. partition, offset: where the record is.
        conversation: in which conversation it was said; ``None`` where none was named.
        source: the record that it was learnt from; ``None`` where none was named.
    """

    timestamp_micros: int
    partition: int
    offset: int
    conversation: str | None = None
    source: GraphSource | None = None


class Node(msgspec.Struct, frozen=True):
    """A thing that a graph knows of. Its id comes from its label and value, so that the same thing is one node.

    Args:
        label: what kind of thing, such as ``Person``; 1 to ``MAX_GRAPH_LABEL_BYTES`` bytes without control characters.
        value: which one, such as ``Alice``; 1 to ``MAX_GRAPH_VALUE_BYTES`` bytes.
        attributes: more about it: by name, ``None``, ``bool``, ``int``, finite ``float``, ``str``, or a list of those.
            In a write, ``None`` removes an attribute.
        asserted: who said so last; given by reads.

    Raises:
        InvalidError, LimitError: a label or value of another form.
    """

    label: str
    value: str
    attributes: Mapping[str, Any] = {}
    asserted: GraphAssertion | None = None

    def __post_init__(self) -> None:
        check_label(self.label, "label")
        check_text(self.value, "value", MAX_GRAPH_VALUE_BYTES)

    @property
    def id(self) -> str:
        """26 characters, the same in every graph, process and language."""
        return derive_node_id(self.label, self.value)


class Edge(msgspec.Struct, frozen=True):
    """How one node relates to another. Its id comes from the nodes' ids and its type.

    ``Edge.between`` takes nodes and datetimes.

    Args:
        source, target: the nodes' ids; it leads from the first to the second.
        type: how they relate, such as ``works_at``; 1 to ``MAX_GRAPH_LABEL_BYTES`` bytes without control characters.
        weight: finite.
        valid_from, valid_to: when it is true, from the first moment to just before the second, microseconds since
            1970 UTC; ``None`` for no bound.
        attributes: as of a node. asserted: who said so last; given by reads.

    Raises:
        IdError: a node's id of another form. InvalidError, LimitError: another bad value.
    """

    source: str
    type: str
    target: str
    weight: float = 1.0
    valid_from: int | None = None
    valid_to: int | None = None
    attributes: Mapping[str, Any] = {}
    asserted: GraphAssertion | None = None

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "source", check_node_id(self.source, "source"))
        msgspec.structs.force_setattr(self, "target", check_node_id(self.target, "target"))
        check_label(self.type, "type")
        msgspec.structs.force_setattr(self, "weight", check_weight(self.weight))
        start = check_moment(self.valid_from, "valid_from")
        end = check_moment(self.valid_to, "valid_to")
        if start is not None and end is not None and end <= start:
            raise InvalidError(f"valid_to: {end} is not after valid_from, {start}", argument="valid_to")
        msgspec.structs.force_setattr(self, "valid_from", start)
        msgspec.structs.force_setattr(self, "valid_to", end)

    @classmethod
    def between(
        cls,
        source: Node | str,
        type: str,
        target: Node | str,
        *,
        weight: float = 1.0,
        valid_from: Moment | None = None,
        valid_to: Moment | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> Edge:
        """An edge from nodes, their ids, or texts such as ``Person:Alice``, and from any moments.

        Raises:
            InvalidError: a bad value, such as a datetime without a time zone.
        """
        return cls(
            node_id_of(source, "source"),
            type,
            node_id_of(target, "target"),
            weight,
            check_moment(valid_from, "valid_from"),
            check_moment(valid_to, "valid_to"),
            {} if attributes is None else attributes,
        )

    @property
    def id(self) -> str:
        """26 characters, the same in every graph, process and language, whatever its weight and times."""
        return derive_edge_id(self.source, self.type, self.target)

    def holds_at(self, moment: Moment) -> bool:
        """Whether it is true at a moment."""
        at = check_moment(moment, "moment")
        if at is None:
            raise InvalidError("moment: is None; give microseconds or a datetime", argument="moment")
        return (self.valid_from is None or self.valid_from <= at) and (self.valid_to is None or at < self.valid_to)


def node_of(value: Node | str, argument: str) -> Node:
    """A node, or the one that a text such as ``Person:Alice`` names: label, colon, value.

    Raises:
        InvalidError: neither.
    """
    if isinstance(value, Node):
        return value
    if isinstance(value, str):
        label, colon, name = value.partition(":")
        if colon:
            return Node(check_label(label, argument), check_text(name, argument, MAX_GRAPH_VALUE_BYTES))
    raise InvalidError(
        f"{argument}: {value!r:.80} is neither a Node nor a text such as 'Person:Alice'", argument=argument
    )


def node_id_of(value: Node | str, argument: str) -> str:
    """The id of a node, given as one, as its id, or as a text such as ``Person:Alice``.

    Raises:
        InvalidError: none of them.
    """
    if isinstance(value, str) and ":" not in value:
        return check_node_id(value, argument)
    return node_of(value, argument).id


def check_node_id(value: str, argument: str) -> str:
    """A node's id, canonical.

    Raises:
        IdError: another form.
    """
    try:
        return parse_conversation_id(value)
    except IdError as error:
        shown = repr(value) if isinstance(value, str) and len(value) <= 64 else f"a {type(value).__name__}"
        raise IdError(
            f"{argument}: {shown} is neither the id of a node (26 characters) nor a text such as 'Person:Alice'",
            argument=argument,
        ) from error


def check_label(value: str, argument: str) -> str:
    """A label, an edge's type or an attribute's name.

    Raises:
        InvalidError: another form. LimitError: too long.
    """
    check_text(value, argument, MAX_GRAPH_LABEL_BYTES)
    if any(char < " " or "\x7f" <= char <= "\x9f" for char in value):
        raise InvalidError(f"{argument}: {value!r:.80} holds a control character", argument=argument)
    return value


def check_text(value: str, argument: str, limit: int) -> str:
    """Text with something in it that UTF-8 can hold.

    Raises:
        InvalidError: another form. LimitError: over ``limit`` bytes.
    """
    if type(value) is not str:
        raise InvalidError(f"{argument}: expected text, got {type(value).__name__}", argument=argument)
    if not value:
        raise InvalidError(f"{argument}: is empty", argument=argument)
    try:
        size = len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError as error:
        raise InvalidError(f"{argument}: holds a lone surrogate, which UTF-8 cannot", argument=argument) from error
    if size > limit:
        raise LimitError(
            f"{argument}: has {size} bytes, allowed are {limit}", argument=argument, size=size, limit=limit
        )
    return value


def check_weight(value: float) -> float:
    """An edge's weight as a float.

    Raises:
        InvalidError: not a finite number.
    """
    try:
        if not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass  # an int beyond every float is as good as infinite
    raise InvalidError(f"weight: {value!r:.40} is not a finite number", argument="weight")


def check_moment(value: Moment | None, argument: str) -> int | None:
    """A moment in microseconds since 1970 UTC.

    Raises:
        InvalidError: a datetime without a time zone, another type, or a number too large.
    """
    if value is None:
        return None
    if isinstance(value, datetime):
        if value.tzinfo is None or value.utcoffset() is None:
            raise InvalidError(
                f"{argument}: {value.isoformat()} has no time zone; say which, for example with tzinfo=datetime.UTC",
                argument=argument,
            )
        return (value - _EPOCH) // timedelta(microseconds=1)
    if type(value) is not int or not -_MAX_MOMENT <= value <= _MAX_MOMENT:
        raise InvalidError(
            f"{argument}: {value!r:.40} is neither whole microseconds since 1970 nor a datetime", argument=argument
        )
    return value
