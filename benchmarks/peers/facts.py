"""What all clients write and read, in one form, so that it can be compared whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import laser as ls
from benchmarks.filling import AGENT

__all__ = ["CONVERSATION", "Fact", "our_facts", "provenance_headers"]

Fact = tuple[int, int, bytes]
"""Partition, offset, payload."""

CONVERSATION: Final = "gen_ai.conversation.id"


def our_facts(messages: Iterable[ls.ContextMessage]) -> list[Fact]:
    """The facts of our messages."""
    return [(message.partition, message.offset, message.payload) for message in messages]


def provenance_headers(conversation: str) -> dict[str, str]:
    """The provenance that our appends write, for the calls of a client that take headers by hand."""
    return {CONVERSATION: conversation, "gen_ai.agent.id": AGENT, "agdx.to": "*"}
