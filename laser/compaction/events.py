"""Events of compaction, as records on the topic ``agent.compaction``."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from laser.errors import CodecError

__all__ = ["COMPACTION_TOPIC", "Event", "Failed", "Saved", "Switched", "decode_event", "encode_event"]

COMPACTION_TOPIC: Final = "agent.compaction"


class Switched(msgspec.Struct, frozen=True, tag="switched", forbid_unknown_fields=True):
    """The session's strategy from here on; ``None`` for none."""

    strategy: str | None


class Saved(msgspec.Struct, frozen=True, tag="saved", omit_defaults=True, forbid_unknown_fields=True):
    """What a strategy keeps: boundary and summary together, in one record.

    Attributes:
        id: the record's name, a ULID. strategy: whose it is.
        base: the record of the strategy that was the newest when this one was made; ``None`` for the first. Where
            another one came in between, this one is stale and counts for nothing.
        state: the strategy's own, JSON.
        before, after: tokens of the request before and after; 0 where nobody measured.
    """

    id: str
    strategy: str
    base: str | None
    state: msgspec.Raw
    before: int = 0
    after: int = 0


class Failed(msgspec.Struct, frozen=True, tag="failed", omit_defaults=True, forbid_unknown_fields=True):
    """A compaction failed; everything is as it was.

    Attributes:
        kind: ``summary`` when the summarizer failed, ``stalled`` when the request would not have become smaller,
            ``left`` when it became smaller, but what is left reaches the trigger.
        tokens: of the request then: it is not tried again by itself before the request has grown.
        seq: the last row then. reason: in words.
    """

    strategy: str
    kind: Literal["summary", "stalled", "left"]
    tokens: int
    seq: int
    reason: str = ""


Event = Switched | Saved | Failed

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Event)


def encode_event(event: Event) -> bytes:
    """The JSON bytes of an event."""
    return _encoder.encode(event)


def decode_event(payload: bytes) -> Event:
    """The event in a payload.

    Raises:
        CodecError: it is none.
    """
    try:
        event: Event = _decoder.decode(payload)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise CodecError(f"compaction: {str(error)[:200]}") from error
    return event
