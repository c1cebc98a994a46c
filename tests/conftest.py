"""What all tests share: event loops, engines by URL, a real Iggy server, and the line that says what ran."""

from __future__ import annotations

import asyncio
import itertools
import re
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from apache_iggy import IggyClient

import laser as ls
from laser.testing.finding import FoundIggy, OpenIggy, find_iggy, open_iggy
from laser.testing.postgres_server import PostgresServer, find_postgres, run_postgres
from laser.testing.redis_server import find_redis
from laser.testing.s3_server import find_s3
from tests.properties import examples

# Of every property, also of one that asks for no settings: the same examples at every run, and no time limit.
hypothesis.settings.register_profile("laser", examples(100))
hypothesis.settings.load_profile("laser")

ENGINES = ("memory", "embedded", "iggy")
STORES = ("redis", "postgres", "s3")
"""Engines of key-value state and content only."""

_FOUND = pytest.StashKey[FoundIggy]()
_OPEN = pytest.StashKey[OpenIggy]()
_STREAMS = itertools.count(1)
_TRIES = 5


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Each async test runs on both event loops; those on Iggy, whose client needs asyncio, only there."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def iggy(request: pytest.FixtureRequest) -> Iterator[OpenIggy]:
    """An Iggy server for the tests of one file, which leave it as it is; skips where none can be had.

    One for the whole session would grow by gigabytes: a server keeps memory for partitions that were deleted.
    """
    found = _found(request.config)
    if found.kind == "none":
        pytest.skip(found.detail)
    with open_iggy(found) as server:
        request.config.stash[_OPEN] = server
        yield server
        del request.config.stash[_OPEN]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL for tests that leave it as it is."""
    missing = find_postgres()
    if missing:
        pytest.skip(missing)
    with run_postgres() as server:
        yield server


@pytest.fixture
def stream_name(request: pytest.FixtureRequest) -> Iterator[str]:
    """A stream of the test's own: the Iggy server is shared by all tests."""
    plain = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:60]
    name = f"t{next(_STREAMS)}-{plain}"
    yield name
    if "iggy" in request.fixturenames or ("engine", "iggy") in request.node.user_properties:
        server = request.config.stash.get(_OPEN, None)
        if server is not None:
            # A bootstrapped stream holds 64 partitions with four files each: after 80 of them the server has no
            # descriptors left and stops answering. In a thread, because the test's own event loop may still exist.
            with ThreadPoolExecutor(1) as thread:
                thread.submit(asyncio.run, _delete_stream(server.url, name)).result()


async def _delete_stream(url: str, name: str) -> None:
    for left in reversed(range(_TRIES)):
        try:
            client = IggyClient.from_connection_string(url)
            await client.connect()
            if await client.get_stream(name) is not None:
                await client.delete_stream(name)
            return
        except RuntimeError:
            # A server that is busy with what the test left may refuse or drop a connection.
            if not left:
                raise
            await asyncio.sleep(1)


@pytest.fixture(params=ENGINES)
def engine_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A URL of each engine in turn. ``memory:`` is new at every connect; the embedded directory is the test's own."""
    if request.param == "memory":
        return "memory:"
    if request.param == "embedded":
        return f"embedded:{tmp_path / 'data'}"
    server: OpenIggy = request.getfixturevalue("iggy")
    return server.url


@pytest.fixture
async def laser(engine_url: str, stream_name: str) -> AsyncIterator[ls.Laser]:
    """A client on each engine in turn, on a stream of the test's own whose agent topics have four partitions."""
    async with ls.Laser.connect(engine_url, stream=stream_name) as client:
        await client.bootstrap(partitions=4, retention=ls.TopicRetention(expire_after=timedelta(days=30)))
        yield client


def _found(config: pytest.Config) -> FoundIggy:
    if _FOUND not in config.stash:
        config.stash[_FOUND] = find_iggy()
    return config.stash[_FOUND]


def _engine_of(item: pytest.Item) -> str | None:
    """Which engine a test exercises: its marker, else its parameters, else the name of its file or folder."""
    if item.get_closest_marker("iggy") or item.get_closest_marker("cluster"):
        return "iggy"
    params: dict[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}
    words = [value for name, value in params.items() if name != "anyio_backend" and isinstance(value, str)]
    words += re.split(r"[^a-z0-9]+", f"{item.path.parent.name}_{item.path.stem}")
    names = {name: name for name in (*ENGINES, *STORES)} | {"sqlite": "embedded"}
    return next((names[head] for word in words if (head := word.partition(":")[0]) in names), None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    impossible: list[pytest.Item] = []
    for item in items:
        engine = _engine_of(item)
        if engine is None:
            continue
        item.user_properties.append(("engine", engine))
        if engine == "iggy":
            item.add_marker("iggy")
            # The Iggy client needs asyncio; on trio there is nothing of it to test.
            if getattr(item, "callspec", None) and item.callspec.params.get("anyio_backend") == "trio":  # type: ignore[attr-defined]
                impossible.append(item)
    if impossible:
        gone = set(map(id, impossible))
        items[:] = [item for item in items if id(item) not in gone]
        config.hook.pytest_deselected(items=impossible)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Ends with one line that says which engines ran; ``.ci/run`` prints it once more."""
    ran: Counter[str] = Counter()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, ()):
            if report.when == "call":
                ran.update(value for name, value in report.user_properties if name == "engine")
    found = _found(config)
    parts = {engine: f"{engine} {ran[engine]} tests" for engine in (*ENGINES, *STORES) if ran[engine]}
    if ran["iggy"]:
        parts["iggy"] += f" ({_describe(found)})"
    missing = [found.detail if found.kind == "none" else None, find_redis(), find_postgres(), find_s3()]
    line = " | skipped: ".join([f"engines: {', '.join(parts.values()) or 'none'}", *filter(None, missing)])
    terminalreporter.write_line("")
    terminalreporter.write_line(line)


def _describe(found: FoundIggy) -> str:
    if found.kind == "binary":
        said = subprocess.run([found.detail, "--version"], capture_output=True, text=True, timeout=20, check=False)
        return said.stdout.strip() or "server of unknown version"
    return f"server {found.detail}"
