"""Heads of workspaces, as records on the topic ``agent.workspaces``, and the fold that reads them. Pure.

The log decides: of two moves that saw the same revision the first one on the log wins; the other one changes nothing.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from laser.errors import CodecError

__all__ = ["WORKSPACE_TOPIC", "HeadMoved", "HeadState", "Version", "WorkspaceDeleted", "decode_head", "encode_head"]

WORKSPACE_TOPIC: Final = "agent.workspaces"


class HeadMoved(msgspec.Struct, frozen=True, tag="moved", omit_defaults=True):
    """A head was moved.

    Attributes:
        name: the workspace's. seen: the revision that the mover saw; 0 makes the workspace.
        root: digest of the tree; ``None`` for an empty one. note: why, in words.
    """

    tenant: str
    name: str
    seen: int
    root: str | None = None
    note: str | None = None


class WorkspaceDeleted(msgspec.Struct, frozen=True, tag="deleted"):
    """A workspace was deleted, as of a revision."""

    tenant: str
    name: str
    seen: int


Event = HeadMoved | WorkspaceDeleted


class Version(msgspec.Struct, frozen=True):
    """One version of a workspace.

    Attributes:
        revision: from 1 on. root: digest of the tree; ``None`` for an empty one. note: why, in words.
        agent: who moved the head. at_micros: the broker's time, microseconds since 1970 UTC.
        record: id of the record that moved it.
    """

    revision: int
    root: str | None
    note: str | None
    agent: str | None
    at_micros: int
    record: int


class HeadState:
    """The head of one workspace that is being folded.

    Attributes:
        revision: 0 while there is none. deleted: whether it was deleted last. versions: since it was made.
    """

    def __init__(self) -> None:
        self.revision = 0
        self.deleted = True
        self.versions: list[Version] = []

    def apply(self, event: Event, agent: str | None, at_micros: int, record: int) -> bool:
        """Applies an event. Returns whether it changed anything."""
        if event.seen != self.revision:
            return False
        if isinstance(event, WorkspaceDeleted):
            if self.deleted:
                return False
            # Revisions go on: one that was seen before a delete must not fit a workspace of the same name afterwards.
            self.revision += 1
            self.deleted = True
            self.versions = []
            return True
        self.revision += 1
        self.deleted = False
        self.versions.append(Version(self.revision, event.root, event.note, agent, at_micros, record))
        return True


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Event)


def encode_head(event: Event) -> bytes:
    """The JSON bytes of an event."""
    return _encoder.encode(event)


def decode_head(payload: bytes) -> Event:
    """The event in a payload.

    Raises:
        CodecError: it is none.
    """
    try:
        event: Event = _decoder.decode(payload)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CodecError(f"workspace: {str(error)[:200]}") from error
    return event
