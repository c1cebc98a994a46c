"""How a topic is created: by the driver where the server knows its options, else by the raw command."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from apache_iggy import Durability as DriverDurability
from apache_iggy import IggyClient, IggyExpiry, MaxTopicSize

from laser.engines.iggy.durability import DURABILITY_KEY, asks_persisted, default_of, options_for
from laser.engines.iggy.errors import Target
from laser.engines.iggy.requests import CREATE_TOPIC_COMMAND, create_topic_body, u64_option
from laser.errors import UnsupportedError
from laser.model.topics import TopicConfig

__all__ = ["creation"]

_SEGMENT_STEP: Final = 512
_SEGMENT_MIN: Final = 1 << 20
_SEGMENT_MAX: Final = 1 << 30
_SEGMENTS_IN_BOUND: Final = 4  # the oldest segment goes as a whole, so a bound is kept to about a quarter


def creation(target: Target, config: TopicConfig, keys: frozenset[str]) -> Callable[[IggyClient], Awaitable[object]]:
    """The call that creates a topic on a server that takes these option keys.

    Raises:
        UnsupportedError: the server cannot give the durability or retention.
    """
    wanted = config.durability or default_of(keys)
    age = config.retention.expire_micros if config.retention else None
    size = config.retention.max_size if config.retention else None
    segment = _segment_size(size, config.partitions)
    for value, key in ((age, "message_expiry"), (size, "max_topic_size"), (segment, "segment_size")):
        if value is not None and keys and key not in keys:
            raise UnsupportedError(f"retention: this Iggy server has no topic option {key}")
    if DURABILITY_KEY in keys:
        persisted = DriverDurability.PERSISTED if asks_persisted(wanted) else DriverDurability.REPLICATED
        expiry = IggyExpiry.ExpireDuration(config.retention.expire_after) if config.retention and age else None  # type: ignore[arg-type]
        bound = MaxTopicSize.Custom(size) if size is not None else None
        return lambda client: client.create_topic(
            target.stream,
            target.topic,
            config.partitions,
            message_expiry=expiry,
            max_topic_size=bound,
            segment_size=segment,
            durability=persisted,
        )
    options = options_for(wanted, keys)
    options += [
        u64_option(key, value)
        for key, value in (("message_expiry", age), ("max_topic_size", size), ("segment_size", segment))
        if value is not None
    ]
    body = create_topic_body(target.stream, target.topic, config.partitions, options)
    return lambda client: client.send_binary_request(CREATE_TOPIC_COMMAND, body)


def _segment_size(bound: int | None, partitions: int) -> int | None:
    if bound is None:
        return None
    if bound < _SEGMENT_MIN:
        raise UnsupportedError(f"retention: max_size: Iggy keeps at least {_SEGMENT_MIN} bytes of a topic, not {bound}")
    size = min(_SEGMENT_MAX, max(_SEGMENT_MIN, bound // partitions // _SEGMENTS_IN_BOUND))
    return size - size % _SEGMENT_STEP
