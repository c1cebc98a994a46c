"""Read views on PostgreSQL, shared by all processes that use the database."""

from laser.engines.postgres.views.opening import open_postgres_views

__all__ = ["open_postgres_views"]
