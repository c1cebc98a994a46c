"""Entries in the form of one API, kept from one request to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from laser.models.entries import LoweringEntry

__all__ = ["Fragment", "FragmentCache", "Joiner", "turns_of"]

Side = Literal["system", "user", "model", "result"]


class Fragment(msgspec.Struct, frozen=True, gc=False):
    """An entry, lowered.

    Attributes:
        side: who speaks. pieces: its JSON, one for each item, block or message; of a system text the letters of a JSON
            string without quotes.
        opens, closes: ids of the calls that it makes, and of those that it answers. call_type: of what it opens.
        part: of a chat turn, which part of the message it is. marked: whether each piece may carry a cache marker.
    """

    side: Side
    pieces: tuple[bytes, ...]
    opens: tuple[str, ...] = ()
    closes: tuple[str, ...] = ()
    call_type: str = ""
    part: Literal["", "message", "reasoning", "call"] = ""
    marked: tuple[bool, ...] = ()


def turns_of(fragments: Sequence[Fragment]) -> list[int]:
    """The turn of each fragment: what the model says with nothing between.

    In Chat Completions a turn is one message, of which reasoning comes first, then what it says, then its calls.
    """
    turns: list[int] = []
    turn, parts = 0, set[str]()
    before = ""
    for fragment in fragments:
        begins = bool(parts & {"message", "call"}) if fragment.part in ("message", "reasoning") else False
        begins = begins or (fragment.part == "reasoning" and bool(parts))
        if fragment.side != "model" or before != "model" or begins:
            turn, parts = turn + 1, set()
        parts.add(fragment.part)
        before = fragment.side
        turns.append(turn)
    return turns


class FragmentCache:
    """The fragments of the last request, so that the next one only lowers what is new.

    Keep one for each session, and use it from one thread at a time. It holds what the last request held and no more.
    """

    def __init__(self) -> None:
        self._form: object = None
        self._kept: dict[LoweringEntry, Fragment] = {}

    def fragments(
        self, form: object, entries: Sequence[LoweringEntry], prepare: Callable[[LoweringEntry, int], Fragment]
    ) -> list[Fragment]:
        """The fragment of each entry; ``form`` names what else they depend on."""
        known = self._kept if form == self._form else {}
        fresh: dict[LoweringEntry, Fragment] = {}
        found: list[Fragment] = []
        for place, entry in enumerate(entries):
            fragment = known.get(entry)
            if fragment is None:
                fragment = fresh.get(entry) or prepare(entry, place)
            fresh[entry] = fragment
            found.append(fragment)
        self._form, self._kept = form, fresh
        return found


class Joiner:
    """Joins the parts of a body and notes where each entry stands in it."""

    def __init__(self, entries: int) -> None:
        self._parts: list[bytes] = []
        self._at = 0
        self._spans = [(0, 0)] * entries

    def add(self, part: bytes) -> None:
        """Adds bytes."""
        self._parts.append(part)
        self._at += len(part)

    def add_entry(self, part: bytes, entry: int) -> None:
        """Adds bytes of an entry; several of one entry stand next to each other."""
        begin = self._at
        self.add(part)
        known = self._spans[entry]
        self._spans[entry] = (known[0] if known[1] else begin, self._at)

    @property
    def body(self) -> bytes:
        """All that was added."""
        return b"".join(self._parts)

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """The begin and end of each entry; of one that left nothing, twice 0."""
        return tuple(self._spans)
