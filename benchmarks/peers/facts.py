"""What all clients are told, write and read, in one form, so that it can be compared whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import laser as ls
from benchmarks.filling import AGENT

__all__ = ["CONVERSATION", "Fact", "our_facts", "peer_url", "provenance_headers"]

Fact = tuple[int, int, bytes]
"""Partition, offset, payload."""

CONVERSATION: Final = "gen_ai.conversation.id"


def peer_url(url: str) -> str:
    """The URL for the other clients: with the TCP option that ours sets by itself.

    By default they leave it off, and then every batch of some sizes (15 to 200 kB, seen) waits 44 ms for the server's
    delayed acknowledgement. That would be ours to win, and nobody's to learn from.
    """
    return f"{url}{'&' if '?' in url else '?'}nodelay=true"


def our_facts(messages: Iterable[ls.ContextMessage]) -> list[Fact]:
    """The facts of our messages."""
    return [(message.partition, message.offset, message.payload) for message in messages]


def provenance_headers(conversation: str) -> dict[str, str]:
    """The provenance that our appends write, for the calls of a client that take headers by hand."""
    return {CONVERSATION: conversation, "gen_ai.agent.id": AGENT, "agdx.to": "*"}
