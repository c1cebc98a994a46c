"""laser-sdk, the nearest peer: a compiled client of the same log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

import laser as ls
from benchmarks.peers.facts import Fact, peer_url, provenance_headers

__all__ = ["append_singly", "connect_sdk", "sdk_facts", "sdk_missing", "send_batch", "topic_store"]


def sdk_missing() -> str | None:
    """Why laser-sdk cannot be measured here; ``None`` when it can."""
    try:
        import_module("laser_sdk")
    except ImportError as error:
        return f"laser-sdk cannot be imported ({error}); it has wheels for Linux on x86-64 only"
    return None


@asynccontextmanager
async def connect_sdk(url: str, stream: str) -> AsyncIterator[Any]:
    """A client of laser-sdk. Topics must be there: its own bootstrap sends options that older servers refuse."""
    client: Any = await import_module("laser_sdk").Laser.connect(peer_url(url), stream=stream)
    try:
        yield client
    finally:
        await client.close()


def sdk_facts(messages: Iterable[Any]) -> list[Fact]:
    """The facts of its messages."""
    return [(message.id.partition_id, message.id.offset, bytes(message.payload)) for message in messages]


async def send_batch(producer: Any, conversation: str, payloads: Sequence[bytes]) -> None:
    """Its fastest way to write a conversation's records: one batch of a topic's producer."""
    headers = provenance_headers(conversation)
    await producer.send_batch([(payload, headers) for payload in payloads], key=conversation)


async def append_singly(context: Any, payloads: Sequence[bytes]) -> None:
    """Its only way to append to a conversation by name: one record at a time."""
    for payload in payloads:
        await context.append(ls.AgentTopic.Sessions, payload)


def topic_store(client: Any, fold: str) -> Any:
    """Its store of snapshots on ``agent.snapshots``."""
    return import_module("laser_sdk").TopicSnapshotStore(client, fold)
