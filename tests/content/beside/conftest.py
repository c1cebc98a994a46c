"""Logs of each kind with a catalog that is not in their file, and whose clock a test sets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import laser as ls
from laser.content.store import ContentStore
from laser.engines.memory import MemoryCatalog, MemoryObjects
from laser.engines.sqlite import open_sqlite_catalog
from laser.ports.catalog import Hold
from laser.testing.clock import SetClock
from laser.testing.finding import OpenIggy

__all__ = ["TENANT", "TOPIC", "Unsure", "catalog_beside", "holds_of"]

TOPIC = "events"
TENANT = "acme"


@pytest.fixture
def clock() -> SetClock:
    """The catalog's clock; the log has its own."""
    return SetClock()


@pytest.fixture(params=["memory", "embedded", "iggy"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A log of each kind, which is never in the catalog's file."""
    if request.param == "iggy":
        server: OpenIggy = request.getfixturevalue("iggy")
        return server.url
    return "memory:" if request.param == "memory" else f"embedded:{tmp_path / 'log'}"


@pytest.fixture
async def laser(url: str, stream_name: str, tmp_path: Path, clock: SetClock) -> AsyncIterator[ls.Laser]:
    async with ls.Laser.connect(url, stream=stream_name) as client:
        await catalog_beside(client, tmp_path / "catalog" if url != "memory:" else None, clock)
        await client.ensure_topic(TOPIC, 2)
        await client.ensure_topic("other", 1)
        yield client


async def catalog_beside(laser: ls.Laser, directory: Path | None, clock: SetClock) -> ContentStore:
    catalog = MemoryCatalog(clock=clock) if directory is None else await open_sqlite_catalog(directory, clock=clock)
    store = laser._content = ContentStore(catalog, MemoryObjects())
    return store


@pytest.fixture
def content(laser: ls.Laser) -> ls.Content:
    return laser.content(TENANT, over=4)


@pytest.fixture
def ctx(laser: ls.Laser) -> ls.ContextScope:
    return laser.context(ls.new_conversation_id())


async def holds_of(laser: ls.Laser) -> list[Hold]:
    return await (await laser.open_content()).catalog.placed(tenant=None)


class Unsure:
    """A log whose appends are without an answer, written or not."""

    def __init__(self, laser: ls.Laser, *, written: bool) -> None:
        self._laser = laser
        self._log = laser.open_log()
        self._written = written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def append(self, *args: Any, **settings: Any) -> object:
        if self._written:
            await self._log.append(*args, **settings)
        raise ls.AppendIndeterminateError("no answer", record_ids=(1,))

    async def __aenter__(self) -> None:
        self._laser._log = self  # type: ignore[assignment]

    async def __aexit__(self, *args: object) -> None:
        self._laser._log = self._log
