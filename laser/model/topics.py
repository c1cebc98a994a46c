"""Topics: names, retention, durability, and what a log says of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, Literal

import msgspec

from laser.errors import InvalidError

__all__ = ["DURABILITIES", "AgentTopic", "Durability", "PartitionInfo", "TopicConfig", "TopicInfo", "TopicRetention"]

Durability = Literal["memory", "process", "power"]
"""What an acknowledged record survives.

``memory``: nothing of the machine that took it. ``process``: the death of the process that took it.
``power``: also a power cut.
"""

DURABILITIES: Final[tuple[Durability, ...]] = ("memory", "process", "power")


class AgentTopic:
    """Names of the topics that ``Laser.bootstrap`` creates. Plain text: any other topic name works as well."""

    Sessions: Final = "agent.sessions"
    Memory: Final = "agent.memory"
    Snapshots: Final = "agent.snapshots"
    Audit: Final = "agent.audit"
    Control: Final = "agent.control"
    Dlq: Final = "agent.dlq"
    Heartbeats: Final = "agent.heartbeats"
    Registry: Final = "agent.registry"
    Streams: Final = "agent.streams"
    WorkflowJournal: Final = "agent.workflow_journal"
    Commands: Final = "agent.commands"
    Responses: Final = "agent.responses"
    ToolCalls: Final = "agent.tool_calls"
    ToolResults: Final = "agent.tool_results"
    LlmIo: Final = "agent.llm_io"
    HumanInput: Final = "agent.human_input"

    ALL: Final = (
        Sessions,
        Memory,
        Snapshots,
        Audit,
        Control,
        Dlq,
        Heartbeats,
        Registry,
        Streams,
        WorkflowJournal,
        Commands,
        Responses,
        ToolCalls,
        ToolResults,
        LlmIo,
        HumanInput,
    )


class TopicRetention(msgspec.Struct, frozen=True):
    """How long a topic keeps its records. A record over either bound may be removed, oldest first.

    Args:
        expire_after: the age a record may reach; ``None`` keeps it for ever.
        max_size: bytes that the topic may hold; ``None`` for no bound.
        expiry_ms: ``expire_after`` in milliseconds, as laser-sdk spells it; give one of the two.

    Raises:
        InvalidError: a bound that is not positive, or both spellings of the age.
    """

    expire_after: timedelta | None = None
    max_size: int | None = None
    expiry_ms: float | None = None

    def __post_init__(self) -> None:
        age, millis = self.expire_after, self.expiry_ms
        if age is not None and millis is not None:
            raise InvalidError("expiry_ms: give expire_after or expiry_ms, not both", argument="expiry_ms")
        if millis is not None:
            if isinstance(millis, bool) or not isinstance(millis, int | float) or not 0 < millis < 1e15:
                raise InvalidError(
                    f"expiry_ms: {millis!r} is not a number of milliseconds above 0", argument="expiry_ms"
                )
            age = timedelta(milliseconds=millis)
            msgspec.structs.force_setattr(self, "expire_after", age)
            msgspec.structs.force_setattr(self, "expiry_ms", None)
        if age is not None and (not isinstance(age, timedelta) or age < timedelta(milliseconds=1)):
            raise InvalidError(f"expire_after: {age!r} is not a timedelta of at least 1 ms", argument="expire_after")
        size = self.max_size
        if size is not None and (type(size) is not int or not 0 < size < 2**63):
            raise InvalidError(f"max_size: {size!r} is not a whole number of bytes above 0", argument="max_size")

    @property
    def expire_micros(self) -> int | None:
        """The age bound in microseconds."""
        return None if self.expire_after is None else self.expire_after // timedelta(microseconds=1)

    @property
    def is_bounded(self) -> bool:
        """Whether anything limits the topic's growth."""
        return self.expire_after is not None or self.max_size is not None


class TopicConfig(msgspec.Struct, frozen=True):
    """What a topic is created with.

    Attributes:
        partitions: 1 to ``MAX_PARTITIONS``. retention: ``None`` keeps everything.
        durability: ``None`` for the engine's default, see the engine's documentation.
    """

    partitions: int
    retention: TopicRetention | None = None
    durability: Durability | None = None


class PartitionInfo(msgspec.Struct, frozen=True, gc=False):
    """A partition now.

    Attributes:
        id: its number in the topic. created_at_micros: microseconds since 1970 UTC.
        first: the first offset still held. end: the offset that the next record gets; equal to ``first`` when
            the partition holds nothing.
    """

    id: int
    created_at_micros: int
    first: int
    end: int


class TopicInfo(msgspec.Struct, frozen=True):
    """A topic now.

    Attributes:
        stream_id, topic_id: the engine's numbers, unsigned 32 bits. They can be used again after a delete: the
            creation times tell the difference.
        stream_created_at_micros, created_at_micros: microseconds since 1970 UTC.
        durability: as created, ``None`` where the server does not say.
        partitions: ordered by id.
        epoch: while it is the same, nothing that was read from this topic can have been lost by a crash; a remote
            log changes it when its connection was made anew.
    """

    stream: str
    stream_id: int
    stream_created_at_micros: int
    name: str
    topic_id: int
    created_at_micros: int
    retention: TopicRetention | None
    durability: Durability | None
    size_bytes: int
    partitions: tuple[PartitionInfo, ...]
    epoch: int = 0

    @property
    def records(self) -> int:
        """Records held now."""
        return sum(part.end - part.first for part in self.partitions)
