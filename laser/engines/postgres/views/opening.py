"""Opening the read views of a database; the driver is looked for only here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laser.engines.postgres.config import parse_postgres_url
from laser.errors import ConfigError

if TYPE_CHECKING:
    from laser.engines.postgres.views.store import PostgresViews

__all__ = ["open_postgres_views"]


async def open_postgres_views(url: str, *, timeout: float = 30.0) -> PostgresViews:
    """Connects to read views on PostgreSQL 13 or newer, and makes their tables in schema ``laser`` where absent.

    Args, Raises:
        As ``open_postgres_kv``.
    """
    config = parse_postgres_url(url, "views")
    try:
        from laser.engines.postgres.views.store import PostgresViews
    except ImportError as error:
        # Not only its absence: the pure Python driver also raises ImportError where libpq is missing.
        raise ConfigError(
            "views: postgresql:// needs the driver; install it with: pip install 'laser-context[postgres]'"
        ) from error
    views = PostgresViews(config, timeout=timeout)
    try:
        await views.prepare()
    except BaseException:
        await views.aclose()
        raise
    return views
