"""Where each view is: the part that all views share."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping

from laser.engines.sqlite.views.database import ViewDatabase

__all__ = ["Place", "Positions"]

Place = tuple[str, str]
"""Stream and topic."""


class Positions:
    """The position of one view of one topic, moved in the same transaction as what it stands for."""

    def __init__(self, database: ViewDatabase, view: str, place: Place) -> None:
        self._database = database
        self._key = (view, *place)

    async def get(self) -> str | None:
        """See ``View.position``."""
        return await self._database.read(self.find)

    async def move(
        self,
        apply: Callable[[sqlite3.Connection], None],
        trim: Callable[[sqlite3.Connection, Mapping[int, int]], None],
        firsts: Mapping[int, int],
        *,
        expect: str | None,
        position: str,
    ) -> bool:
        """Applies changes and moves the position, unless it is not where it is expected to be."""

        def run(connection: sqlite3.Connection) -> bool:
            if self.find(connection) != expect:
                return False
            trim(connection, firsts)
            apply(connection)
            connection.execute("INSERT OR REPLACE INTO positions VALUES (?, ?, ?, ?)", (*self._key, position))
            return True

        return await self._database.write(run)

    async def clear(self, forget: Callable[[sqlite3.Connection], None], *, expect: str | None) -> None:
        """Forgets everything, unless the position is not where it is expected to be."""

        def run(connection: sqlite3.Connection) -> None:
            if self.find(connection) == expect:
                forget(connection)
                connection.execute("DELETE FROM positions WHERE view = ? AND stream = ? AND topic = ?", self._key)

        await self._database.write(run)

    def find(self, connection: sqlite3.Connection) -> str | None:
        """The position, inside a transaction."""
        row = connection.execute(
            "SELECT position FROM positions WHERE view = ? AND stream = ? AND topic = ?", self._key
        ).fetchone()
        return None if row is None else str(row[0])
