"""The PostgreSQL engine: a ``KeyValue`` in one table, and a ``Catalog`` in a few."""

from laser.engines.postgres.opening import open_postgres_catalog, open_postgres_kv

__all__ = ["open_postgres_catalog", "open_postgres_kv"]
