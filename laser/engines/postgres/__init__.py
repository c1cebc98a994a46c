"""The PostgreSQL engine: a ``KeyValue`` in one table."""

from laser.engines.postgres.opening import open_postgres_kv

__all__ = ["open_postgres_kv"]
