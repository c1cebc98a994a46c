"""The lifecycle of a session as records on the log, and the fold that reads it.

A session is a conversation that has a ``started`` record on ``agent.control``. The first record of a terminal state
decides how it finished; later ones change nothing, whoever wrote them.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec
import orjson

from laser.errors import InvalidError, LimitError
from laser.limits import MAX_LABEL_BYTES
from laser.model.messages import ContextMessage
from laser.wire.state_json import encode_state

__all__ = [
    "SESSION_STATES",
    "ForkOrigin",
    "LifecycleEvent",
    "SessionState",
    "SessionStatus",
    "check_label",
    "decode_event",
    "encode_event",
    "failure",
    "fold_status",
]

SessionState = Literal["running", "ended", "failed", "cancelled"]

_KEY: Final = "laser.session"
_STARTED: Final = "started"
_TERMINAL: Final[tuple[SessionState, ...]] = ("ended", "failed", "cancelled")

SESSION_STATES: Final[tuple[SessionState, ...]] = ("running", *_TERMINAL)
"""Every state of a session."""


class ForkOrigin(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a fork comes from.

    Attributes:
        session: the other session's id. messages, events: how many messages of its conversation, and events of its
            active context, were copied. revision: the context's at that moment.
        began_at_micros: when the first copy was written, microseconds since 1970 UTC.
    """

    session: str
    messages: int
    events: int
    revision: int
    began_at_micros: int


class LifecycleEvent(msgspec.Struct, frozen=True):
    """One step of a session's life.

    Attributes:
        event: ``started``, ``ended``, ``failed`` or ``cancelled``.
        label, origin: of a start. error: of a failure, any JSON.
    """

    event: str
    label: str | None = None
    error: Any = None
    origin: ForkOrigin | None = None


class SessionStatus(msgspec.Struct, frozen=True):
    """How a session stands.

    Attributes:
        id: the conversation id. state: ``running`` or how it finished.
        label: given at the start. parent, root: the sessions above it. agent: who started it.
        started_at_micros, finished_at_micros: the broker's time, microseconds since 1970 UTC.
        error: of a failed session. decided_by: the id of the record that finished it.
        origin: of a fork, where it comes from.
    """

    id: str
    state: SessionState = "running"
    label: str | None = None
    parent: str | None = None
    root: str | None = None
    agent: str | None = None
    started_at_micros: int = 0
    finished_at_micros: int | None = None
    error: Any = None
    decided_by: int | None = None
    origin: ForkOrigin | None = None

    @property
    def began_at_micros(self) -> int:
        """When its first record was written: a fork's copies are on the log before it starts."""
        return self.started_at_micros if self.origin is None else self.origin.began_at_micros


def failure(error: object) -> LifecycleEvent:
    """The end of a session that failed. An exception is kept as its type and text."""
    if isinstance(error, BaseException):
        text = str(error).encode(errors="replace").decode()
        return LifecycleEvent("failed", error={"type": type(error).__name__, "message": text})
    return LifecycleEvent("failed", error=error)


def encode_event(event: LifecycleEvent) -> bytes:
    """The JSON bytes of an event.

    Raises:
        InvalidError: the error would not come back as it is.
    """
    value: dict[str, Any] = {_KEY: event.event}
    if event.label is not None:
        value["label"] = event.label
    if event.error is not None:
        try:
            encode_state({"error": event.error})
        except InvalidError as error:
            raise InvalidError(str(error).replace("state:", "error:", 1), argument="error") from error
        value["error"] = event.error
    if event.origin is not None:
        value["origin"] = msgspec.to_builtins(event.origin)
    return orjson.dumps(value)


def decode_event(payload: bytes) -> LifecycleEvent | None:
    """The event in a payload, ``None`` when it is something else: the topic may hold other records too."""
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(value, dict):
        return None
    event, label = value.get(_KEY), value.get("label")
    if event not in (_STARTED, *_TERMINAL) or not isinstance(label, str | None):
        return None
    try:
        origin = msgspec.convert(value.get("origin"), ForkOrigin | None)
    except msgspec.ValidationError:
        return None
    return LifecycleEvent(event, label, value.get("error"), origin)


def fold_status(status: SessionStatus | None, message: ContextMessage) -> SessionStatus | None:
    """The status after one more record; ``None`` while the session has not started."""
    event = decode_event(message.payload)
    if event is None:
        return status
    provenance = message.provenance
    if event.event == _STARTED:
        if status is not None or provenance.conversation_id is None:
            return status
        return SessionStatus(
            id=provenance.conversation_id,
            label=event.label,
            parent=provenance.parent_conversation_id,
            root=provenance.root_conversation_id,
            agent=provenance.agent,
            started_at_micros=message.timestamp_micros,
            origin=event.origin,
        )
    if status is None or status.state != "running":
        return status
    return msgspec.structs.replace(
        status,
        state=event.event,
        error=event.error,
        finished_at_micros=message.timestamp_micros,
        decided_by=message.record_id,
    )


def check_label(label: str) -> None:
    """Refuses what is no label.

    Raises:
        InvalidError, LimitError: it is empty, too long, or holds what cannot be shown.
    """
    if not isinstance(label, str) or not label.strip():
        raise InvalidError(f"label: {label!r} is not a text with something in it", argument="label")
    if any(char < " " or "\x7f" <= char <= "\x9f" or "\ud800" <= char <= "\udfff" for char in label):
        raise InvalidError("label: holds a control character or a lone surrogate", argument="label")
    size = len(label.encode())
    if size > MAX_LABEL_BYTES:
        raise LimitError(
            f"label: has {size} bytes, allowed are {MAX_LABEL_BYTES}",
            argument="label",
            size=size,
            limit=MAX_LABEL_BYTES,
        )
