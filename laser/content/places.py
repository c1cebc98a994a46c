"""Where a message that holds content is: the holder's name, and what is known of its place on the log.

A hold gets its place twice. Before the append it says on which log the message is going to be; afterwards also at
which offset. So a hold tells by itself whether its append was ever confirmed.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from laser.model.ids import new_conversation_id
from laser.model.records import Appended
from laser.model.topics import TopicInfo

__all__ = [
    "RECORD_PREFIX",
    "Place",
    "RecordName",
    "decode_place",
    "encode_place",
    "log_of",
    "read_holder",
    "record_holder",
]

RECORD_PREFIX: Final = "record:"
"""What the names of messages as holders begin with."""


class RecordName(msgspec.Struct, frozen=True, gc=False):
    """The message that a holder's name means."""

    stream: str
    topic: str
    conversation: str
    record_id: int


def record_holder(stream: str, topic: str, conversation: str, record_id: int | None = None) -> str:
    """The name under which a message holds content; without an id, what those of a conversation's messages begin with.

    Args:
        conversation: its id. record_id: of the message, as in ``AppendReceipt.id``.
    """
    names = [name.replace("%", "%25").replace("/", "%2F") for name in (stream, topic, conversation)]
    return f"{RECORD_PREFIX}{'/'.join(names)}/" + ("" if record_id is None else f"{record_id:032x}")


def read_holder(holder: str) -> RecordName | None:
    """The message that a name of ``record_holder`` means; ``None`` for any other name."""
    names = holder.removeprefix(RECORD_PREFIX).split("/")
    if not holder.startswith(RECORD_PREFIX) or len(names) != 4:
        return None
    stream, topic, conversation = (name.replace("%2F", "/").replace("%25", "%") for name in names[:3])
    try:
        found = RecordName(stream, topic, conversation, int(names[3], 16))
    except ValueError:
        return None
    return found if record_holder(stream, topic, conversation, found.record_id) == holder else None


class Place(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is known of a message's place.

    Attributes:
        log: which log, see ``log_of``. mark: a ULID of this very attempt: no other hold has it, later ones are greater.
        again: whether the id is the caller's, so that the message may be on the log more than once.
        topic: creation time of its topic when that was looked at last, microseconds since 1970 UTC.
        partition, offset: where in it; ``None`` until the append was confirmed.
    """

    log: str
    mark: str
    again: bool
    topic: int
    partition: int | None = None
    offset: int | None = None

    @classmethod
    def before(cls, info: TopicInfo, *, again: bool) -> Place:
        """The place of a message that is about to be appended to a topic."""
        return cls(log_of(info), new_conversation_id(), again, info.created_at_micros)

    def after(self, info: TopicInfo, done: Appended) -> Place | None:
        """The place once the append was confirmed; ``None`` where it went to another topic than was looked at."""
        if (done.stream_id, done.topic_id) != (info.stream_id, info.topic_id):
            return None
        return self.at(info, (done.partition, done.offsets[0]))

    def at(self, info: TopicInfo, spot: tuple[int, int]) -> Place:
        """The same attempt, at a partition and offset of a topic."""
        return Place(self.log, self.mark, self.again, info.created_at_micros, *spot)

    @property
    def spot(self) -> tuple[int, int] | None:
        """Partition and offset, where the append was confirmed."""
        return None if self.partition is None or self.offset is None else (self.partition, self.offset)


def log_of(info: TopicInfo) -> str:
    """What tells one log from another that has a stream of the same name: nobody makes two in one microsecond."""
    return f"{info.stream_id}.{info.stream_created_at_micros}"


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Place)


def encode_place(place: Place) -> str:
    """The text of a place, as catalogs keep it."""
    return _encoder.encode(place).decode()


def decode_place(text: str) -> Place | None:
    """The place in a text; ``None`` where it is none, or of a newer release."""
    try:
        place: Place = _decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return place
