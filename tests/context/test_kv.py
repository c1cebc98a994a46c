"""``KvNamespace``: what it does with arguments, and its scans. What stores do is the conformance suite's business."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import laser as ls
from laser.client.opening import read_target
from laser.context.kv import KvNamespace
from laser.engines.memory import MemoryKeyValue
from laser.errors import ConflictError, InvalidError, LimitError
from laser.limits import MAX_KV_KEY_BYTES, MAX_KV_NAMESPACE_BYTES, MAX_KV_VALUE_BYTES, MAX_SCAN_LIMIT
from laser.ports.kv import ABSENT, KeyValue
from laser.ports.log import Log
from laser.testing.clock import SetClock

pytestmark = pytest.mark.anyio

_NOW = 1_700_000_000_000_000


class Client:
    """An open client of which only the key-value store is asked for."""

    stream = "test"

    def __init__(self, store: KeyValue) -> None:
        self.store = store
        self.opened = 0

    def open_log(self) -> Log:
        raise AssertionError("no log is needed")

    async def open_kv(self) -> KeyValue:
        self.opened += 1
        return self.store


@pytest.fixture
def clock() -> SetClock:
    return SetClock(_NOW)


@pytest.fixture
async def client(clock: SetClock) -> AsyncIterator[Client]:
    store = MemoryKeyValue(clock=clock)
    yield Client(store)
    await store.aclose()


@pytest.fixture
def kv(client: Client) -> KvNamespace:
    return KvNamespace(client, "space")


async def test_set_get_delete(kv: KvNamespace) -> None:
    assert await kv.get("key") is None
    version = await kv.set("key", b"value")
    assert await kv.get("key") == b"value"
    entry = await kv.get_entry("key")
    assert entry is not None
    assert (entry.version, entry.expires_at_micros) == (version, None)
    assert await kv.delete("key") is True
    assert await kv.delete("key") is False
    assert await kv.get_entry("key") is None


async def test_text_becomes_utf8_and_buffers_bytes(kv: KvNamespace) -> None:
    for value, stored in (("é", b"\xc3\xa9"), (bytearray(b"a"), b"a"), (memoryview(b"b"), b"b"), ("", b"")):
        await kv.set("key", value)  # type: ignore[arg-type]
        assert await kv.get("key") == stored


async def test_expect(kv: KvNamespace) -> None:
    version = await kv.set("key", "1", expect=ABSENT)
    with pytest.raises(ConflictError):
        await kv.set("key", "2", expect=ABSENT)
    assert await kv.set("key", "2", expect=version) > version
    with pytest.raises(ConflictError):
        await kv.delete("key", expect=version)


@pytest.mark.parametrize(
    ("ttl", "micros"),
    [
        (timedelta(seconds=1), 1_000_000),
        (timedelta(microseconds=1), 1),
        (timedelta(days=36_500), 36_500 * 86_400 * 1_000_000),
        (1, 1_000_000),
        (0.1, 100_000),
        (1e-9, 1),
        (3_153_600_000.0, 36_500 * 86_400 * 1_000_000),
    ],
)
async def test_times_to_live(kv: KvNamespace, clock: SetClock, ttl: timedelta | float, micros: int) -> None:
    await kv.set("key", b"", ttl=ttl)
    entry = await kv.get_entry("key")
    assert entry is not None
    assert entry.expires_at_micros == _NOW + micros
    clock.micros += micros
    assert await kv.get("key") is None


async def test_a_scan_is_whole_and_in_order(kv: KvNamespace, client: Client) -> None:
    keys = [f"{number:03}" for number in range(250)]
    for key in reversed(keys):
        await kv.set(key, key)
    await KvNamespace(client, "space2").set("000", "another namespace's")
    assert [entry.key async for entry in kv.scan()] == keys
    assert [entry.value.decode() async for entry in kv.scan("1")] == keys[100:200]
    assert [entry.key async for entry in kv.scan("1", after="150")] == keys[151:200]
    assert [entry.key async for entry in kv.scan(limit=120)] == keys[:120]
    assert [entry.key async for entry in kv.scan(limit=100)] == keys[:100]
    assert [entry.key async for entry in kv.scan("9", limit=5)] == []


async def test_a_scan_may_be_left_early(kv: KvNamespace) -> None:
    for number in range(5):
        await kv.set(f"{number}", b"")
    async for entry in kv.scan():
        assert entry.key == "0"
        break
    scan = kv.scan(limit=2)
    assert [entry.key async for entry in scan] == ["0", "1"]
    assert [entry.key async for entry in scan] == []


async def test_a_scan_of_nothing_asks_nothing(kv: KvNamespace, client: Client) -> None:
    assert [entry async for entry in kv.scan(limit=0)] == []
    assert client.opened == 0


async def test_pages(kv: KvNamespace) -> None:
    for key in "abcde":
        await kv.set(key, key)
    first = await kv.page(limit=2)
    assert ([entry.key for entry in first.entries], first.next) == (["a", "b"], "b")
    rest = await kv.page(after=first.next)
    assert ([entry.key for entry in rest.entries], rest.next) == (["c", "d", "e"], None)
    assert [entry.key for entry in (await kv.page("c")).entries] == ["c"]


async def test_the_limits_themselves_are_allowed(client: Client) -> None:
    kv = KvNamespace(client, "é" * (MAX_KV_NAMESPACE_BYTES // 2))
    await kv.set("é" * (MAX_KV_KEY_BYTES // 2), b"v" * MAX_KV_VALUE_BYTES)
    assert len((await kv.page(limit=MAX_SCAN_LIMIT)).entries) == 1


_LONG = "é" * (MAX_KV_KEY_BYTES // 2) + "a"
_SURROGATE = "a\ud83d"


_NO_KEYS = ("", None, b"key", 1, _LONG, _SURROGATE)
_NO_VALUES = (None, 1, {"a": 1}, _SURROGATE, b"v" * (MAX_KV_VALUE_BYTES + 1), "é" * (MAX_KV_VALUE_BYTES // 2 + 1))
_NO_VERSIONS = (-1, True, 1.0, "1", 2**53)
_NO_SECONDS = (0, -1, 0.0, float("nan"), float("inf"), True, "1", 3_153_600_001, 1e300)
_NO_TIMES = (*_NO_SECONDS, timedelta(0), timedelta(-1), timedelta(days=36_501))
_NO_PREFIXES = (None, b"a", _LONG, _SURROGATE)
_NO_LIMITS = (0, -1, MAX_SCAN_LIMIT + 1, 1.0, True, None)

Call = Callable[[KvNamespace, Any], Awaitable[Any]]


def _each(argument: str, values: tuple[Any, ...], *calls: Call) -> list[Any]:
    return [
        pytest.param(argument, value, call, id=f"{argument}-{turn}-{number}")
        for turn, call in enumerate(calls)
        for number, value in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("argument", "value", "call"),
    [
        *_each("key", _NO_KEYS, lambda kv, key: kv.get(key), lambda kv, key: kv.get_entry(key)),
        *_each("key", _NO_KEYS, lambda kv, key: kv.set(key, b""), lambda kv, key: kv.delete(key)),
        *_each("value", _NO_VALUES, lambda kv, value: kv.set("key", value)),
        *_each("expect", _NO_VERSIONS, lambda kv, expect: kv.set("key", b"", expect=expect)),
        *_each("expect", _NO_VERSIONS, lambda kv, expect: kv.delete("key", expect=expect)),
        *_each("ttl", _NO_TIMES, lambda kv, ttl: kv.set("key", b"", ttl=ttl)),
        *_each("prefix", _NO_PREFIXES, lambda kv, prefix: kv.page(prefix)),
        *_each("after", (1, _LONG, _SURROGATE), lambda kv, after: kv.page(after=after)),
        *_each("limit", _NO_LIMITS, lambda kv, limit: kv.page(limit=limit)),
    ],
)
async def test_a_bad_argument_is_named_before_anything_is_asked(
    kv: KvNamespace, client: Client, argument: str, value: Any, call: Call
) -> None:
    with pytest.raises(InvalidError, match=f"^{argument}: ") as caught:
        await call(kv, value)
    assert caught.value.argument == argument
    assert len(str(caught.value)) < 300
    assert client.opened == 0


@pytest.mark.parametrize(
    ("argument", "arguments"),
    [
        *[("prefix", {"prefix": prefix}) for prefix in (None, b"a", _LONG)],
        *[("after", {"after": after}) for after in (1, _LONG)],
        *[("limit", {"limit": limit}) for limit in (-1, 1.0, True, "1")],
    ],
)
def test_a_bad_argument_of_a_scan_is_named_at_the_call(argument: str, arguments: dict[str, Any]) -> None:
    kv = KvNamespace(Client(None), "space")  # type: ignore[arg-type]
    with pytest.raises(InvalidError, match=f"^{argument}: ") as caught:
        kv.scan(**arguments)
    assert caught.value.argument == argument


@pytest.mark.parametrize("namespace", ["", None, b"space", 7, "é" * 64 + "a", _SURROGATE])
def test_a_bad_namespace_is_refused(namespace: Any) -> None:
    with pytest.raises(InvalidError, match=r"^namespace: ") as caught:
        KvNamespace(Client(None), namespace)  # type: ignore[arg-type]
    assert caught.value.argument == "namespace"


async def test_what_is_too_long_carries_its_numbers(kv: KvNamespace) -> None:
    with pytest.raises(LimitError) as caught:
        await kv.get(_LONG)
    assert (caught.value.size, caught.value.limit) == (MAX_KV_KEY_BYTES + 1, MAX_KV_KEY_BYTES)


async def test_repr_tells_the_namespace(kv: KvNamespace) -> None:
    assert repr(kv) == "KvNamespace('space')"


async def test_a_client_hands_out_namespaces(engine_url: str, stream_name: str, tmp_path: Path) -> None:
    kv = f"embedded:{tmp_path / 'kv'}" if "@" in engine_url else None
    async with ls.Laser.connect(engine_url, stream=stream_name, kv=kv) as laser:
        settings = laser.kv("settings")
        await settings.set("colour", "blue")
        assert await settings.get("colour") == b"blue"
        assert await laser.kv("setting").get("colour") is None
        with pytest.raises(ls.ConflictError):
            await settings.set("colour", "red", expect=ls.ABSENT)
    with pytest.raises(ls.ClosedError):
        await settings.get("colour")


async def test_a_server_without_a_store_says_what_to_give() -> None:
    target = read_target("u:p@127.0.0.1:1", None, None, None, 1.0)
    with pytest.raises(ls.ConfigError, match="give kv="):
        await target.open_kv()
