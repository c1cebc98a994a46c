"""The stores that content can be in: catalogs by object stores, real ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pytest

import laser as ls
from laser.testing.postgres_server import PostgresServer
from laser.testing.s3_server import S3Server
from tests.engines.conftest import s3_server

__all__ = ["s3_server"]

TOPIC = "events"
_HERE = Path(__file__).parent


class Stores(NamedTuple):
    """Where a client keeps what."""

    url: str
    catalog: str | None
    objects: str | None

    def connect(self, **settings: str) -> ls.client.Connecting:
        """A client on these stores."""
        return ls.Laser.connect(self.url, **{"catalog": self.catalog, "objects": self.objects, **settings})  # type: ignore[arg-type]


MATRIX = ("memory", "embedded", "embedded-postgres", "embedded-s3", "embedded-postgres-s3")
"""Log, catalog, objects; what is not named is beside the one before it. PostgreSQL alone has files of the log's."""


@pytest.fixture(params=MATRIX)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Stores:
    """Each place of content in turn. ``memory`` is new at every connect, the directories are the test's own."""
    return make_stores(request, request.param, tmp_path)


def make_stores(request: pytest.FixtureRequest, name: str, directory: Path) -> Stores:
    """The stores of one name."""
    if name == "memory":
        return Stores("memory:", None, None)
    url = f"embedded:{directory / 'data'}"
    catalog = objects = None
    if "postgres" in name:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        catalog, objects = server.url, url
    if "s3" in name:
        bucket: S3Server = request.getfixturevalue("s3_server")
        objects = bucket.url
    return Stores(url, catalog, objects)


@pytest.fixture
def tenant() -> str:
    """A tenant of the test's own: servers are shared."""
    return f"acme-{uuid4().hex}"


@pytest.fixture
async def laser(stores: Stores) -> AsyncIterator[ls.Laser]:
    """A client on each of the stores in turn, with one topic."""
    async with stores.connect() as client:
        await client.ensure_topic(TOPIC, 2)
        yield client


@pytest.fixture
def content(laser: ls.Laser, tenant: str) -> ls.Content:
    """The tenant's content."""
    return laser.content(tenant)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On trio three places are enough: the engines' own suites run on both loops, and time is short."""
    spared = [
        item
        for item in items
        if {"trio", "embedded-postgres"} <= _words(item) or {"trio", "embedded-s3"} <= _words(item)
    ]
    if spared:
        gone = set(map(id, spared))
        items[:] = [item for item in items if id(item) not in gone]
        config.hook.pytest_deselected(items=spared)


def _words(item: pytest.Item) -> set[object]:
    return set(item.callspec.params.values()) if hasattr(item, "callspec") and _HERE in item.path.parents else set()
