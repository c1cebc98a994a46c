"""Clients with content, on each engine."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import laser as ls


def connect(engine_url: str, stream: str) -> ls.client.Connecting:
    """A client. A log on a server has no catalog beside it."""
    if engine_url.startswith("iggy"):
        return ls.Laser.connect(engine_url, stream=stream, catalog="memory:", objects="memory:")
    return ls.Laser.connect(engine_url, stream=stream)


@pytest.fixture
async def laser(engine_url: str, stream_name: str) -> AsyncIterator[ls.Laser]:
    """A client on each engine in turn."""
    async with connect(engine_url, stream_name) as client:
        yield client


@pytest.fixture
async def site(laser: ls.Laser) -> ls.Workspace:
    """An empty workspace."""
    return await laser.workspaces("acme").create("site")
