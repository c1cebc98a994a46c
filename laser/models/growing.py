"""Texts that arrive in many pieces, joined once: adding each to the text so far would copy it for every piece."""

from __future__ import annotations

from typing import Any

__all__ = ["GrowingTexts"]


class GrowingTexts:
    """Fields of objects that grow. Between ``join`` calls a field shows what it was at the last one."""

    def __init__(self) -> None:
        # The object is kept too: its id is its own only while it lives.
        self._grown: dict[tuple[int, str], tuple[dict[str, Any], list[str]]] = {}

    def add(self, holder: dict[str, Any], field: str, piece: str) -> None:
        """Adds letters to a field; one that is no text becomes one."""
        known = self._grown.get((id(holder), field))
        if known is None:
            begun = holder.get(field)
            known = holder, [begun if isinstance(begun, str) else ""]
            self._grown[id(holder), field] = known
        known[1].append(piece)

    def set(self, holder: dict[str, Any], field: str, value: object) -> None:
        """Sets a field, whatever it has grown to."""
        self._grown.pop((id(holder), field), None)
        holder[field] = value

    def join(self) -> None:
        """Writes what has arrived into the fields."""
        for (_, field), (holder, pieces) in self._grown.items():
            pieces[:] = ["".join(pieces)]
            holder[field] = pieces[0]
