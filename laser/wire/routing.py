"""Routing: which conversations a record belongs to, for indexes and filters."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from laser.errors import CodecError, ProvenanceError
from laser.model.window import Match
from laser.wire.blocks import decode_block
from laser.wire.envelope import ENVELOPE_KEY, decode_envelope, is_envelope
from laser.wire.provenance import MAX_CACHED_BLOCK, read_conversations

__all__ = ["UNATTRIBUTED", "Route", "route"]


class Route(msgspec.Struct, frozen=True, gc=False):
    """The conversations that a record belongs to; all ``None`` when it cannot be attributed to any."""

    conversation_id: str | None = None
    parent_conversation_id: str | None = None
    root_conversation_id: str | None = None

    def meets(self, match: Match) -> bool:
        """Whether a read with this match wants the record."""
        own = self.conversation_id
        if own is None or own == match.conversation_id:
            return True
        return match.children and match.conversation_id in (self.parent_conversation_id, self.root_conversation_id)


UNATTRIBUTED = Route()


def route(headers: bytes, payload: bytes) -> Route:
    """The conversations that a record names, read leniently: what cannot be read counts as absent.

    The headers decide, so that a record can be found without opening its payload; an envelope is asked only when
    they name no conversation.
    """
    found = _route_block(headers)
    if found is UNATTRIBUTED and ENVELOPE_KEY in headers:
        try:
            if is_envelope(headers):
                envelope = decode_envelope(payload)
                return Route(envelope["conversation"], envelope.get("parent"), envelope.get("root"))
        except (ProvenanceError, CodecError):
            return UNATTRIBUTED
    return found


def _route_block(block: bytes) -> Route:
    return _route_cached(block) if len(block) <= MAX_CACHED_BLOCK else _route_headers(block)


def _route_headers(block: bytes) -> Route:
    try:
        headers = decode_block(block)
    except CodecError:
        return UNATTRIBUTED
    found = read_conversations(headers)
    # A child that cannot be attributed itself is not a child either: it is reported, never shown half.
    return Route(**found) if "conversation_id" in found else UNATTRIBUTED


_route_cached = lru_cache(maxsize=8192)(_route_headers)
