"""Appending: what went in comes out as it was, once, in order, on every engine."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

import laser as ls
from laser.model.records import LogRecord
from laser.wire.blocks import decode_block
from tests.context.logs import SESSIONS, port, put_raw
from tests.context.making import payloads

pytestmark = pytest.mark.anyio

A = ls.derive_conversation_id("a")
B = ls.derive_conversation_id("b")


async def test_a_receipt_names_the_place_of_the_message(laser: ls.Laser) -> None:
    receipt = await laser.context(A).append(SESSIONS, b"hello", agent="planner")
    (message,) = await laser.context(A).fetch()
    info = await laser.topic(SESSIONS)
    assert (message.payload, message.text, message.topic) == (b"hello", "hello", SESSIONS)
    assert (message.partition, message.offset, message.record_id) == (receipt.partition, receipt.offset, receipt.id)
    assert message.id == f"{receipt.partition}:{receipt.offset}"
    assert (receipt.stream_id, receipt.topic_id) == (message.stream_id, message.topic_id)
    assert (receipt.stream_id, receipt.topic_id) == (info.stream_id, info.topic_id)
    assert message.timestamp_micros > 1_600_000_000_000_000
    assert message.provenance == ls.Provenance(conversation_id=A, agent="planner")
    assert message.envelope is None


async def test_e2_a_call_and_its_result_are_written_together(laser: ls.Laser) -> None:
    """By several writers in one batch: next to each other, all or none."""
    scope = laser.context(A)
    shared = ls.Provenance(correlation_id="7")
    receipts = await scope.append_many(
        SESSIONS, ["question", "call", "", "answer"], agent=["user", "assistant", "tool", None], provenance=shared
    )
    assert [receipt.offset for receipt in receipts] == list(range(receipts[0].offset, receipts[0].offset + 4))
    messages = await scope.fetch()
    assert [message.provenance.agent for message in messages] == ["user", "assistant", "tool", None]
    assert payloads(messages) == [b"question", b"call", b"", b"answer"]
    assert {message.provenance.correlation_id for message in messages} == {"7"}
    assert await scope.append_many(SESSIONS, [], agent=[]) == []
    (one,) = await scope.append_many(SESSIONS, ["x"], agent=["planner"])
    assert (await scope.fetch(n=1))[0].provenance.agent == "planner"
    assert (await scope.fetch(n=1))[0].record_id == one.id


@pytest.mark.parametrize(
    ("agent", "text"),
    [
        (["a"], "1 names for 2 payloads"),
        (["a", "b", "c"], "3 names for 2 payloads"),
        (["a", 3], r"agent\[1\]: expected a name, got int"),
        (["a", ""], "agent"),
        (["a", "x" * 256], "agent"),
        (b"ab", "expected a name, or a list"),
        ({"a": 1, "b": 2}, "expected a name, or a list"),
    ],
)
async def test_bad_writers_write_nothing(laser: ls.Laser, agent: Any, text: str) -> None:
    with pytest.raises(ls.InvalidError, match=text):
        await laser.context(A).append_many(SESSIONS, ["one", "two"], agent=agent)
    assert await laser.context(A).fetch() == []


@pytest.mark.parametrize(
    "payload", [b"x", "é", "text", b"\xa1", b"\0", b"\0\0", bytes(range(256)), bytearray(b"ab"), memoryview(b"ab")]
)
async def test_g2_g3_payloads_come_back_byte_for_byte(laser: ls.Laser, payload: bytes | str) -> None:
    await laser.context(A).append(SESSIONS, payload)
    (message,) = await laser.context(A).fetch()
    assert message.payload == (payload.encode() if isinstance(payload, str) else bytes(payload))
    assert message.text == message.payload.decode("utf-8", "replace")


async def test_g1_empty_content_round_trips(laser: ls.Laser) -> None:
    scope = laser.context(A)
    await scope.append(SESSIONS, b"", agent="one")
    await scope.append(SESSIONS, "")
    await scope.append_many(SESSIONS, [b"", "x", ""])
    messages = await scope.fetch()
    assert payloads(messages) == [b"", b"", b"", b"x", b""]
    assert messages[0].provenance.agent == "one"
    assert messages.skipped == ()
    assert await scope.block() == "\n\n\nx\n"


async def test_empty_content_is_framed_the_same_on_every_engine(laser: ls.Laser) -> None:
    receipt = await laser.context(A).append("agent.audit", b"")
    page = await port(laser).read(laser.stream, "agent.audit", receipt.partition, start=receipt.offset, limit=1)
    (record,) = page.records
    assert isinstance(record, LogRecord)
    assert record.payload == b"\0"
    assert record.headers == (
        b"\x02\x16\x00\x00\x00gen_ai.conversation.id\x02\x1a\x00\x00\x00" + A.encode() +
        b"\x02\x0b\x00\x00\x00laser.frame\x02\x05\x00\x00\x00empty"
    )  # fmt: skip


async def test_all_of_provenance_comes_back(laser: ls.Laser) -> None:
    given = ls.Provenance(
        causal_parent="1:42",
        parent_conversation_id=B,
        root_conversation_id=B.lower(),
        agent="worker",
        target_agent_id="planner",
        idempotency_key="k" * 255,
        correlation_id="é" * 60,
        deadline_micros=2**64 - 1,
        fence_token=0,
        input_tokens=120,
        output_tokens=45,
        cost_usd=0.0125,
    )
    await laser.context(A).append("agent.audit", b"x", provenance=given)
    (message,) = await laser.context(A).fetch(topics=["agent.audit"])
    fields = {name: getattr(given, name) for name in given.__struct_fields__}
    assert message.provenance == ls.Provenance(**{**fields, "conversation_id": A, "root_conversation_id": B})


async def test_a_message_without_a_target_is_for_everybody_on_the_sessions_topic(laser: ls.Laser) -> None:
    given = {"none": None, "all": ls.Provenance(target_agent_id="*"), "one": ls.Provenance(target_agent_id="b")}
    for topic, stamped in ((SESSIONS, [b"*", b"*", b"b"]), ("agent.audit", [None, b"*", b"b"])):
        for provenance in given.values():
            receipt = await laser.context(A).append(topic, b"x", provenance=provenance)
        page = await port(laser).read(laser.stream, topic, receipt.partition, start=0, limit=10)
        headers = [{one.key: one.value for one in decode_block(record.headers)} for record in page.records]
        assert [one.get(b"agdx.to") for one in headers] == stamped
        read = await laser.context(A).fetch(topics=[topic])
        assert [one.provenance.target_agent_id for one in read] == [None, None, "b"]


async def test_agents_and_targets(laser: ls.Laser) -> None:
    scope = laser.context(A.lower())
    assert scope.conversation == A
    await scope.append(SESSIONS, b"1")
    await scope.append(SESSIONS, b"2", agent="a", provenance=ls.Provenance(target_agent_id="b"))
    await scope.append(SESSIONS, b"3", agent="a", provenance=ls.Provenance(agent="a", conversation_id=A.lower()))
    await scope.append("agent.audit", b"4", provenance=ls.Provenance(agent="c"))
    await scope.append("agent.audit", b"5")
    said = [(one.provenance.agent, one.provenance.target_agent_id) for one in await scope.fetch(topics=[SESSIONS])]
    assert said == [(None, None), ("a", "b"), ("a", None)]
    said = [(one.provenance.agent, one.provenance.target_agent_id) for one in await scope.fetch(topics=["agent.audit"])]
    assert said == [("c", None), (None, None)]


async def test_e6_a_batch_is_the_same_messages_as_one_by_one(laser: ls.Laser) -> None:
    one, many = laser.context(A), laser.context(B)
    for text in ("x", b"y", ""):
        await one.append(SESSIONS, text, agent="a")
    receipts = await many.append_many(SESSIONS, ["x", b"y", ""], agent="a")
    first, second = await one.fetch(), await many.fetch()
    assert payloads(first) == payloads(second) == [b"x", b"y", b""]
    assert [message.provenance.agent for message in second] == ["a"] * 3
    assert [(message.partition, message.offset, message.record_id) for message in second] == [
        (receipt.partition, receipt.offset, receipt.id) for receipt in receipts
    ]


async def test_a_batch_stands_together_in_order(laser: ls.Laser) -> None:
    scope = laser.context(A)
    receipts = await scope.append_many(SESSIONS, [f"{number}" for number in range(300)])
    assert len({receipt.id for receipt in receipts}) == 300
    assert {receipt.partition for receipt in receipts} == {receipts[0].partition}
    offsets = [receipt.offset for receipt in receipts]
    assert offsets == list(range(offsets[0], offsets[0] + 300))
    assert payloads(await scope.fetch(n=1_000)) == [b"%d" % number for number in range(300)]
    assert await scope.append_many(SESSIONS, []) == []
    assert await scope.append_many(SESSIONS, ()) == []


async def test_d6_the_same_id_is_written_once(laser: ls.Laser) -> None:
    scope = laser.context(A)
    first = await scope.append(SESSIONS, b"x", id=7)
    assert first.id == 7
    assert await scope.append(SESSIONS, b"x", id=7) == first
    batch = await scope.append_many(SESSIONS, ["a", "b"], ids=[8, 2**128 - 1])
    assert await scope.append_many(SESSIONS, ["a", "b"], ids=[8, 2**128 - 1]) == batch
    assert payloads(await scope.fetch()) == [b"x", b"a", b"b"]


async def test_d7_a_batch_of_known_and_new_ids_writes_the_new_ones(laser: ls.Laser) -> None:
    scope = laser.context(A)
    known = await scope.append_many(SESSIONS, ["a", "b"], ids=[1, 2])
    mixed = await scope.append_many(SESSIONS, ["b", "c", "a", "d"], ids=[2, 3, 1, 4])
    assert [mixed[0], mixed[2]] == [known[1], known[0]]
    fresh = await scope.append_many(SESSIONS, ["e", "f"], ids=[5, 6])
    assert len({receipt.offset for receipt in [*known, mixed[1], mixed[3], *fresh]}) == 6
    assert payloads(await scope.fetch()) == [b"a", b"b", b"c", b"d", b"e", b"f"]


async def test_d9_the_same_id_in_two_conversations_is_two_messages(laser: ls.Laser) -> None:
    # On one partition, so that an engine that looks at ids alone would find the other conversation's record.
    await laser.ensure_topic("one", partitions=1)
    first = await laser.context(A).append("one", b"of a", id=7)
    second = await laser.context(B).append("one", b"of b", id=7, provenance=ls.Provenance(parent_conversation_id=A))
    assert first.offset != second.offset
    assert payloads(await laser.context(B).fetch(topics=["one"])) == [b"of b"]
    both = await laser.assemble_context(A, topics=["one"], across_subconversations=True)
    assert payloads(both) == [b"of a", b"of b"]


async def test_d7_equal_contents_are_two_messages(laser: ls.Laser) -> None:
    scope = laser.context(A)
    for _ in range(3):
        await scope.append(SESSIONS, b"yes", agent="user")
    assert payloads(await scope.fetch()) == [b"yes"] * 3


async def test_d2_d4_appends_at_once_are_all_there(laser: ls.Laser) -> None:
    receipts: list[ls.AppendReceipt] = []

    async def write(number: int) -> None:
        for turn in range(10):
            receipt = await laser.context(A).append(SESSIONS, f"{number}:{turn}", agent=f"w{number}")
            receipts.append(receipt)

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(write, number)
    messages = await laser.context(A).fetch(n=1_000)
    by_place = {(one.partition, one.offset): one.record_id for one in messages}
    assert by_place == {(one.partition, one.offset): one.id for one in receipts}
    assert len(messages) == len(receipts) == 80
    for number in range(8):
        mine = [one.text for one in messages if one.provenance.agent == f"w{number}"]
        assert mine == [f"{number}:{turn}" for turn in range(10)]


async def test_d1_first_use_at_once_loses_nothing(laser: ls.Laser) -> None:
    async def write(number: int) -> None:
        await laser.ensure_topic("fresh", partitions=2)
        await laser.context(A).append("fresh", f"{number}")

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(write, number)
    assert sorted(payloads(await laser.context(A).fetch(topics=["fresh"]))) == [b"%d" % number for number in range(8)]


async def test_c10_a_conversation_stays_on_one_partition(laser: ls.Laser) -> None:
    first = [await laser.context(A).append(topic, b"x") for topic in (SESSIONS, SESSIONS, "agent.audit")]
    assert len({receipt.partition for receipt in first[:2]}) == 1
    spread = {
        (await laser.context(ls.derive_conversation_id(f"{number}")).append(SESSIONS, b"x")).partition
        for number in range(40)
    }
    assert spread == {0, 1, 2, 3}


async def test_conversations_do_not_see_each_other(laser: ls.Laser) -> None:
    await laser.ensure_topic("one", partitions=1)
    for number in range(6):
        await laser.context((A, B)[number % 2]).append("one", f"{number}")
    assert payloads(await laser.context(A).fetch(topics=["one"])) == [b"0", b"2", b"4"]
    assert payloads(await laser.context(B).fetch(topics=["one"])) == [b"1", b"3", b"5"]
    assert await laser.context(ls.new_conversation_id()).fetch(topics=["one"]) == []


async def test_g2_a_refused_append_leaves_the_connection_usable(laser: ls.Laser) -> None:
    scope = laser.context(A)
    with pytest.raises(ls.LimitError):
        await scope.append_many(SESSIONS, [b"x", bytes(64_000_001)])
    with pytest.raises(ls.NotFoundError):
        await scope.append("absent", b"x")
    await scope.append(SESSIONS, b"y")
    assert payloads(await scope.fetch()) == [b"y"]


async def test_records_by_other_hands_are_read(laser: ls.Laser) -> None:
    block = b"\x02\x16\x00\x00\x00gen_ai.conversation.id\x02\x1a\x00\x00\x00" + A.lower().encode()
    await put_raw(laser, SESSIONS, A, (block, b"theirs"))
    await laser.context(A).append(SESSIONS, b"ours")
    messages = await laser.context(A).fetch()
    assert payloads(messages) == [b"theirs", b"ours"]
    assert messages[0].provenance == ls.Provenance(conversation_id=A)
