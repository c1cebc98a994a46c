"""Names as numbers: namespaces, conversations, agents, users, applications, models."""

from __future__ import annotations

import sqlite3
from typing import Final

from laser.model.memory import MemoryOwner

__all__ = ["AGENT", "APP", "CONV", "MODEL", "NS", "USER", "Names"]

_PLACE: Final = 0
NS: Final = 1
CONV: Final = 2
AGENT: Final = 3
USER: Final = 4
APP: Final = 5
MODEL: Final = 6


class Names:
    """The names of one stream and topic, inside one transaction."""

    def __init__(self, connection: sqlite3.Connection, stream: str, topic: str, *, make: bool) -> None:
        self._connection = connection
        self._known: dict[tuple[int, str], int] = {}
        self._make = make
        # The stream's length keeps "a/b" and "c" from being "a" and "b/c".
        self.place = 0
        self.place = self.find(_PLACE, f"{len(stream)}/{stream}/{topic}") or 0

    def find(self, kind: int, name: str | None) -> int | None:
        """A name's number; ``None`` for no name, and for one that is not known and not to be made."""
        if name is None:
            return None
        key = (kind, name)
        number = self._known.get(key)
        if number is None:
            where = (kind, self.place, name)
            row = self._connection.execute(
                "SELECT id FROM memory_names WHERE kind = ? AND place = ? AND name = ?", where
            ).fetchone()
            if row is not None:
                number = int(row[0])
            elif not self._make:
                return None
            else:
                made = self._connection.execute("INSERT INTO memory_names (kind, place, name) VALUES (?, ?, ?)", where)
                number = int(made.lastrowid or 0)
            self._known[key] = number
        return number

    def make(self, kind: int, name: str) -> int:
        """A name's number, made where it is new."""
        number = self.find(kind, name)
        assert number is not None
        return number

    def of(self, owner: MemoryOwner) -> dict[str, int] | None:
        """The columns that select an owner's items; ``None`` when a name is not known, so that there are none."""
        columns: dict[str, int] = {}
        for column, kind, name in (
            ("ns", NS, owner.namespace),
            ("conv", CONV, owner.conversation),
            ("agent", AGENT, owner.agent),
            ("user", USER, owner.user),
            ("app", APP, owner.app),
        ):
            if name is not None:
                number = self.find(kind, name)
                if number is None:
                    return None
                columns[column] = number
        return columns
