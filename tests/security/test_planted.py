"""Planted leaks: logs and stores that mix tenants up, errors and texts that hold a password. The checks see each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import laser as ls
from laser.client.opening import read_target
from laser.engines.memory import MemoryKeyValue, MemoryLog
from laser.ports.kv import ANY, KvEntry, KvPage
from tests.security import test_canary, test_tenants
from tests.security.test_canary import CANARY, all_of
from tests.security.test_tenants import TOPIC, Pair

pytestmark = pytest.mark.anyio


class _AnyKey(dict[str, Any]):
    """Holds one thing, whatever it is asked for."""

    def get(self, key: str, default: Any = None) -> Any:
        return super().get("", default)

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__("")

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__("", value)


class _OneStream(MemoryLog):
    """All streams are one."""

    def __init__(self) -> None:
        super().__init__()
        self._streams = _AnyKey()


class _OneCase(MemoryKeyValue):
    """Namespaces that look alike are one."""

    async def get(self, namespace: str, key: str) -> KvEntry | None:
        return await super().get(namespace.lower(), key)

    async def set(
        self, namespace: str, key: str, value: bytes, *, expect: int = ANY, ttl_micros: int | None = None
    ) -> int:
        return await super().set(namespace.lower(), key, value, expect=expect, ttl_micros=ttl_micros)

    async def scan(self, namespace: str, **options: Any) -> KvPage:
        return await super().scan(namespace.lower(), **options)


async def _pair(log: MemoryLog, kv: MemoryKeyValue) -> Pair:
    clients: list[ls.Laser] = []
    for stream in ("s", "s2"):
        client = ls.Laser(log, read_target("memory:", None, stream, None, 30.0))
        client._kv = kv
        for topic in (TOPIC, ls.AgentTopic.Snapshots, ls.AgentTopic.Control):
            await client.ensure_topic(topic, 1)
        clients.append(client)
    return clients[0], clients[1]


@pytest.mark.parametrize(
    ("log", "kv", "check"),
    [
        (_OneStream, MemoryKeyValue, test_tenants.test_streams_with_equal_ids_see_nothing_of_each_other),
        (_OneStream, MemoryKeyValue, test_tenants.test_checkpoints_of_one_stream_are_refused_by_the_other),
        (_OneStream, MemoryKeyValue, test_tenants.test_sessions_and_deletes_stay_in_their_stream),
        (_OneStream, MemoryKeyValue, test_tenants.test_snapshots_of_one_stream_are_not_the_others),
        (MemoryLog, _OneCase, test_tenants.test_key_value_namespaces_are_apart_whatever_their_names),
    ],
)
async def test_tenants_that_are_mixed_up(
    log: type[MemoryLog], kv: type[MemoryKeyValue], check: Callable[[Pair], Awaitable[None]]
) -> None:
    await check(await _pair(MemoryLog(), MemoryKeyValue()))
    with pytest.raises((AssertionError, pytest.fail.Exception, ls.LaserError)):
        await check(await _pair(log(), kv()))


def _told() -> ls.LaserError:
    return ls.DisconnectedError(f"no way to {CANARY}")


def _kept() -> ls.LaserError:
    error = ls.DisconnectedError("no way")
    error.__dict__["url"] = f"u:{CANARY}@host"
    return error


def _caused() -> ls.LaserError:
    error = ls.DisconnectedError("no way")
    error.__cause__ = OSError(CANARY)
    return error


def _hidden() -> ls.LaserError:
    error = ls.DisconnectedError("no way")
    error.__context__, error.__suppress_context__ = OSError(CANARY), True
    return error


@pytest.mark.parametrize("leak", [_told, _kept, _caused, _hidden])
def test_a_password_in_an_error(leak: Callable[[], ls.LaserError]) -> None:
    assert CANARY in all_of(leak())
    assert CANARY not in all_of(ls.DisconnectedError("no way"))


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_password_in_what_a_client_says_of_itself(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kind = type(ls.Laser.connect("memory:"))
    monkeypatch.setattr(kind, "__repr__", lambda self: f"<about to use {CANARY}>")
    with pytest.raises(AssertionError):
        await test_canary.test_urls_that_are_wrong_in_every_part(caplog)
