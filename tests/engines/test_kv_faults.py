"""Remote key-value stores whose server or network fails."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Iterator

import anyio
import anyio.to_thread
import pytest

from laser.errors import (
    AuthenticationError,
    ClosedError,
    ConfigError,
    DeadlineError,
    DisconnectedError,
    LaserError,
    TransportError,
)
from laser.ports.kv import KeyValue
from laser.testing.postgres_server import find_postgres, run_postgres
from laser.testing.proxy import TcpProxy
from laser.testing.redis_server import find_redis, run_redis
from laser.testing.service import Service
from tests.engines.kv_worker import open_kv

pytestmark = pytest.mark.anyio

_SPACE = "faults"
# What a busy machine may take on top of a deadline.
_SLACK = 20.0


@pytest.fixture(scope="module", params=["redis", "postgres"])
def server(request: pytest.FixtureRequest) -> Iterator[Service]:
    """A server of this module's own, to be stopped and killed."""
    missing = (find_redis if request.param == "redis" else find_postgres)(own=True)
    if missing:
        pytest.skip(missing)
    with (run_redis if request.param == "redis" else run_postgres)(own=True) as server:
        yield server


@pytest.fixture
async def proxy(server: Service) -> AsyncIterator[TcpProxy]:
    async with TcpProxy("127.0.0.1", server.port) as proxy:
        yield proxy


@pytest.fixture
async def store(server: Service) -> AsyncIterator[KeyValue]:
    store = await open_kv(server.url)
    yield store
    await store.aclose()


def through(proxy: TcpProxy, server: Service) -> str:
    """The server's URL by way of the proxy."""
    return server.url.replace(f"127.0.0.1:{server.port}", proxy.address)


async def in_thread(work: object, *args: object) -> None:
    await anyio.to_thread.run_sync(work, *args)  # type: ignore[arg-type]


@pytest.mark.parametrize("kill", [False, True], ids=["stop", "kill"])
async def test_a_restart_is_not_noticed_between_calls(server: Service, store: KeyValue, kill: bool) -> None:
    await store.set(_SPACE, "before", b"1")
    await in_thread(lambda: server.restart(kill=kill))
    assert await store.set(_SPACE, "after", b"2") > 0
    entry = await store.get(_SPACE, "before")
    assert entry is not None
    assert entry.value == b"1"
    assert {"before", "after"} <= {found.key for found in (await store.scan(_SPACE)).entries}


async def test_versions_grow_over_a_kill(server: Service, store: KeyValue) -> None:
    versions = []
    for _ in range(3):
        versions.append(await store.set(_SPACE, "grows", b""))
        await in_thread(lambda: server.restart(kill=True))
    versions.append(await store.set(_SPACE, "grows", b""))
    assert versions == sorted(set(versions))


async def test_calls_wait_for_a_server_that_comes_back(server: Service, store: KeyValue) -> None:
    await store.set(_SPACE, "key", b"1")
    await in_thread(server.stop)
    answers: list[bytes | None] = []

    async def ask() -> None:
        await store.set(_SPACE, "meanwhile", b"2")
        entry = await store.get(_SPACE, "key")
        answers.append(entry and entry.value)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(ask)
        await in_thread(server.start)
    assert answers == [b"1"] * 3


async def test_killed_under_load_nothing_acknowledged_is_lost(server: Service, store: KeyValue) -> None:
    acknowledged: dict[str, int] = {}
    ending = threading.Event()

    async def write(name: str) -> None:
        number = 0
        while not ending.is_set():
            number += 1
            try:
                await store.set(_SPACE, f"{name}-{number}", b"%d" % number)
            except (DisconnectedError, DeadlineError):
                continue
            acknowledged[f"{name}-{number}"] = number

    async def until_more(count: int) -> None:
        while len(acknowledged) < count:
            await store.get(_SPACE, "key")

    async with anyio.create_task_group() as tasks:
        for task in range(6):
            tasks.start_soon(write, f"load-{task}")
        for _ in range(3):
            await anyio.sleep(0.05)
            await in_thread(lambda: server.restart(kill=True))
        before = len(acknowledged)
        with anyio.fail_after(_SLACK):
            await until_more(before + 20)
        ending.set()
    for key, number in acknowledged.items():
        entry = await store.get(_SPACE, key)
        assert entry is not None, "acknowledged, but not there"
        assert entry.value == b"%d" % number


