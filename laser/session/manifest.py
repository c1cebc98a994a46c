"""Manifests: the record of what an assembly kept, what it dropped, and by which policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import orjson

from laser.context.policies import ContextPolicy, Selection
from laser.errors import CodecError
from laser.model.messages import ContextMessage, SkippedRecord
from laser.ports.estimator import message_tokens

__all__ = ["AssembledContext", "ContextManifest", "MessageRef", "decode_manifest", "encode_manifest", "make_manifest"]

_KEY: Final = "laser.manifest"
_VERSION: Final = 1


class MessageRef(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message by its place."""

    topic: str
    partition: int
    offset: int


class ContextManifest(msgspec.Struct, frozen=True):
    """What an assembly did.

    Attributes:
        conversation: its id. policy, policy_version, reason: who selected.
        kept, dropped: every message of the history, by place, oldest first.
        tokens: of the kept messages, estimated as bytes divided by four. over_budget: as the policy says.
        skipped: records of the window that could not be decoded.
    """

    conversation: str
    policy: str
    policy_version: str
    reason: str
    kept: tuple[MessageRef, ...]
    dropped: tuple[MessageRef, ...]
    tokens: int
    over_budget: bool
    skipped: tuple[MessageRef, ...] = ()


class AssembledContext(msgspec.Struct, frozen=True):
    """An assembled context.

    Attributes:
        fragments: the messages, oldest first. manifest: how they were chosen; it is on the log too.
    """

    fragments: list[ContextMessage]
    manifest: ContextManifest

    def text(self) -> str:
        """The fragments' texts joined by newlines."""
        return "\n".join(message.text for message in self.fragments)


def make_manifest(
    conversation: str, policy: ContextPolicy, selection: Selection, skipped: Sequence[SkippedRecord]
) -> ContextManifest:
    """The manifest of a selection."""
    return ContextManifest(
        conversation=conversation,
        policy=policy.name,
        policy_version=policy.version,
        reason=selection.reason,
        kept=tuple(MessageRef(m.topic, m.partition, m.offset) for m in selection.kept),
        dropped=tuple(MessageRef(m.topic, m.partition, m.offset) for m in selection.dropped),
        tokens=sum(message_tokens(message) for message in selection.kept),
        over_budget=selection.over_budget,
        skipped=tuple(MessageRef(s.topic, s.partition, s.offset) for s in skipped),
    )


def encode_manifest(manifest: ContextManifest) -> bytes:
    """The JSON bytes of a manifest."""
    value: dict[str, Any] = {_KEY: _VERSION}
    value.update(msgspec.to_builtins(manifest))
    return orjson.dumps(value)


def decode_manifest(payload: bytes) -> ContextManifest | None:
    """The manifest in a payload, ``None`` when the payload is something else.

    Raises:
        CodecError: it says to be a manifest, and is damaged or of a newer version.
    """
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(value, dict) or _KEY not in value:
        return None
    if value[_KEY] != _VERSION:
        raise CodecError(f"manifest: version {value[_KEY]!r} is not {_VERSION}; a newer laser may read it")
    try:
        return msgspec.convert(value, ContextManifest)
    except msgspec.ValidationError as error:
        raise CodecError(f"manifest: {error}") from error
