"""Envelope records of the peer: we show what it shows."""

from __future__ import annotations

from typing import Any

import pytest

import laser as ls
from laser.wire.blocks import STRING, UINT32, Header, encode_block
from tests.context.logs import SESSIONS, put_raw
from tests.peer.comparing import ours, theirs
from tests.peer.conftest import Both

pytestmark = [pytest.mark.anyio, pytest.mark.iggy, pytest.mark.peer]

A = ls.derive_conversation_id("a")
B = ls.derive_conversation_id("b")
AV = Header(b"agdx.av", UINT32, b"\1\0\0\0")
OWN = Header(b"gen_ai.conversation.id", STRING, A.encode())


async def _same(both: Both, conversation: str = A, **control: Any) -> list[dict[str, Any]]:
    read = ours(await both.ours.assemble_context(conversation, **control))
    assert read == theirs(await both.theirs.assemble_context(conversation, **control))
    return read


async def test_every_kind_of_envelope(both: Both) -> None:
    import laser_sdk as sdk

    agent = both.theirs.agdx(SESSIONS, "planner", A)
    correlation = sdk.mint_ulid()
    await agent.emit(b'{"x":1}', operation="op", content_type="json", target="*")
    await agent.command(
        correlation, b"do", operation="op", content_type="raw", target="worker", cause=sdk.mint_ulid(),
        deadline_micros=123_456, idempotency_key="idem", metadata={"k": "v", "n": [1, None, True, 1.5]},
    )  # fmt: skip
    await agent.respond(correlation, b"done", tool="search", usage={"input_tokens": 3, "output_tokens": 4})
    await agent.emit(b"x", parent=B, root=B)
    await agent.emit(b"x", cause=sdk.mint_ulid(), cause_at=sdk.LogPosition(0, 0, 3, 77))
    await agent.status("progress")
    await both.ours.context(A).append(SESSIONS, b"plain")
    read = await _same(both)
    assert [one["envelope"] is None for one in read] == [False] * 6 + [True]
    assert [one["target_agent_id"] for one in read[:2]] == ["*", "worker"]
    assert read[2]["usage"] == (3, 4, None)
    assert (read[3]["parent_conversation_id"], read[3]["root_conversation_id"]) == (B, B)
    assert len(await _same(both, B, across_subconversations=True)) == 1


async def test_policies_over_envelopes(both: Both) -> None:
    for name in ("planner", "worker"):
        agent = both.theirs.agdx(SESSIONS, name, A)
        for number in range(3):
            await agent.emit(b"%d" % number)
    await both.ours.context(A).append(SESSIONS, b"plain", agent="worker")
    for control in ({"roles": ["worker"]}, {"last_n": 2}, {"token_budget": 60}, {"roles": ["planner"], "last_n": 1}):
        assert await _same(both, **control)  # type: ignore[arg-type]


async def test_damaged_envelopes_are_skipped_by_both(both: Both) -> None:
    await both.theirs.agdx(SESSIONS, "planner", A).emit(b"x")
    (message,) = await both.ours.context(A).fetch()
    good = message.payload
    damaged = [
        ([AV, OWN], b"garbage"),
        ([AV, OWN], good + b"\0"),
        ([AV, OWN], good[:-1]),
        ([Header(b"agdx.av", UINT32, b"\2\0\0\0"), OWN], good),
        ([Header(b"agdx.av", STRING, b"1"), OWN], good),
        ([AV, OWN], good.replace(b"event", b"evint")),
        ([AV, OWN], good.replace(b"source", b"sauce!")),
    ]
    await put_raw(both.ours, SESSIONS, A, *[(encode_block(headers), payload) for headers, payload in damaged])
    assert len(await _same(both)) == 1
    assert len((await both.ours.context(A).fetch()).skipped) == len(damaged)


async def test_provenance_comes_from_the_envelope_alone(both: Both) -> None:
    await both.theirs.agdx(SESSIONS, "planner", A).emit(b"x")
    (message,) = await both.ours.context(A).fetch()
    for headers in (
        [AV],
        [AV, OWN],
        [AV, OWN, Header(b"gen_ai.agent.id", STRING, b"another")],
        [AV, OWN, Header(b"agdx.corr", STRING, b"zzz"), Header(b"agdx.fence", STRING, b"junk")],
    ):
        await put_raw(both.ours, SESSIONS, A, (encode_block(headers), message.payload))
    read = await _same(both)
    assert [one["agent"] for one in read] == ["planner"] * 5


async def test_an_envelope_whose_header_names_another_conversation(both: Both) -> None:
    """Known difference: the peer goes by the envelope; for us headers and envelope must agree, else it is reported."""
    await both.theirs.agdx(SESSIONS, "planner", A).emit(b"x")
    (message,) = await both.ours.context(A).fetch()
    other = Header(b"gen_ai.conversation.id", STRING, B.encode())
    await put_raw(both.ours, SESSIONS, A, (encode_block([AV, other]), message.payload))
    assert len(await both.theirs.context(A).fetch()) == 2
    assert len(await both.ours.context(A).fetch()) == 1
    named = await both.ours.context(B).fetch()
    assert (list(named), len(named.skipped)) == ([], 1)
