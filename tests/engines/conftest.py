"""Real servers for the tests of engines, one of each kind for the whole session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from laser.testing.cluster import IggyCluster, run_iggy_cluster
from laser.testing.redis_server import RedisServer, find_redis, run_redis
from laser.testing.s3_server import S3Server, find_s3, run_s3
from laser.testing.server import find_server_binary


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A Redis for tests that leave it as it is."""
    missing = find_redis()
    if missing:
        pytest.skip(missing)
    with run_redis() as server:
        yield server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """An S3 server for tests that leave it as it is."""
    missing = find_s3()
    if missing:
        pytest.skip(missing)
    with run_s3() as server:
        yield server


@pytest.fixture(scope="session")
def iggy_cluster() -> Iterator[IggyCluster]:
    """Three Iggy nodes for tests that leave them alive; those that kill one start their own."""
    if find_server_binary() is None:
        pytest.skip("no iggy-server program to run three nodes of: put it on the PATH or into LASER_TEST_IGGY_SERVER")
    with run_iggy_cluster() as cluster:
        yield cluster
