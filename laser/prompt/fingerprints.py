"""Fingerprints: what of a prompt's stable prefix changed since the turn before, and where first."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import orjson

from laser.errors import InvalidError

__all__ = ["Fingerprints", "digest", "first_change", "take_fingerprints", "tools_json"]

_TOOLS: Final = "tools"


class Fingerprints(msgspec.Struct, frozen=True):
    """SHA-256 digests, 64 hexadecimal digits each.

    Attributes:
        identity: of the identity layer's text. tools: of the tool schemas. prefix: of both, tools first, as providers
            put them before the system text.
        parts: of tools and of each category of the identity layer, in the order of the prefix.
        volatile: of each volatile category of the system text. History is not among them.
    """

    identity: str
    tools: str
    prefix: str
    parts: tuple[tuple[str, str], ...]
    volatile: Mapping[str, str]


def tools_json(tools: Sequence[Mapping[str, Any]]) -> bytes:
    """The JSON of tool schemas, in the order given: another order is another prefix to a provider.

    Raises:
        InvalidError: they cannot be JSON.
    """
    try:
        return orjson.dumps([dict(tool) for tool in tools]) if tools else b""
    except TypeError as error:
        raise InvalidError(f"tools: a schema cannot be JSON: {error}", argument="tools") from error


def digest(data: bytes | str) -> str:
    """SHA-256 as hexadecimal digits."""
    return hashlib.sha256(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data).hexdigest()


def take_fingerprints(
    tools: bytes, identity: str, parts: Mapping[str, str], volatile: Mapping[str, str]
) -> Fingerprints:
    """The fingerprints of a prompt.

    Args:
        tools: their JSON. identity: the layer's text. parts, volatile: texts by category, in the prompt's order.
    """
    tools_digest, identity_digest = digest(tools), digest(identity)
    listed = [(_TOOLS, tools_digest), *((name, digest(text)) for name, text in parts.items())]
    return Fingerprints(
        identity_digest,
        tools_digest,
        digest(f"{tools_digest}{identity_digest}"),
        tuple(listed),
        {name: digest(text) for name, text in volatile.items()},
    )


def first_change(before: Fingerprints | None, now: Fingerprints) -> str | None:
    """The first part of the stable prefix that differs from the turn before; ``None`` where none does.

    A part that came or went counts as changed; so does ``order`` where the same parts stand differently.
    """
    if before is None or before.prefix == now.prefix:
        return None
    old = dict(before.parts)
    for name, value in now.parts:
        if old.get(name) != value:
            return name
    gone = [name for name, _ in before.parts if name not in dict(now.parts)]
    return gone[0] if gone else "order"
