"""Scopes for tests of what is the same on every engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

import laser as ls


@pytest.fixture
async def memory_laser() -> AsyncIterator[ls.Laser]:
    """A client on a log in memory, its agent topics made with four partitions."""
    async with ls.Laser.connect("memory:") as client:
        await client.bootstrap(partitions=4, retention=ls.TopicRetention(expire_after=timedelta(days=30)))
        yield client
