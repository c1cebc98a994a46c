"""Checkpoints: where topics ended at some moment, as a bookmark to resume from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import orjson

from laser.errors import CodecError, InvalidError
from laser.limits import MAX_NAME_BYTES, MAX_OFFSET
from laser.model.checks import check_offsets

__all__ = ["Checkpoint", "PartitionMark", "TopicMark"]

_OWN: Final = "laser"
_MAX_U32: Final = 2**32 - 1


class PartitionMark(msgspec.Struct, frozen=True, gc=False):
    """What a partition was when the checkpoint was taken.

    Attributes:
        created_at_micros: when the partition was made.
        last_id: the id of the last record before the checkpoint, ``None`` when there was none to see.
    """

    created_at_micros: int
    last_id: int | None = None


class TopicMark(msgspec.Struct, frozen=True):
    """What a topic was when the checkpoint was taken; tells a recreated topic from the old one."""

    stream_id: int
    stream_created_at_micros: int
    topic_id: int
    created_at_micros: int
    partitions: Mapping[int, PartitionMark]


class Checkpoint:
    """The next offset to read of each partition of each topic. A value of the client's, never a record on the log.

    A checkpoint covers whole partitions: other conversations on them move its offsets too.

    Args:
        per_topic: by topic name, by partition id, the next offset to read (0 to 2**64 - 1).
        marks: what the topics were, by name; lets a resume notice a log that is not the same any more.
            Checkpoints made by laser-sdk have none.

    Raises:
        InvalidError: ``per_topic`` is of another form.
    """

    __slots__ = ("_marks", "_per_topic")

    def __init__(
        self, per_topic: Mapping[str, Mapping[int, int]], marks: Mapping[str, TopicMark] | None = None
    ) -> None:
        checked = _check_topics(per_topic)
        self._per_topic = {topic: dict(sorted(parts.items())) for topic, parts in sorted(checked.items())}
        self._marks = {name: mark for name, mark in sorted((marks or {}).items()) if name in self._per_topic}

    def topics(self) -> dict[str, dict[int, int]]:
        """A copy of the offsets: by topic name, by partition id, the next offset to read."""
        return {topic: dict(parts) for topic, parts in self._per_topic.items()}

    def topic_offsets(self, topic: str) -> dict[int, int] | None:
        """The next offset to read by partition id, ``None`` when the checkpoint does not cover the topic."""
        parts = self._per_topic.get(topic)
        return None if parts is None else dict(parts)

    def mark(self, topic: str) -> TopicMark | None:
        """What the topic was, ``None`` when the checkpoint does not say."""
        return self._marks.get(topic)

    def is_empty(self) -> bool:
        """Whether the checkpoint covers no topic."""
        return not self._per_topic

    def to_json(self) -> str:
        """The JSON that ``from_json`` and laser-sdk read. Members of laser's own follow under ``laser``."""
        value: dict[str, Any] = {
            "per_topic": {topic: _text_keys(parts) for topic, parts in self._per_topic.items()},
        }
        if self._marks:
            value[_OWN] = {"topics": {name: _mark_to_json(mark) for name, mark in self._marks.items()}}
        return orjson.dumps(value).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Checkpoint:
        """The checkpoint that ``to_json``, or laser-sdk, wrote.

        Raises:
            CodecError: not such JSON; the message names the member.
        """
        try:
            value = orjson.loads(text)
        except (orjson.JSONDecodeError, TypeError) as error:
            raise CodecError(f"checkpoint: not JSON: {str(error)[:200]}") from error
        per_topic = {
            topic: {
                _number(key, f"$.per_topic.{topic} key", _MAX_U32): _offset(at, f"$.per_topic.{topic}.{key}")
                for key, at in _object(parts, f"$.per_topic.{topic}").items()
            }
            for topic, parts in _object(_member(value, "per_topic", "$"), "$.per_topic").items()
        }
        for topic in per_topic:
            if not _is_topic(topic):
                raise CodecError("checkpoint: a topic name of $.per_topic is empty or too long")
        own = value.get(_OWN)
        marks = {} if own is None else _marks_from_json(own)
        return cls(per_topic, marks)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Checkpoint):
            return NotImplemented
        return self._per_topic == other._per_topic and self._marks == other._marks

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        return f"Checkpoint({self._per_topic!r})"


