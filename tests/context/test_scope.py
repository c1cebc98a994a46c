"""Reading a conversation: fetch, fetch_with, block, checkpoint, and the report of what could not be read."""

from __future__ import annotations

import struct
from typing import Any

import pytest

import laser as ls
from laser.wire.blocks import RAW, STRING, UINT32, UINT64, Header, encode_block
from tests.context.logs import SESSIONS, ends, places, put_raw
from tests.context.making import payloads

pytestmark = pytest.mark.anyio

A = ls.derive_conversation_id("a")
B = ls.derive_conversation_id("b")
OWN = Header(b"gen_ai.conversation.id", STRING, A.encode())


async def test_g5_a_scope_is_made_without_io(laser: ls.Laser) -> None:
    before = await ends(laser)
    scope = laser.context(A)
    assert scope.conversation == A
    assert await scope.fetch() == []
    assert await scope.block() == ""
    assert await ends(laser) == before


async def test_a12_fetch_gives_the_newest_oldest_first(laser: ls.Laser) -> None:
    scope = laser.context(A)
    await scope.append_many(SESSIONS, [f"{number}" for number in range(60)])
    assert payloads(await scope.fetch(n=2)) == [b"58", b"59"]
    assert payloads(await scope.fetch()) == [b"%d" % number for number in range(10, 60)]
    assert len(await scope.fetch(n=1_000)) == 60
    assert isinstance(await scope.fetch(), ls.Messages)


async def test_a10_none_of_the_newest_is_no_io(laser: ls.Laser) -> None:
    scope = laser.context(A)
    await scope.append(SESSIONS, b"x")
    await laser.delete_topic(SESSIONS)
    for messages in (
        await scope.fetch(n=0),
        await scope.fetch(topics=["absent"], n=0, token_budget=5),
        await scope.fetch_with([SESSIONS], ls.LastN(0)),
        await scope.fetch_with([SESSIONS], ls.Chain([ls.LastN(0), ls.TokenBudget(3)])),
        await laser.assemble_context(A, last_n=0),
    ):
        assert messages == []
        assert messages.skipped == ()
    assert await scope.block(n=0) == ""


async def test_a10_none_of_the_newest_reads_nothing_at_all(laser: ls.Laser) -> None:
    scope = laser.context(A)
    # The log is closed behind the client's back: any read would fail.
    await laser.open_log().aclose()
    assert await scope.fetch(n=0) == []
    with pytest.raises(ls.ClosedError):
        await scope.fetch(n=1)


async def test_budgets_apply_after_the_count(laser: ls.Laser) -> None:
    scope = laser.context(A)
    for size in (40, 400, 40, 40):
        await scope.append(SESSIONS, b"a" * size)
    sizes = [len(one) for one in payloads(await scope.fetch(token_budget=120))]
    assert sizes == [400, 40, 40]
    assert len(await scope.fetch(n=2, token_budget=120)) == 2
    assert len(await scope.fetch(token_budget=0)) == 1
    chained = await scope.fetch_with([SESSIONS], ls.Chain([ls.LastN(3), ls.TokenBudget(20)]))
    assert places(chained) == places(await scope.fetch(n=3, token_budget=20))


async def test_a14_filters_compose_and_0_is_a_value(laser: ls.Laser) -> None:
    scope = laser.context(A)
    for number in range(4):
        await scope.append(SESSIONS, f"{number}", agent="ab"[number % 2])
    offset = (await scope.fetch(n=1))[0].offset
    partition = (await scope.fetch(n=1))[0].partition
    # Start offsets are inclusive: the message at the offset is read.
    from_there = await laser.assemble_context(A, from_offsets={partition: offset})
    assert payloads(from_there) == [b"3"]
    assert payloads(await laser.assemble_context(A, from_offsets={partition: offset + 1})) == []
    assert payloads(await laser.assemble_context(A, from_offsets={partition: 0})) == [b"0", b"1", b"2", b"3"]
    assert payloads(await laser.assemble_context(A, from_offsets={partition: offset - 2}, roles=["a"])) == [b"2"]
    assert payloads(await laser.assemble_context(A, roles=["a"], last_n=1)) == [b"2"]
    assert payloads(await laser.assemble_context(A, roles=[])) == []
    assert payloads(await laser.assemble_context(A, roles=["b"], last_n=0)) == []
    assert payloads(await laser.assemble_context(A, from_offsets={})) == [b"0", b"1", b"2", b"3"]


