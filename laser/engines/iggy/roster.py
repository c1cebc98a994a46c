"""Which nodes a cluster has and which of them is the primary: Iggy's command 12, read from its reply bytes."""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from laser.errors import CodecError

__all__ = ["ROSTER_COMMAND", "Node", "decode_roster"]

ROSTER_COMMAND: Final = 12
_LEADER: Final = 0
_LENGTH: Final = struct.Struct("<I")
_TAIL: Final = struct.Struct("<HHHHBB")  # the ports of TCP, QUIC, HTTP and WebSocket, then role and status
_MAX_NODES: Final = 256


class Node(msgspec.Struct, frozen=True):
    """A node as the cluster announces it to clients. A single server announces itself alone."""

    name: str
    address: str
    is_primary: bool


def decode_roster(data: bytes) -> tuple[Node, ...]:
    """The nodes in a reply to ``ROSTER_COMMAND``.

    Raises:
        CodecError: the bytes are something else.
    """
    _, at = _text(data, 0)
    count, at = _number(data, at)
    if not 1 <= count <= _MAX_NODES:
        raise CodecError(f"cluster roster: {count} nodes are not possible")
    nodes = []
    for _ in range(count):
        name, at = _text(data, at)
        host, at = _text(data, at)
        if len(data) - at < _TAIL.size:
            raise CodecError("cluster roster: cut short")
        port, _, _, _, role, _ = _TAIL.unpack_from(data, at)
        at += _TAIL.size
        host = f"[{host}]" if ":" in host else host
        nodes.append(Node(name, f"{host}:{port}", role == _LEADER))
    if at != len(data):
        raise CodecError("cluster roster: bytes follow the last node")
    return tuple(nodes)


def _number(data: bytes, at: int) -> tuple[int, int]:
    if len(data) - at < _LENGTH.size:
        raise CodecError("cluster roster: cut short")
    return int(_LENGTH.unpack_from(data, at)[0]), at + _LENGTH.size


def _text(data: bytes, at: int) -> tuple[str, int]:
    length, at = _number(data, at)
    if length > len(data) - at:
        raise CodecError("cluster roster: cut short")
    try:
        return data[at : at + length].decode(), at + length
    except UnicodeDecodeError as error:
        raise CodecError("cluster roster: a name is not UTF-8") from error
