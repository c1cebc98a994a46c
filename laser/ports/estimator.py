"""How many tokens a payload costs."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["TokenEstimator", "estimate_tokens"]

TokenEstimator = Callable[[bytes], int]
"""Tokens of a payload, a whole number from 0. Pure: the same bytes give the same count."""


def estimate_tokens(payload: bytes) -> int:
    """The default estimate: bytes divided by four, rounded up (the context guide, "Policies")."""
    return (len(payload) + 3) // 4
