"""The Redis engine: the conformance suite, and what is its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from urllib.parse import quote

import anyio
import pytest
import redis
from anyio.lowlevel import checkpoint

from laser.engines.redis import open_redis_kv
from laser.engines.redis.errors import translate
from laser.errors import AuthenticationError, CodecError, ConfigError, TransportError, UnsupportedError
from laser.ports.kv import KeyValue
from laser.testing import KeyValueConformance
from laser.testing.cluster import free_ports
from laser.testing.kv_cases.base import HARD_KEYS
from laser.testing.redis_server import RedisServer, find_redis, run_redis

pytestmark = pytest.mark.anyio


class TestRedisKeyValue(KeyValueConformance):
    @pytest.fixture(autouse=True)
    def _server(self, redis_server: RedisServer) -> None:
        self.url = redis_server.url

    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[KeyValue]:
        store = await open_redis_kv(self.url)
        try:
            yield store
        finally:
            await store.aclose()


SPACE = "own"


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    """A server whose settings a test may change."""
    if missing := find_redis(own=True):
        pytest.skip(missing)
    with run_redis(own=True) as server:
        yield server


@pytest.fixture
def raw(own_server: RedisServer) -> Iterator[redis.Redis]:
    """The driver itself, beside the store."""
    with redis.Redis(port=own_server.port, password=own_server.password) as client:
        yield client


@pytest.fixture
async def store(own_server: RedisServer) -> AsyncIterator[KeyValue]:
    store = await open_redis_kv(own_server.url, timeout=30)
    yield store
    await store.aclose()


async def test_scripts_that_the_server_forgot_are_sent_again(store: KeyValue, raw: redis.Redis) -> None:
    await store.set(SPACE, "key", b"1")
    for call in (
        lambda: store.set(SPACE, "key", b"2"),
        lambda: store.scan(SPACE),
        lambda: store.delete(SPACE, "key"),
    ):
        raw.script_flush()
        await call()
    assert await store.get(SPACE, "key") is None


async def test_nothing_is_left_of_expired_entries(store: KeyValue, raw: redis.Redis) -> None:
    for number in range(50):
        await store.set(SPACE, f"{number}", b"value", ttl_micros=1)
    await _until(raw, "laser:kv1:{own}:v:*", 0)
    page = await store.scan(SPACE)
    assert (page.entries, page.next) == ([], None)
    assert {key.decode() for key in raw.keys("*")} == {"laser:kv1:{own}:versions"}


async def test_writes_that_expire_keep_the_index_small(store: KeyValue, raw: redis.Redis) -> None:
    for number in range(50):
        await store.set(SPACE, f"{number}", b"value", ttl_micros=1)
    await _until(raw, "laser:kv1:{own}:v:*", 0)
    for _ in range(8):
        await store.set(SPACE, "same", b"value", ttl_micros=3_600_000_000)
    assert raw.zcard("laser:kv1:{own}:keys") == 1
    assert raw.zcard("laser:kv1:{own}:ends") == 1


async def test_databases_are_apart(own_server: RedisServer, store: KeyValue) -> None:
    other = await open_redis_kv(own_server.url.replace("/0", "/1"))
    await store.set(SPACE, "key", b"in 0")
    assert await other.get(SPACE, "key") is None
    await other.aclose()
    with pytest.raises(ConfigError, match="database"):
        await open_redis_kv(own_server.url.replace("/0", "/99"))


async def test_a_value_of_somebody_else_is_refused(store: KeyValue, raw: redis.Redis) -> None:
    raw.set("laser:kv1:{own}:v:foreign", b"no version here")
    with pytest.raises(CodecError, match="foreign"):
        await store.get(SPACE, "foreign")
    raw.delete("laser:kv1:{own}:v:foreign")
    raw.lpush("laser:kv1:{own}:v:list", b"a")
    with pytest.raises(TransportError, match="WRONGTYPE"):
        await store.get(SPACE, "list")


async def test_a_full_server_refuses_writes_and_stays_usable(store: KeyValue, raw: redis.Redis) -> None:
    await store.set(SPACE, "key", b"1")
    raw.config_set("maxmemory", 1)
    with pytest.raises(TransportError, match="memory is full"):
        await store.set(SPACE, "key", b"2")
    entry = await store.get(SPACE, "key")
    assert entry is not None
    assert entry.value == b"1"
    assert await store.delete(SPACE, "key") is True
    raw.config_set("maxmemory", 0)
    assert await store.set(SPACE, "key", b"3") > entry.version


async def test_writes_wait_for_a_replica_that_becomes_primary(store: KeyValue, raw: redis.Redis) -> None:
    await store.set(SPACE, "key", b"1")
    raw.replicaof("127.0.0.1", 1)
    versions: list[int] = []

    async def write() -> None:
        versions.append(await store.set(SPACE, "key", b"2"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        await anyio.sleep(0.1)
        assert not versions, "a replica takes no writes"
        raw.replicaof("NO", "ONE")
    entry = await store.get(SPACE, "key")
    assert entry is not None
    assert [entry.version] == versions


async def test_opening_waits_for_a_server_that_is_full(own_server: RedisServer, raw: redis.Redis) -> None:
    raw.config_set("maxclients", 1)
    stores: list[KeyValue] = []

    async def connect() -> None:
        stores.append(await open_redis_kv(own_server.url))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connect)
        await anyio.sleep(0.1)
        assert not stores
        raw.config_set("maxclients", 100)
    await stores[0].aclose()


async def test_users_and_their_rights(own_server: RedisServer, raw: redis.Redis) -> None:
    raw.acl_setuser("limited", enabled=True, passwords=["+pw"], keys=["other:*"], commands=["+get"])
    raw.acl_setuser("able", enabled=True, passwords=["+p@w"], keys=["laser:kv1:*"], categories=["+@all"])
    base = f"127.0.0.1:{own_server.port}/0"
    with pytest.raises(AuthenticationError, match="EVALSHA"):
        await open_redis_kv(f"redis://limited:pw@{base}")
    store = await open_redis_kv(f"redis://able:p%40w@{base}")
    await store.set(SPACE, "key", b"1")
    assert len((await store.scan(SPACE)).entries) == 1
    await store.aclose()


async def test_a_namespace_lives_in_one_slot_of_a_cluster() -> None:
    if missing := find_redis(own=True):
        pytest.skip(missing)
    with (
        run_redis(own=True, arguments=["--cluster-enabled", "yes", "--cluster-port", f"{free_ports(1)[0]}"]) as server,
        redis.Redis(port=server.port, password=server.password) as raw,
    ):
        raw.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16_383)
        # The node decides that its cluster of one works a moment later, and is waited for.
        store = await open_redis_kv(server.url, timeout=60)
        for namespace in ("a", "a}b", "}", "{", "{}"):
            for key in HARD_KEYS[:40]:
                await store.set(namespace, key, b"value", ttl_micros=3_600_000_000)
            assert len((await store.scan(namespace)).entries) == 40
            assert await store.delete(namespace, "a") is True
            slots = {
                raw.execute_command("CLUSTER KEYSLOT", key) for key in raw.keys("*") if key.startswith(_tag(namespace))
            }
            assert len(slots) == 1
        await store.aclose()


async def test_a_node_of_a_cluster_is_told_apart_from_a_server_that_is_down() -> None:
    failure = translate(redis.exceptions.MovedError("1 127.0.0.1:1"), "the store", 1.0)
    assert isinstance(failure.error, UnsupportedError)


def _tag(namespace: str) -> bytes:
    return f"laser:kv1:{{{quote(namespace, safe='')}}}:".encode()


async def _until(raw: redis.Redis, pattern: str, count: int) -> None:
    with anyio.fail_after(60):
        while len(raw.keys(pattern)) != count:
            await checkpoint()
