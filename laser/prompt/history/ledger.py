"""The ledger: exact values of messages that are no longer shown."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

import orjson

from laser.context.tokens import Tokenizer
from laser.prompt.fencing import fence
from laser.prompt.history.values import Value

__all__ = ["Ledger"]

_INTRO: Final = "Exact values from earlier messages that are no longer shown, by field:"
# More than any budget shows; beyond it the least likely to be needed are forgotten.
_MAX_HELD: Final = 4_096
_AGAIN: Final = 0.25


class Ledger:
    """Values by how likely they are needed again, within a number of tokens.

    Args:
        limit: tokens that its message may cost; 0 keeps none.
    """

    def __init__(self, limit: int, tokens: Tokenizer) -> None:
        self._limit = limit
        self._tokens = tokens
        self._held: dict[str, tuple[str, float, int]] = {}
        self._seen = 0
        self.text = ""
        self.cost = 0

    def add(self, values: Iterable[Value]) -> None:
        """Notes values of a message that leaves; one that comes again counts for more."""
        for value in values:
            self._seen += 1
            field, weight, _ = self._held.get(value.text, (value.field, value.weight - _AGAIN, 0))
            self._held[value.text] = (field or value.field, max(weight + _AGAIN, value.weight), self._seen)
        if len(self._held) > 2 * _MAX_HELD:
            self._held = dict(sorted(self._held.items(), key=_rank)[:_MAX_HELD])

    def render(self, shown: Set[str], fencing: bool) -> None:
        """Makes its message anew.

        Args:
            shown: values that stand in the remaining messages anyway.
        """
        self.text, self.cost = "", 0
        if not self._held or self._limit == 0:
            return
        ranked = [item for item in sorted(self._held.items(), key=_rank) if item[0] not in shown]
        # Bytes that surely fit into the limit by the estimate; a vocabulary that needs more tokens takes off from it.
        room = self._limit * 4
        while room > 0:
            text = self._message(ranked, room, fencing)
            cost = self._tokens.count(text + "\n") if text else 0
            if cost <= self._limit:
                self.text, self.cost = text, cost
                return
            room -= max(16, (cost - self._limit) * 4)

    def _message(self, ranked: list[tuple[str, tuple[str, float, int]]], room: int, fencing: bool) -> str:
        columns: dict[str, list[tuple[int, str]]] = {}
        used = len(_INTRO) + 80
        for value, (field, _, seen) in ranked:
            used += len(value.encode("utf-8", "replace")) + 1 + (0 if field in columns else len(field) + 3)
            if used > room:
                break
            columns.setdefault(field, []).append((seen, value))
        if not columns:
            return ""
        lines = [
            f"{field or 'mentioned'}: {' '.join(value for _, value in sorted(values))}"
            for field, values in sorted(columns.items())
        ]
        block = fence("earlier_values", "\n".join([_INTRO, *lines]), on=fencing)
        return orjson.dumps({"role": "user", "content": _writable(block)}).decode()


def _rank(item: tuple[str, tuple[str, float, int]]) -> tuple[float, int]:
    _, weight, seen = item[1]
    return -weight, -seen


def _writable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
