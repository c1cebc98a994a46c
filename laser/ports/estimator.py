"""How many tokens a message costs."""

from __future__ import annotations

from collections.abc import Callable

from laser.model.messages import ContextMessage

__all__ = ["TokenEstimator", "estimate_tokens", "message_tokens"]

TokenEstimator = Callable[[ContextMessage], int]
"""Tokens of a message, a whole number from 0. Pure: the same message gives the same count. As in laser-sdk."""


def estimate_tokens(payload: bytes) -> int:
    """The default estimate: bytes divided by four, rounded up (the context guide, "Policies")."""
    return (len(payload) + 3) // 4


def message_tokens(message: ContextMessage) -> int:
    """The default estimate of a message; one whose bytes are kept as content costs what its entry says."""
    if message.content is not None and message.content.tokens is not None:
        return message.content.tokens
    return estimate_tokens(message.payload)
