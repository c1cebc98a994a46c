"""Real input: 200 conversations, 5,308 messages in, all out, byte for byte."""

from __future__ import annotations

import anyio
import pytest

import laser as ls
from tests.context.logs import SESSIONS
from tests.context.making import payloads
from tests.shared import airline_conversations

pytestmark = pytest.mark.anyio


async def test_every_message_of_200_conversations_comes_back(laser: ls.Laser, engine_url: str) -> None:
    conversations = {ls.new_conversation_id(): messages for messages in airline_conversations()}
    assert sum(map(len, conversations.values())) == 5_308
    receipts: list[ls.AppendReceipt] = []
    # Four writers, each with conversations of its own, as batches and one by one.
    limit = anyio.CapacityLimiter(4)

    async def write(number: int, conversation: str, messages: list[bytes]) -> None:
        async with limit:
            scope = laser.context(conversation)
            if number % 4:
                receipts.extend(await scope.append_many(SESSIONS, messages, agent="importer"))
                return
            for message in messages:
                receipts.append(await scope.append(SESSIONS, message, agent="importer"))  # noqa: PERF401

    async with anyio.create_task_group() as tasks:
        for number, (conversation, messages) in enumerate(conversations.items()):
            tasks.start_soon(write, number, conversation, messages)
    assert len({(one.partition, one.offset) for one in receipts}) == len({one.id for one in receipts}) == 5_308
    ends = {part.id: part.end for part in (await laser.topic(SESSIONS)).partitions}
    assert sum(ends.values()) == 5_308
    if engine_url == "memory:":
        await _check(laser, conversations)
        return
    async with ls.Laser.connect(engine_url, stream=laser.stream) as another:
        await _check(another, conversations)


async def _check(laser: ls.Laser, conversations: dict[str, list[bytes]]) -> None:
    for conversation, messages in conversations.items():
        read = await laser.context(conversation).fetch(n=10_000)
        assert payloads(read) == messages
        assert read.skipped == ()
        assert {message.provenance.conversation_id for message in read} == {conversation}
