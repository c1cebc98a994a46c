"""Recalled items as one text for a prompt, in laser-sdk's form. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from laser.memory.hits import MemoryItem

__all__ = ["memory_block"]


def memory_block(items: Sequence[MemoryItem], token_budget: int | None) -> str:
    """The texts of the items with blank lines between them.

    Args:
        token_budget: a text costs a quarter of its bytes, rounded up. The first one is always there.
    """
    kept: list[str] = []
    used = 0
    for item in items:
        text = item.text
        cost = -(-len(text.encode()) // 4)
        if kept and token_budget is not None and used + cost > token_budget:
            break
        kept.append(text)
        used += cost
    left = len(items) - len(kept)
    if left:
        kept.append(f"[... {left} more recalled item(s) omitted ...]")
    return "\n\n".join(kept)
