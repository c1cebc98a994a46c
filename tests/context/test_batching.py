"""Background batching: order, receipts, back-pressure, flush, and what happens when things fail."""

from __future__ import annotations

import anyio
import pytest

import laser as ls

pytestmark = pytest.mark.anyio

TOPIC = ls.AgentTopic.Sessions


async def test_every_receipt_comes_and_each_conversation_keeps_its_order(laser: ls.Laser) -> None:
    conversations = [ls.new_conversation_id() for _ in range(5)]
    receipts: dict[str, list[ls.PendingReceipt]] = {conversation: [] for conversation in conversations}
    async with laser.batching(linger=0.002, max_records=7, max_pending=50) as batch:
        for number in range(60):
            for conversation in conversations:
                receipts[conversation].append(await batch.append(conversation, TOPIC, f"{number}", agent="writer"))
    for conversation in conversations:
        messages = await laser.context(conversation).fetch(n=100)
        assert [message.text for message in messages] == [str(number) for number in range(60)]
        got = [await receipt for receipt in receipts[conversation]]
        assert [(r.partition, r.offset, r.id) for r in got] == [(m.partition, m.offset, m.record_id) for m in messages]


async def test_linger_sends_a_lone_record(laser: ls.Laser) -> None:
    conversation = ls.new_conversation_id()
    async with laser.batching(linger=0.001) as batch:
        receipt = await batch.append(conversation, TOPIC, "alone")
        with anyio.fail_after(60):
            assert (await receipt).offset >= 0
        assert receipt.done()
        assert [message.text for message in await laser.context(conversation).fetch()] == ["alone"]


async def test_flush_waits_for_what_was_queued(laser: ls.Laser) -> None:
    conversation = ls.new_conversation_id()
    async with laser.batching(linger=60.0) as batch:
        receipts = [await batch.append(conversation, TOPIC, str(number)) for number in range(3)]
        with anyio.fail_after(60):
            await batch.flush()
        assert all(receipt.done() for receipt in receipts)


async def test_append_waits_while_too_much_is_pending(laser: ls.Laser) -> None:
    conversation = ls.new_conversation_id()
    async with laser.batching(linger=60.0, max_pending=2) as batch:
        await batch.append(conversation, TOPIC, "1")
        await batch.append(conversation, TOPIC, "2")
        with anyio.move_on_after(0.1) as scope:
            await batch.append(conversation, TOPIC, "3")
        assert scope.cancelled_caught
        await batch.flush()
        with anyio.fail_after(60):
            await batch.append(conversation, TOPIC, "4")
    assert [message.text for message in await laser.context(conversation).fetch()] == ["1", "2", "4"]


async def test_a_failed_batch_fails_what_is_behind_it_and_is_raised_at_the_end(laser: ls.Laser) -> None:
    conversation = ls.new_conversation_id()
    with pytest.raises(ls.NotFoundError):
        async with laser.batching(linger=60.0, max_records=2) as batch:
            receipts = [await batch.append(conversation, "absent", str(number)) for number in range(5)]
    for receipt in receipts:
        with pytest.raises(ls.NotFoundError):
            await receipt


async def test_an_error_that_a_receipt_reported_is_not_raised_again(laser: ls.Laser) -> None:
    async with laser.batching(linger=0.0) as batch:
        receipt = await batch.append(ls.new_conversation_id(), "absent", "x")
        with pytest.raises(ls.NotFoundError):
            await receipt


async def test_leaving_by_an_exception_sends_nothing_more(laser: ls.Laser) -> None:
    conversation = ls.new_conversation_id()
    with pytest.raises(RuntimeError, match="mine"):
        async with laser.batching(linger=60.0) as batch:
            receipt = await batch.append(conversation, TOPIC, "x")
            raise RuntimeError("mine")
    with pytest.raises(ls.ClosedError):
        await receipt
    assert await laser.context(conversation).fetch() == []
    with pytest.raises(ls.ClosedError):
        await batch.append(conversation, TOPIC, "y")


async def test_bad_input_is_refused_at_the_append(laser: ls.Laser) -> None:
    async with laser.batching() as batch:
        with pytest.raises(ls.InvalidError, match="payload"):
            await batch.append(ls.new_conversation_id(), TOPIC, 5)  # type: ignore[arg-type]
        with pytest.raises(ls.IdError):
            await batch.append("x", TOPIC, "y")


@pytest.mark.parametrize(
    "arguments", [{"linger": -1}, {"linger": float("nan")}, {"max_records": 0}, {"max_bytes": 0}, {"max_pending": -1}]
)
async def test_bad_settings_name_themselves(memory_laser: ls.Laser, arguments: dict[str, float]) -> None:
    with pytest.raises(ls.InvalidError, match=next(iter(arguments))):
        memory_laser.batching(**arguments)  # type: ignore[arg-type]
