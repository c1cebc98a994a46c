"""Where each view is, and the transactions of all views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from laser.engines._remote import Remote
from laser.engines.postgres.driver import Connection

__all__ = ["Place", "Positions"]

T = TypeVar("T")

Place = tuple[str, str]
"""Stream and topic."""

_WHERE: Final = "view = %s AND stream = %s AND topic = %s"
_FIND: Final = f"SELECT position FROM laser.view_positions WHERE {_WHERE}"  # noqa: S608
_FIND_AND_HOLD: Final = f"{_FIND} FOR UPDATE"
_MAKE: Final = "INSERT INTO laser.view_positions (view, stream, topic) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
_MOVE: Final = f"UPDATE laser.view_positions SET position = %s WHERE {_WHERE}"  # noqa: S608


class Positions:
    """The position of one view of one topic, moved in the same transaction as what it stands for."""

    def __init__(self, remote: Remote[Connection], view: str, place: Place) -> None:
        self._remote = remote
        self._key = (view, *(part.encode() for part in place))

    async def get(self) -> str | None:
        """See ``View.position``."""

        def run(connection: Connection) -> str | None:
            row = connection.execute(_FIND, self._key).fetchone()
            return None if row is None else row[0]

        return await self._remote.call(run, repeatable=True)

    async def move(
        self,
        apply: Callable[[Connection], None],
        trim: Callable[[Connection, Mapping[int, int]], None],
        firsts: Mapping[int, int],
        *,
        expect: str | None,
        position: str,
    ) -> bool:
        """Applies changes and moves the position, unless it is not where it is expected to be."""

        def run(connection: Connection) -> bool:
            if self.hold(connection) != expect:
                return False
            trim(connection, firsts)
            apply(connection)
            connection.execute(_MOVE, (position, *self._key))
            return True

        return await self.write(run)

    async def clear(self, forget: Callable[[Connection], None], *, expect: str | None) -> None:
        """Forgets everything, unless the position is not where it is expected to be."""

        def run(connection: Connection) -> None:
            if self.hold(connection) == expect:
                forget(connection)
                connection.execute(_MOVE, (None, *self._key))

        await self.write(run)

    def hold(self, connection: Connection) -> str | None:
        """The position, which nobody else moves until the transaction ends."""
        connection.execute(_MAKE, self._key)
        row = connection.execute(_FIND_AND_HOLD, self._key).fetchone()
        return None if row is None else row[0]

    async def read(self, run: Callable[[Connection], T]) -> T:
        """Runs something in a read transaction."""

        def work(connection: Connection) -> T:
            with connection.transaction():
                # One moment for all statements of a question.
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                return run(connection)

        return await self._remote.call(work, repeatable=True)

    async def write(self, run: Callable[[Connection], T]) -> T:
        """Runs something in a write transaction."""

        def work(connection: Connection) -> T:
            with connection.transaction():
                return run(connection)

        # Done twice it is as done once: what is expected the second time is not there any more.
        return await self._remote.call(work, repeatable=True)
