"""Real servers for the tests of engines, one of each kind for the whole session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from laser.testing.postgres_server import PostgresServer, find_postgres, run_postgres
from laser.testing.redis_server import RedisServer, find_redis, run_redis


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A Redis for tests that leave it as it is."""
    missing = find_redis()
    if missing:
        pytest.skip(missing)
    with run_redis() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL for tests that leave it as it is."""
    missing = find_postgres()
    if missing:
        pytest.skip(missing)
    with run_postgres() as server:
        yield server
