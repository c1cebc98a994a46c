"""laser and laser-sdk on one real Iggy server, each with a client of its own on the same stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

import laser as ls
from laser.testing.finding import OpenIggy


class Both(NamedTuple):
    """Our client and the peer's, on one stream whose agent topics we made: the peer's own bootstrap sends options
    that servers before 0.9.0 refuse."""

    ours: ls.Laser
    theirs: Any


@pytest.fixture
async def both(iggy: OpenIggy, stream_name: str) -> AsyncIterator[Both]:
    sdk = pytest.importorskip("laser_sdk", reason="laser-sdk has wheels for Linux on x86-64 only")
    async with ls.Laser.connect(iggy.url, stream=stream_name) as ours:
        await ours.bootstrap(partitions=4, retention=ls.TopicRetention(expire_after=timedelta(days=30)))
        theirs = await sdk.Laser.connect(iggy.url, stream=stream_name)
        try:
            yield Both(ours, theirs)
        finally:
            await theirs.close()
