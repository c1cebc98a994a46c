"""Events that change an active context, as records on the topic ``agent.active``."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from laser.errors import CodecError
from laser.limits import DEFAULT_COMPACTION_LEASE_SECONDS
from laser.model.content import ContentRef
from laser.session.active.entries import NewEntry

__all__ = [
    "ACTIVE_TOPIC",
    "Add",
    "CompactionCommitted",
    "CompactionFailed",
    "CompactionMode",
    "CompactionRequested",
    "Edit",
    "Edited",
    "Event",
    "Inherited",
    "Opened",
    "Remove",
    "Replace",
    "RunFinished",
    "RunStarted",
    "Steered",
    "TurnFinished",
    "TurnStarted",
    "content_refs",
    "decode_active",
    "encode_active",
]

ACTIVE_TOPIC: Final = "agent.active"

CompactionMode = Literal["provider_triggered", "provider_standalone", "strategy"]


class Opened(msgspec.Struct, frozen=True, tag="opened", omit_defaults=True):
    """The first event of a context: without it, what came before the first one that is left is gone.

    Attributes:
        inherits: the session that the events after it were copied from, up to ``Inherited``.
    """

    inherits: str | None = None


class Inherited(msgspec.Struct, frozen=True, tag="inherited", omit_defaults=True):
    """Everything before it was copied from another session; what comes now is this one's own.

    Attributes:
        session: the other one. messages: how many messages of its conversation were copied.
    """

    session: str
    messages: int = 0


class Add(msgspec.Struct, frozen=True, tag="add", omit_defaults=True):
    """Appends an entry; one with a key takes the earlier one's place, a catalog supersedes it."""

    entry: NewEntry


class Remove(msgspec.Struct, frozen=True, tag="remove"):
    """Removes an entry."""

    id: int


class Replace(msgspec.Struct, frozen=True, tag="replace"):
    """Puts an entry in another one's place."""

    id: int
    entry: NewEntry


Edit = Add | Remove | Replace


class Edited(msgspec.Struct, frozen=True, tag="edited", omit_defaults=True):
    """Edits, all or none, of a context as of a revision. idle: only when no run is under way or waited for."""

    seen: int
    edits: tuple[Edit, ...]
    idle: bool = False


class RunStarted(msgspec.Struct, frozen=True, tag="run_started", omit_defaults=True):
    """A run began, with its inputs.

    Attributes:
        api: the kind of API that its model is called by. seen: the revision that it was begun at, if that matters.
        runs: how many runs there had been when whoever began it looked at the conversation, if that matters.
    """

    run: str
    inputs: tuple[NewEntry, ...] = ()
    api: str | None = None
    seen: int | None = None
    runs: int | None = None


class Steered(msgspec.Struct, frozen=True, tag="steered"):
    """Input that came meanwhile; it enters the context with the next turn."""

    entry: NewEntry


class TurnStarted(msgspec.Struct, frozen=True, tag="turn_started"):
    """A turn began: what was steered enters, and the revision is frozen for it."""

    run: str
    turn: str


class TurnFinished(msgspec.Struct, frozen=True, tag="turn_finished", omit_defaults=True):
    """A turn ended with what the model gave.

    Attributes:
        outputs: entries that the next turn will see. usage: tokens as the provider counted them, by name.
        complete: ``False`` for a call that failed or was cut off; its outputs are kept, but enter no context.
    """

    run: str
    turn: str
    outputs: tuple[NewEntry, ...] = ()
    usage: dict[str, int] = {}
    complete: bool = True


class RunFinished(msgspec.Struct, frozen=True, tag="run_finished", omit_defaults=True):
    """A run ended; entries that go with it leave the context.

    Attributes:
        state: ``ended``, ``failed`` or ``cancelled``. output: what it answered in the end, kept apart from the context.
    """

    run: str
    state: Literal["ended", "failed", "cancelled"]
    output: NewEntry | None = None


class CompactionRequested(msgspec.Struct, frozen=True, tag="compaction_requested", omit_defaults=True):
    """Somebody sets about compacting a context as of a revision.

    Attributes:
        lease: seconds after which, by the log's clock, another request may take over.
        at_micros: of a copy, when the original was written.
    """

    request: str
    seen: int
    mode: CompactionMode
    lease: float = DEFAULT_COMPACTION_LEASE_SECONDS
    at_micros: int | None = None


class CompactionCommitted(msgspec.Struct, frozen=True, tag="compaction_committed", omit_defaults=True):
    """Entries were replaced by a smaller account of them.

    Attributes:
        removed: ids of the entries that it stands for. entries: the account, in the place of the first of them.
    """

    request: str
    seen: int
    removed: tuple[int, ...]
    entries: tuple[NewEntry, ...]


class CompactionFailed(msgspec.Struct, frozen=True, tag="compaction_failed", omit_defaults=True):
    """A compaction was given up; the context is as it was."""

    request: str
    reason: str = ""


Event = (
    Opened
    | Inherited
    | Edited
    | RunStarted
    | Steered
    | TurnStarted
    | TurnFinished
    | RunFinished
    | CompactionRequested
    | CompactionCommitted
    | CompactionFailed
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Event)


def encode_active(event: Event) -> bytes:
    """The JSON bytes of an event; bytes in it are base64."""
    return _encoder.encode(event)


def decode_active(payload: bytes) -> Event:
    """The event in a payload.

    Raises:
        CodecError: it is none.
    """
    try:
        event: Event = _decoder.decode(payload)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CodecError(f"active context: {str(error)[:200]}") from error
    return event


def content_refs(event: Event) -> list[ContentRef]:
    """What the entries in an event refer to."""
    entries: list[NewEntry | None] = []
    if isinstance(event, Edited):
        entries += [edit.entry for edit in event.edits if not isinstance(edit, Remove)]
    elif isinstance(event, RunStarted):
        entries += event.inputs
    elif isinstance(event, Steered):
        entries.append(event.entry)
    elif isinstance(event, TurnFinished):
        entries += event.outputs
    elif isinstance(event, RunFinished):
        entries.append(event.output)
    elif isinstance(event, CompactionCommitted):
        entries += event.entries
    return [entry.ref for entry in entries if entry is not None and entry.ref is not None]
