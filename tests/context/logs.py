"""What tests of several engines share: writing records by another hand, and where topics end."""

from __future__ import annotations

from collections.abc import Sequence

import laser as ls
from laser.model.ids import new_record_id
from laser.model.records import NewRecord
from laser.ports.log import Log

SESSIONS = ls.AgentTopic.Sessions


def port(client: ls.Laser) -> Log:
    """The log behind a client, for what its public methods would refuse."""
    return client.open_log()


async def put_raw(client: ls.Laser, topic: str, key: str, *records: tuple[bytes, bytes]) -> list[int]:
    """Appends records of (header block, payload) as they are; returns their offsets."""
    made = [NewRecord(new_record_id(), payload, headers) for headers, payload in records]
    done = await port(client).append(client.stream, topic, made, key=key)
    return list(done.offsets)


async def ends(client: ls.Laser) -> dict[str, list[int]]:
    """Where each partition of each topic ends."""
    return {info.name: [part.end for part in info.partitions] for info in await client.topics()}


def places(messages: Sequence[ls.ContextMessage]) -> list[tuple[str, int, int]]:
    """Topic, partition and offset of messages."""
    return [(one.topic, one.partition, one.offset) for one in messages]


async def client_on(log: Log, stream: str) -> ls.Laser:
    """A client on a log that the test opened itself, such as one with a clock of the test's own."""
    client = await ls.Laser.connect("memory:", stream=stream)
    await client.open_log().aclose()
    client._log = log
    return client
