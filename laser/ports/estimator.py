"""How many tokens a message costs."""

from __future__ import annotations

from collections.abc import Callable

from laser.model.messages import ContextMessage

__all__ = ["TokenEstimator", "estimate_tokens"]

TokenEstimator = Callable[[ContextMessage], int]
"""Tokens of a message, a whole number from 0. Pure: the same message gives the same count. As in laser-sdk."""


def estimate_tokens(payload: bytes) -> int:
    """The default estimate: bytes divided by four, rounded up (the context guide, "Policies")."""
    return (len(payload) + 3) // 4
