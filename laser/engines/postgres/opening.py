"""Opening a PostgreSQL store; the driver is looked for only here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laser.engines.postgres.config import parse_postgres_url
from laser.errors import ConfigError

if TYPE_CHECKING:
    from laser.engines.postgres.contents import PostgresCatalog
    from laser.engines.postgres.kv import PostgresKeyValue

__all__ = ["open_postgres_catalog", "open_postgres_kv"]


async def open_postgres_kv(url: str, *, timeout: float = 30.0) -> PostgresKeyValue:
    """Connects to a key-value store on PostgreSQL 13 or newer, and makes its schema ``laser`` where absent.

    Several processes may do so at once. The user needs the right to create a schema in the database the first time, and
    to use it and what is in it from then on.

    Args:
        url: see ``parse_postgres_url``.
        timeout: seconds that a call may take before it ends with ``DeadlineError``.

    Raises:
        ConfigError: the URL has another form, the database is absent, or the driver is not installed.
        UnsupportedError: a newer release of laser made the schema.
        DisconnectedError, AuthenticationError, DeadlineError, TransportError: there is no usable server.
    """
    config = parse_postgres_url(url)
    try:
        from laser.engines.postgres.kv import PostgresKeyValue
    except ImportError as error:
        raise _driver_missing("kv") from error
    store = PostgresKeyValue(config, timeout=timeout)
    try:
        await store.prepare()
    except BaseException:
        await store.aclose()
        raise
    return store


async def open_postgres_catalog(url: str, *, timeout: float = 30.0) -> PostgresCatalog:
    """Connects to a content catalog on PostgreSQL 13 or newer, and makes its tables where absent.

    Args, Raises:
        As ``open_postgres_kv``.
    """
    config = parse_postgres_url(url, "catalog")
    try:
        from laser.engines.postgres.contents import PostgresCatalog
    except ImportError as error:
        raise _driver_missing("catalog") from error
    catalog = PostgresCatalog(config, timeout=timeout)
    try:
        await catalog.prepare()
    except BaseException:
        await catalog.aclose()
        raise
    return catalog


def _driver_missing(argument: str) -> ConfigError:
    # Not only its absence: the pure Python driver also raises ImportError where libpq is missing.
    return ConfigError(
        f"{argument}: postgresql:// needs the driver; install it with: pip install 'laser-context[postgres]'"
    )