async def test_roles_alone_have_no_count(laser: ls.Laser) -> None:
    scope = laser.context(A)
    await scope.append_many(SESSIONS, ["x"] * 60, agent="a")
    assert len(await laser.assemble_context(A, roles=["a"])) == 60
    assert len(await laser.assemble_context(A)) == 50
    assert len(await laser.assemble_context(A, policy=ls.Chain([]))) == 60


async def test_absent_and_repeated_topics(laser: ls.Laser) -> None:
    scope = laser.context(A)
    await scope.append(SESSIONS, b"x")
    await scope.append("agent.audit", b"y")
    assert await scope.fetch(topics=["absent"]) == []
    assert await scope.fetch(topics=[]) == []
    both = await scope.fetch(topics=[SESSIONS, "absent", SESSIONS, "agent.audit", "agent.audit"])
    assert payloads(both) == [b"x", b"y"]
    assert [message.topic for message in both] == [SESSIONS, "agent.audit"]
    checkpoint = await scope.checkpoint(["absent", SESSIONS])
    assert list(checkpoint.topics()) == [SESSIONS]
    assert (await scope.checkpoint(["absent"])).is_empty()


async def test_block_joins_texts(laser: ls.Laser) -> None:
    scope = laser.context(A)
    for payload in ("one", b"two\xff", "three\nfour", ""):
        await scope.append(SESSIONS, payload)
    assert await scope.block() == "one\ntwo�\nthree\nfour\n"
    assert await scope.block(n=2) == "three\nfour\n"
    assert await scope.block(topics=["agent.audit"]) == ""


async def test_f1_checkpoints_stop_and_resume_exactly(laser: ls.Laser) -> None:
    scope = laser.context(A)
    empty = await scope.checkpoint()
    await scope.append_many(SESSIONS, ["0", "1"])
    middle = await scope.checkpoint()
    await scope.append_many(SESSIONS, ["2", "3"])
    await laser.context(B).append(SESSIONS, b"other")
    end = ls.Checkpoint.from_json((await scope.checkpoint()).to_json())

    async def read(**bounds: ls.Checkpoint) -> list[bytes]:
        return payloads(await laser.assemble_context(A, **bounds))  # type: ignore[arg-type]

    assert await read(to_checkpoint=empty) == []
    assert await read(from_checkpoint=empty) == [b"0", b"1", b"2", b"3"]
    assert await read(to_checkpoint=middle) == [b"0", b"1"]
    assert await read(from_checkpoint=middle) == [b"2", b"3"]
    assert await read(from_checkpoint=middle, to_checkpoint=end) == [b"2", b"3"]
    assert await read(from_checkpoint=end, to_checkpoint=middle) == []
    assert await read(from_checkpoint=end) == []
    # A checkpoint overrides start offsets; what it does not name starts at 0 and stops at once.
    ignored = dict.fromkeys(range(4), 2**64 - 1)
    assert payloads(await laser.assemble_context(A, from_checkpoint=middle, from_offsets=ignored)) == [b"2", b"3"]
    nothing = ls.Checkpoint({SESSIONS: {}})
    assert await read(from_checkpoint=nothing) == [b"0", b"1", b"2", b"3"]
    assert await read(to_checkpoint=nothing) == []
    assert await read(to_checkpoint=ls.Checkpoint({})) == []


async def test_records_on_added_partitions_are_read(laser: ls.Laser) -> None:
    await laser.ensure_topic("growing", partitions=1)
    expected = []
    for partitions in (1, 1, 3):
        for number in range(4):
            payload = b"%d:%d" % (partitions, number)
            expected.append(payload)
            await laser.context(A).append("growing", payload)
        await laser.add_partitions("growing", partitions)
    assert payloads(await laser.context(A).fetch(topics=["growing"])) == expected


# ------------------------------------------------------------------------------------- records of other hands


