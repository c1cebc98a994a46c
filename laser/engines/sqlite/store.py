"""What the stores of one file have in common: they are closed alike, and say so when nobody closed them."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import Self

from laser.engines.sqlite.database import Database

__all__ = ["SqliteStore"]


class SqliteStore:
    """Something in a database file. Close it, or use ``async with``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def aclose(self) -> None:
        """Closes it. Writes under way end first. Calling it again does nothing."""
        await self._database.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._database.directory!r}{' closed' if self._database.closed else ''}>"

    def __del__(self) -> None:
        # Made by a coroutine that may have failed before.
        database = getattr(self, "_database", None)
        if database is not None and not database.closed and not database.forked:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
            database.abandon()