def _check_topics(per_topic: Mapping[str, Mapping[int, int]]) -> dict[str, dict[int, int]]:
    if not isinstance(per_topic, Mapping):
        raise InvalidError(
            f"per_topic: expected offsets by topic and partition, got {type(per_topic).__name__}", argument="per_topic"
        )
    for topic in per_topic:
        if not isinstance(topic, str) or not _is_topic(topic):
            raise InvalidError(f"per_topic: {topic!r:.80} is not a topic name", argument="per_topic")
    return {topic: check_offsets(parts, "per_topic") for topic, parts in per_topic.items()}


def _is_topic(name: str) -> bool:
    try:
        return 1 <= len(name.encode()) <= MAX_NAME_BYTES
    except UnicodeEncodeError:
        return False


def _text_keys(parts: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in parts.items()}


def _mark_to_json(mark: TopicMark) -> dict[str, Any]:
    return {
        "stream_id": mark.stream_id,
        "stream_created_at_micros": mark.stream_created_at_micros,
        "topic_id": mark.topic_id,
        "created_at_micros": mark.created_at_micros,
        "partitions": {
            str(partition): {
                "created_at_micros": part.created_at_micros,
                # As text: JSON readers of other languages lose numbers above 2**53.
                "last_id": None if part.last_id is None else format(part.last_id, "032x"),
            }
            for partition, part in sorted(mark.partitions.items())
        },
    }


def _marks_from_json(own: object) -> dict[str, TopicMark]:
    marks: dict[str, TopicMark] = {}
    for name, raw in _object(_member(own, "topics", "$.laser"), "$.laser.topics").items():
        path = f"$.laser.topics.{name}"
        partitions: dict[int, PartitionMark] = {}
        for key, part in _object(_member(raw, "partitions", path), f"{path}.partitions").items():
            at = f"{path}.partitions.{key}"
            last_id = _member(part, "last_id", at)
            partitions[_number(key, f"{at} key", _MAX_U32)] = PartitionMark(
                _offset(_member(part, "created_at_micros", at), f"{at}.created_at_micros"),
                None if last_id is None else _hex(last_id, f"{at}.last_id"),
            )
        marks[name] = TopicMark(
            stream_id=_offset(_member(raw, "stream_id", path), f"{path}.stream_id"),
            stream_created_at_micros=_offset(
                _member(raw, "stream_created_at_micros", path), f"{path}.stream_created_at_micros"
            ),
            topic_id=_offset(_member(raw, "topic_id", path), f"{path}.topic_id"),
            created_at_micros=_offset(_member(raw, "created_at_micros", path), f"{path}.created_at_micros"),
            partitions=partitions,
        )
    return marks


def _object(value: object, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CodecError(f"checkpoint: {path} is not an object")
    return value


def _member(value: object, name: str, path: str) -> Any:
    members = _object(value, path)
    if name not in members:
        raise CodecError(f"checkpoint: {path} has no member {name}")
    return members[name]


def _offset(value: object, path: str) -> int:
    # orjson turns a number of 2**64 and more into a float without a word, so the type is checked too.
    if type(value) is not int or not 0 <= value <= MAX_OFFSET:
        raise CodecError(f"checkpoint: {path} is not a whole number from 0 to 2**64 - 1")
    return value


def _number(text: str, path: str, limit: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and str(int(text)) == text and int(text) <= limit):
        raise CodecError(f"checkpoint: {path} is not a partition number")
    return int(text)


def _hex(value: object, path: str) -> int:
    if not isinstance(value, str) or len(value) != 32 or not all(char in "0123456789abcdef" for char in value):
        raise CodecError(f"checkpoint: {path} is not 32 hexadecimal digits")
    return int(value, 16)
