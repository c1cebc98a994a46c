"""The conformance suite of the log port, on one real Iggy server and on a cluster of three nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from laser.engines.iggy import open_iggy_log, parse_iggy_url
from laser.ports.log import Log
from laser.testing import LogConformance
from laser.testing.cluster import IggyCluster
from laser.testing.finding import OpenIggy


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


class _OnIggy(LogConformance):
    clock_can_step_back = True
    keeps_any_headers = False
    rounds = 8
    url = ""

    @asynccontextmanager
    async def open_log(self) -> AsyncIterator[Log]:
        config, _ = parse_iggy_url(self.url)
        log = await open_iggy_log(config, timeout=90)
        try:
            yield log
        finally:
            await log.aclose()


@pytest.mark.iggy
class TestOneNode(_OnIggy):
    @pytest.fixture(autouse=True)
    def _server(self, iggy: OpenIggy) -> None:
        self.url = iggy.url


@pytest.mark.iggy
@pytest.mark.cluster
class TestThreeNodes(_OnIggy):
    @pytest.fixture(autouse=True)
    def _cluster(self, iggy_cluster: IggyCluster) -> None:
        self.url = iggy_cluster.url
