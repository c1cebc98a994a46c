"""The raw ``apache-iggy`` client, with what a program of its own would have to write around it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any, Final

from apache_iggy import (
    Consumer,
    HeaderKey,
    HeaderValue,
    IggyClient,
    Partitioning,
    PollingStrategy,
    ReceiveMessage,
    SendMessage,
)

import laser as ls
from benchmarks.peers.facts import CONVERSATION, Fact, peer_url, provenance_headers

__all__ = ["RawClient"]

_WINDOW: Final = ls.CONTEXT_READ_WINDOW


class RawClient:
    """Reads and writes one stream's ``agent.sessions``."""

    def __init__(self, client: IggyClient, stream: str) -> None:
        self._client = client
        self._stream = stream
        self._topic: str = ls.AgentTopic.Sessions

    @staticmethod
    @asynccontextmanager
    async def connect(url: str, stream: str) -> AsyncIterator[RawClient]:
        """A client with a connection of its own."""
        client = IggyClient.from_connection_string(peer_url(url))
        await client.connect()
        try:
            yield RawClient(client, stream)
        finally:
            await client.logout_user()

    async def append(self, conversation: str, payloads: Sequence[bytes]) -> None:
        """Writes records as one batch, with the provenance that our appends write."""
        headers = _headers(conversation)
        messages = [SendMessage(payload, headers) for payload in payloads]
        await self._client.send_messages(self._stream, self._topic, Partitioning.messages_key(conversation), messages)

    async def newest(self, conversation: str, n: int) -> list[Fact]:
        """The newest records of a conversation among the newest 10,000 of each partition."""
        polls = [self._poll(part, PollingStrategy.Last(), _WINDOW) for part in range(await self._partitions())]
        found: list[tuple[int, int, int, bytes]] = []
        for messages in await asyncio.gather(*polls):
            found += (
                (message.timestamp(), message.partition_id(), message.offset(), message.payload())
                for message in messages
                if _belongs(message, conversation)
            )
        found.sort()
        return [(partition, offset, payload) for _, partition, offset, payload in found[-n:]] if n else []

    async def count_bytes(self, conversation: str) -> int:
        """The payload bytes of all of a conversation's records."""
        total = 0
        for partition in range(await self._partitions()):
            offset = 0
            while messages := await self._poll(partition, PollingStrategy.Offset(offset), _WINDOW):
                total += sum(len(message.payload()) for message in messages if _belongs(message, conversation))
                offset = messages[-1].offset() + 1
        return total

    async def _partitions(self) -> int:
        topic = await self._client.get_topic(self._stream, self._topic)
        assert topic is not None
        return topic.partitions_count

    async def _poll(self, partition: int, strategy: PollingStrategy, count: int) -> list[ReceiveMessage]:
        return await self._client.poll_messages(
            self._stream,
            self._topic,
            consumer=Consumer.Single(1),
            polling_strategy=strategy,
            count=count,
            auto_commit=False,
            partition_id=partition,
        )


def _belongs(message: ReceiveMessage, conversation: str) -> bool:
    headers: Any = message.user_headers()
    return headers is not None and headers.to_scalar_dict().get(CONVERSATION) == conversation


@lru_cache(maxsize=1024)
def _headers(conversation: str) -> dict[HeaderKey, HeaderValue]:
    return {HeaderKey.String(key): HeaderValue.String(value) for key, value in provenance_headers(conversation).items()}
