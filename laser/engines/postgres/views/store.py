"""All read views of a database."""

from __future__ import annotations

from laser.engines._remote_store import RemoteStore
from laser.engines.postgres.config import PostgresConfig
from laser.engines.postgres.driver import Connection, PostgresDriver
from laser.engines.postgres.schema import prepare
from laser.engines.postgres.views.graph import PostgresGraphView
from laser.engines.postgres.views.memory import PostgresMemoryView
from laser.engines.postgres.views.schema import VIEW_MIGRATIONS

__all__ = ["PostgresViews"]


class PostgresViews(RemoteStore[Connection]):
    """The read views of a client. See ``Views``. Made by ``open_postgres_views``."""

    def __init__(self, config: PostgresConfig, *, timeout: float) -> None:
        super().__init__(PostgresDriver(config, timeout), config.address, timeout)

    async def prepare(self) -> None:
        """Makes sure that the server answers and the tables are there; does not wait for one that is down."""
        await self._remote.call(
            lambda connection: prepare(connection, "views", VIEW_MIGRATIONS), repeatable=True, patient=False
        )

    def graph(self, stream: str, topic: str) -> PostgresGraphView:
        """See ``Views.graph``."""
        return PostgresGraphView(self._remote, stream, topic)

    def memory(self, stream: str, topic: str) -> PostgresMemoryView:
        """See ``Views.memory``."""
        return PostgresMemoryView(self._remote, stream, topic)