async def test_a_call_ends_when_the_server_stays_away(server: Service) -> None:
    timeout = 2.0
    store = await open_kv(server.url, timeout=timeout)
    await in_thread(server.stop)

    async def ends(call: Awaitable[object]) -> None:
        with pytest.raises((DisconnectedError, DeadlineError)):
            await call

    try:
        begun = time.monotonic()
        async with anyio.create_task_group() as tasks:
            for call in (
                store.get(_SPACE, "key"),
                store.set(_SPACE, "key", b""),
                store.delete(_SPACE, "key"),
                store.scan("a"),
            ):
                tasks.start_soon(ends, call)
        assert time.monotonic() - begun < timeout + _SLACK
        begun = time.monotonic()
        with pytest.raises(DisconnectedError, match=str(server.port)):
            await open_kv(server.url, timeout=120)
        assert time.monotonic() - begun < _SLACK, "opening does not wait for a server that is down"
    finally:
        await in_thread(server.start)
    assert await store.set(_SPACE, "key", b"again") > 0
    await store.aclose()


async def test_a_silent_server_costs_the_deadline_and_no_more(server: Service, proxy: TcpProxy) -> None:
    timeout = 2.0
    store = await open_kv(through(proxy, server), timeout=timeout)
    await store.set(_SPACE, "key", b"1")
    proxy.stall()
    ticks, errors = 0, []

    async def ask(number: int) -> None:
        try:
            if number % 2:
                await store.get(_SPACE, "key")
            else:
                await store.set(_SPACE, f"silent-{number}", b"")
        except DeadlineError as error:
            errors.append(error)

    async def tick() -> None:
        nonlocal ticks
        while True:
            await anyio.sleep(0.01)
            ticks += 1

    begun = time.monotonic()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        async with anyio.create_task_group() as asking:
            # More than the store has threads: those that wait for one are held to the same deadline.
            for number in range(40):
                asking.start_soon(ask, number)
        tasks.cancel_scope.cancel()
    assert time.monotonic() - begun < timeout + _SLACK
    assert ticks >= 5, "the event loop went on"
    assert len(errors) == 40
    assert {error.seconds for error in errors} == {timeout}
    assert {("may or may not have happened" in str(error)) for error in errors} == {True, False}
    proxy.resume()
    with anyio.fail_after(_SLACK):
        await _until_answered(store)
    await store.aclose()


async def test_opening_waits_for_a_server_that_is_silent(server: Service) -> None:
    server.process.pause()
    stores: list[KeyValue] = []

    async def connect() -> None:
        stores.append(await open_kv(server.url))

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connect)
            await anyio.wait_all_tasks_blocked()
            assert not stores
            server.process.resume()
    finally:
        server.process.resume()
    assert await stores[0].set(_SPACE, "key", b"value") > 0
    await stores[0].aclose()


async def test_connections_that_went_dead_are_replaced(server: Service, proxy: TcpProxy) -> None:
    # PostgreSQL's driver gives up on a connection being made after two seconds, not earlier.
    timeout = 4.0
    store = await open_kv(through(proxy, server), timeout=timeout)

    async def ask() -> None:
        try:
            await store.get(_SPACE, "key")
        except DeadlineError:
            return

    # What is under way in a connection now never arrives.
    proxy.delay = 3_600.0
    async with anyio.create_task_group() as tasks:
        # Enough of them for each of the store's threads to be stuck.
        for _ in range(60):
            tasks.start_soon(ask)
    proxy.delay = 0.0
    # Nothing tells that the old connections are dead, and yet no thread may be waiting on one any more.
    for _ in range(16):
        assert await store.set(_SPACE, "key", b"value") > 0
    await store.aclose()


async def test_cancelled_calls_give_their_threads_back(server: Service, proxy: TcpProxy) -> None:
    store = await open_kv(through(proxy, server))
    proxy.stall()
    for turn in range(60):
        with anyio.move_on_after(0.002 * (turn % 3)):
            await store.set(_SPACE, "key", b"%d" % turn)
    proxy.resume()
    with anyio.fail_after(_SLACK):
        assert await store.set(_SPACE, "key", b"last") > 0
        async with anyio.create_task_group() as tasks:
            for _ in range(32):
                tasks.start_soon(store.get, _SPACE, "key")
    await store.aclose()