GARBAGE: dict[str, bytes] = {
    "no headers": b"",
    "foreign headers only": encode_block([Header(b"x", STRING, b"y")]),
    "an id of another form": encode_block([Header(b"gen_ai.conversation.id", STRING, b"nobody")]),
    "an id as bytes": encode_block([Header(b"gen_ai.conversation.id", RAW, A.encode())]),
    "a wrapped id": encode_block([Header(b"gen_ai.conversation.id", STRING, b"8" + A[1:].encode())]),
    "an envelope of no kind": encode_block([OWN, Header(b"agdx.av", UINT32, b"\1\0\0\0")]),
    "an envelope of another version": encode_block([OWN, Header(b"agdx.av", UINT32, b"\2\0\0\0")]),
}
UNDECODABLE: dict[str, bytes] = {
    "a fence that is no number": encode_block([OWN, Header(b"agdx.fence", STRING, b"junk")]),
    "a fence of 32 bits": encode_block([OWN, Header(b"agdx.fence", UINT32, b"\5\0\0\0")]),
    "a cause that is no place": encode_block([OWN, Header(b"agdx.cause", STRING, b"junk")]),
    "a parent that is no id": encode_block([OWN, Header(b"agdx.parent_conv", STRING, b"junk")]),
    "a control character": encode_block([OWN, Header(b"gen_ai.agent.id", STRING, b"a\nb")]),
    "an unknown frame": encode_block([OWN, Header(b"laser.frame", STRING, b"zstd")]),
}


async def test_e4_f5_bad_records_are_reported_and_never_hide_the_good_ones(laser: ls.Laser) -> None:
    scope = laser.context(A)
    await scope.append(SESSIONS, b"good")
    bad = [*GARBAGE.values(), *UNDECODABLE.values()]
    offsets = await put_raw(laser, SESSIONS, A, *[(headers, b"x") for headers in bad])
    messages = await scope.fetch()
    assert payloads(messages) == [b"good"]
    assert [(skip.topic, skip.offset) for skip in messages.skipped] == [(SESSIONS, offset) for offset in offsets]
    reasons = dict(zip([*GARBAGE, *UNDECODABLE], [skip.reason for skip in messages.skipped], strict=True))
    assert "no gen_ai.conversation.id" in reasons["foreign headers only"]
    assert "agdx.fence" in reasons["a fence that is no number"]
    assert all(reasons.values())
    await scope.append(SESSIONS, b"after")
    assert payloads(await scope.fetch()) == [b"good", b"after"]


async def test_e4_garbage_takes_no_place_among_the_newest(laser: ls.Laser) -> None:
    scope = laser.context(A)
    await scope.append_many(SESSIONS, ["1", "2", "3"])
    for headers in (*GARBAGE.values(), *UNDECODABLE.values()):
        await put_raw(laser, SESSIONS, A, (headers, b"x"))
    for count in range(5):
        assert payloads(await scope.fetch(n=count)) == [b"1", b"2", b"3"][max(0, 3 - count) :]
    # Reported are those since the oldest message that is shown.
    await scope.append(SESSIONS, b"4")
    assert (await scope.fetch(n=1)).skipped == ()
    assert len((await scope.fetch(n=2)).skipped) == len(GARBAGE) + len(UNDECODABLE)


async def test_g4_what_is_nobodys_is_reported_to_everybody_what_is_ours_to_us(laser: ls.Laser) -> None:
    await laser.ensure_topic("one", partitions=1)
    await laser.context(B).append("one", b"theirs")
    await put_raw(laser, "one", A, (GARBAGE["no headers"], b"x"), (UNDECODABLE["a cause that is no place"], b"x"))
    ours, theirs = await laser.context(A).fetch(topics=["one"]), await laser.context(B).fetch(topics=["one"])
    assert (payloads(ours), len(ours.skipped)) == ([], 2)
    assert (payloads(theirs), len(theirs.skipped)) == ([b"theirs"], 1)


async def test_numbers_of_older_writers_and_foreign_headers_are_read(laser: ls.Laser) -> None:
    block = encode_block(
        [
            Header(b"agdx.cost", STRING, b"1.5"),
            Header(b"agdx.fence", STRING, b"007"),
            OWN,
            Header(b"gen_ai.usage.input_tokens", UINT64, struct.pack("<Q", 3)),
            Header(b"trace", RAW, b"\xff\0"),
        ]
    )
    await put_raw(laser, SESSIONS, A, (block, b"x"))
    (message,) = await laser.context(A).fetch()
    assert message.provenance == ls.Provenance(conversation_id=A, cost_usd=1.5, fence_token=7, input_tokens=3)


async def test_skipped_and_messages_are_values(laser: ls.Laser) -> None:
    await put_raw(laser, SESSIONS, A, (b"", b"x"))
    await laser.context(A).append(SESSIONS, b"y")
    messages: Any = await laser.context(A).fetch()
    with pytest.raises(AttributeError):
        messages[0].payload = b"z"
    with pytest.raises(AttributeError):
        messages.skipped[0].reason = ""
    assert list(messages) == messages[:]
