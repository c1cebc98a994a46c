"""All read views of a client, in one SQLite file."""

from __future__ import annotations

from typing import Final

from laser.engines.sqlite.views.database import ViewDatabase
from laser.engines.sqlite.views.graph import SqliteGraphView
from laser.engines.sqlite.views.graph_writing import GRAPH_SCHEMA
from laser.engines.sqlite.views.memory import SqliteMemoryView
from laser.engines.sqlite.views.memory_schema import MEMORY_SCHEMA

__all__ = ["SqliteViews", "open_sqlite_views"]

_SCHEMA: Final = (GRAPH_SCHEMA, MEMORY_SCHEMA)
_VERSION: Final = 8
"""Changes with every change of a table or of what is kept in it, so that files of other releases are made anew."""


class SqliteViews:
    """The read views of a client. See ``Views``."""

    def __init__(self, database: ViewDatabase) -> None:
        self._database = database

    def graph(self, stream: str, topic: str) -> SqliteGraphView:
        """See ``Views.graph``."""
        return SqliteGraphView(self._database, stream, topic)

    def memory(self, stream: str, topic: str) -> SqliteMemoryView:
        """See ``Views.memory``."""
        return SqliteMemoryView(self._database, stream, topic)

    async def aclose(self) -> None:
        """See ``Views.aclose``."""
        await self._database.aclose()


async def open_sqlite_views(directory: str | None, *, timeout: float) -> SqliteViews:
    """Opens the views' file in a directory, making what is absent; ``None`` keeps them in memory.

    Raises:
        StorageError: it cannot be opened, or is not laser's.
    """
    database = ViewDatabase(directory, _SCHEMA, _VERSION, timeout)
    await database.open()
    return SqliteViews(database)