async def test_an_idle_connection_that_was_cut_is_not_noticed(server: Service, proxy: TcpProxy) -> None:
    store = await open_kv(through(proxy, server))
    for turn in range(5):
        assert await store.set(_SPACE, "idle", b"%d" % turn) > 0
        proxy.cut()
        await anyio.wait_all_tasks_blocked()
    await store.aclose()


async def test_a_connection_cut_at_any_byte(server: Service, proxy: TcpProxy) -> None:
    store = await open_kv(through(proxy, server), timeout=60)
    version = await store.set(_SPACE, "cut", b"0")
    before = proxy.to_client
    there = await store.get(_SPACE, "cut")
    length = proxy.to_client - before
    assert length > 0
    lost = 0
    for at in range(0, length + 8, 1 if length < 40 else 3):
        proxy.cut_after(to_client=at)
        with anyio.fail_after(60):
            assert await store.get(_SPACE, "cut") == there, "a read is repeated"
        proxy.cut_after(to_client=at)
        wanted = b"%d" % at
        try:
            # A write that was repeated behind the caller's back would find its own first attempt, and conflict.
            version = await store.set(_SPACE, "cut", wanted, expect=version)
        except DisconnectedError:
            lost += 1
        proxy.cut_after()
        before_it, there = there, await store.get(_SPACE, "cut")
        assert there is not None
        assert there == before_it or there.value == wanted, "a write is whole or absent"
        assert there.version >= version, "a write that returned is there"
        version = there.version
    assert lost, "cutting never hit a write"
    await store.aclose()


async def test_closing_waits_for_calls_under_way_and_no_longer(server: Service, proxy: TcpProxy) -> None:
    timeout = 2.0
    store = await open_kv(through(proxy, server), timeout=timeout)
    proxy.stall()
    errors: list[BaseException] = []

    async def ask() -> None:
        try:
            await store.get(_SPACE, "key")
        except LaserError as error:
            errors.append(error)

    begun = time.monotonic()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        await store.aclose()
    assert time.monotonic() - begun < timeout + _SLACK
    assert [type(error) for error in errors] == [DeadlineError]
    with pytest.raises(ClosedError):
        await store.get(_SPACE, "key")


async def test_a_password_shows_nowhere(server: Service, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    canary = "c4n4ry%21p4ss"
    plain = "c4n4ry!p4ss"
    good = server.url.replace(server.password, canary)
    scheme = good.partition(":")[0]
    texts: list[str] = []
    for url, kind in (
        (good, AuthenticationError),
        (good.replace(f":{server.port}/", ":1/"), DisconnectedError),
        (good.replace(f":{server.port}/", ":x/"), ConfigError),
        (good.replace("127.0.0.1", "[::1"), ConfigError),
        (good.replace("127.0.0.1", "no.such.host.invalid"), DisconnectedError),
        (good + "?nonsense=1", ConfigError),
        (good + f"#{canary}", ConfigError),
        (f"{scheme}://u:{canary}", LaserError),
    ):
        with pytest.raises(LaserError) as caught:
            await open_kv(url, timeout=60)
        assert isinstance(caught.value, kind), url
        texts += _everything(caught.value)
    store = await open_kv(server.url)
    texts.append(repr(store))
    texts.append(repr(vars(store)))
    await store.aclose()
    texts += [record.getMessage() for record in caplog.records]
    for text in texts:
        for secret in (canary, plain, server.password):
            assert secret not in text


def _everything(error: BaseException) -> list[str]:
    """Whatever a log, a debugger or an error tracker may show of an error, its local variables aside."""
    texts = ["".join(traceback.format_exception(error))]
    link: BaseException | None = error
    while link is not None:
        names = [name for name in dir(link) if not name.startswith("__")]
        texts += [repr(link), repr([getattr(link, name, None) for name in names])]
        link = link.__cause__ or link.__context__
    return texts


async def _until_answered(store: KeyValue) -> None:
    while True:
        try:
            await store.get(_SPACE, "key")
        except TransportError:
            continue
        return
