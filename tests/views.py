"""Clients for tests of what is the same on every engine and on every kind of read view."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

import laser as ls
from laser.testing.finding import OpenIggy
from laser.testing.postgres_server import PostgresServer
from tests.conftest import ENGINES

__all__ = ["Places", "laser", "places", "postgres_url"]

Places = tuple[str, str | None]
"""A URL of a log, and one of read views; ``None`` for where they are by default."""


@pytest.fixture(scope="session")
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A database of an encoding that knows few letters."""
    name = f"t{uuid4().hex}"
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
        yield postgres_server.url.removesuffix("/laser") + f"/{name}"
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=[*ENGINES, "postgres"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Places:
    """Where the log is, each engine in turn, and where the read views; at last those are on PostgreSQL."""
    if request.param == "iggy":
        server: OpenIggy = request.getfixturevalue("iggy")
        return server.url, None
    views = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    return "memory:" if request.param == "memory" else f"embedded:{tmp_path / 'data'}", views


@pytest.fixture
async def laser(places: Places, stream_name: str) -> AsyncIterator[ls.Laser]:
    """A client at each of these places, on a stream of the test's own whose agent topics have four partitions."""
    async with ls.Laser.connect(places[0], stream=stream_name, views=places[1]) as client:
        await client.bootstrap(partitions=4, retention=ls.TopicRetention(expire_after=timedelta(days=30)))
        yield client
