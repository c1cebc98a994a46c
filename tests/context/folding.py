"""Folds, conversations and stores that the tests of state share."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import laser as ls
from laser.model.ids import new_record_id
from laser.model.records import NewRecord
from laser.wire.blocks import STRING, Header, encode_block
from laser.wire.provenance import encode_provenance

SESSIONS: list[str] = [ls.AgentTopic.Sessions]


def count(state: int, message: ls.ContextMessage) -> int:
    """How many messages there are."""
    return state + 1


def texts(state: list[str], message: ls.ContextMessage) -> list[str]:
    """Every text, in order. Changes the state in place, as many a user's fold does."""
    state.append(message.text)
    return state


def chain(state: str, message: ls.ContextMessage) -> str:
    """A hash over every message and its place, in order: one message more, less, twice or elsewhere changes it."""
    place = f"{state}|{message.topic}|{message.partition}|{message.offset}|{message.record_id}|"
    return hashlib.sha256(place.encode() + message.payload).hexdigest()


class ListStore:
    """A store of one's own with plain methods: keeps every snapshot, the last one is the latest."""

    def __init__(self, *kept: ls.Snapshot) -> None:
        self.kept: list[ls.Snapshot] = list(kept)

    def latest(self, conversation: str) -> ls.Snapshot | None:
        found = [snapshot for snapshot in self.kept if snapshot.conversation == conversation]
        return found[-1] if found else None

    def save(self, snapshot: ls.Snapshot) -> None:
        self.kept.append(snapshot)


async def partition_of(scope: ls.ContextScope, topic: str = ls.AgentTopic.Sessions) -> int:
    """The partition that the conversation's records go to; appends one to find out."""
    return (await scope.append(topic, "where?")).partition


async def append_raw(
    laser: ls.Laser, topic: str, key: str, records: Sequence[tuple[int, bytes]], *, conversation: str | None = None
) -> None:
    """Appends records with ids of the caller's own, past every check for copies."""
    headers = encode_provenance(ls.Provenance(conversation_id=conversation or key))
    made = [NewRecord(number, payload, headers) for number, payload in records]
    await laser.open_log().append(laser.stream, topic, made, key=key)


async def append_garbage(laser: ls.Laser, topic: str, key: str) -> None:
    """Appends a record that says to be of the conversation and cannot be decoded: its fence is no number."""
    headers = encode_block(
        [Header(b"agdx.fence", STRING, b"none"), Header(b"gen_ai.conversation.id", STRING, key.encode())]
    )
    await laser.open_log().append(laser.stream, topic, [NewRecord(new_record_id(), b"garbage", headers)], key=key)
