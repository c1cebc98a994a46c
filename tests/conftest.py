"""What all tests share: event loops, engines by URL, a real Iggy server, and the line that says what ran."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.servers import IggyForTests, find_iggy

if TYPE_CHECKING:
    import laser as ls

ENGINES = ("memory", "embedded", "iggy")
_IGGY = pytest.StashKey[IggyForTests]()


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Each async test runs on both event loops; those on Iggy, whose client needs asyncio, only there."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def iggy(request: pytest.FixtureRequest) -> Iterator[IggyForTests]:
    """The Iggy server of this test session; the test is skipped where none can be had."""
    found = _iggy_of(request.config)
    if found.missing:
        pytest.skip(found.missing)
    found.start()
    yield found
    found.stop()


@pytest.fixture
def stream_name(request: pytest.FixtureRequest) -> str:
    """A stream of the test's own, for engines that tests share."""
    _iggy_streams.update(["stream"])
    plain = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:40]
    return f"t-{_iggy_streams['stream']}-{plain}"


_iggy_streams: Counter[str] = Counter()


@pytest.fixture(params=ENGINES)
def engine_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A URL of each engine in turn. ``memory:`` is new at every connect; the embedded directory is the test's own."""
    if request.param == "memory":
        return "memory:"
    if request.param == "embedded":
        return f"embedded:{tmp_path / 'data'}"
    server: IggyForTests = request.getfixturevalue("iggy")
    return server.url


@pytest.fixture
async def laser(engine_url: str, stream_name: str) -> AsyncIterator[ls.Laser]:
    """A connected client on each engine in turn, its agent topics made, on a stream of the test's own."""
    from datetime import timedelta

    import laser as ls

    async with ls.Laser.connect(engine_url, stream=stream_name) as client:
        await client.bootstrap(partitions=4, retention=ls.TopicRetention(expire_after=timedelta(days=30)))
        yield client


def _iggy_of(config: pytest.Config) -> IggyForTests:
    if _IGGY not in config.stash:
        config.stash[_IGGY] = find_iggy()
    return config.stash[_IGGY]


def _engine_of(item: pytest.Item) -> str | None:
    """Which engine a test exercises: its marker, else its parameters, else its file's name."""
    if item.get_closest_marker("iggy") or item.get_closest_marker("cluster"):
        return "iggy"
    params: dict[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}
    words = [value for name, value in params.items() if name != "anyio_backend" and isinstance(value, str)]
    words += re.split(r"[^a-z0-9]+", item.path.stem)
    for word in words:
        for engine, spellings in (("memory", ("memory",)), ("embedded", ("embedded", "sqlite")), ("iggy", ("iggy",))):
            if word in spellings or word.startswith(tuple(f"{spelling}:" for spelling in spellings)):
                return engine
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    impossible = []
    for item in list(items):
        engine = _engine_of(item)
        if engine is None:
            continue
        item.user_properties.append(("engine", engine))
        if engine == "iggy":
            if not item.get_closest_marker("iggy"):
                item.add_marker("iggy")
            # The Iggy client runs on asyncio only, so there is nothing to test on trio but the refusal.
            if hasattr(item, "callspec") and item.callspec.params.get("anyio_backend") == "trio":
                impossible.append(item)
    if impossible:
        dropped = set(impossible)
        items[:] = [item for item in items if item not in dropped]
        config.hook.pytest_deselected(items=impossible)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    ran: Counter[str] = Counter()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, ()):
            if report.when == "call":
                ran.update(value for name, value in report.user_properties if name == "engine")
    wanted = {value for reports in terminalreporter.stats.values() for report in reports
              for name, value in getattr(report, "user_properties", ()) if name == "engine"}
    if not wanted:
        return
    iggy = _iggy_of(config)
    parts = [f"{engine} {ran[engine]} tests" for engine in ENGINES if ran[engine]]
    if ran["iggy"]:
        parts[-1] += f" ({iggy.version})"
    line = f"engines: {', '.join(parts) or 'none'}"
    if iggy.missing:
        line += f" | skipped: iggy, {iggy.missing}"
    terminalreporter.write_line("")
    terminalreporter.write_line(line)
