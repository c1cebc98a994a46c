"""What one client writes the other reads: payload, provenance, place, time and order."""

from __future__ import annotations

from typing import Any

import pytest

import laser as ls
from tests.context.logs import SESSIONS, put_raw
from tests.context.making import payloads
from tests.peer.comparing import ours, theirs
from tests.peer.conftest import Both

pytestmark = [pytest.mark.anyio, pytest.mark.iggy, pytest.mark.peer]

A = ls.derive_conversation_id("a")
B = ls.derive_conversation_id("b")
FULL: dict[str, Any] = {
    "causal_parent": "1:42",
    "parent_conversation_id": B,
    "root_conversation_id": B,
    "agent": "worker",
    "target_agent_id": "planner",
    "idempotency_key": "k" * 255,
    "correlation_id": "é" * 60,
    "deadline_micros": 2**64 - 1,
    "fence_token": 0,
    "input_tokens": 120,
    "output_tokens": 45,
    "cost_usd": 0.0125,
}


async def test_the_peer_reads_ours(both: Both) -> None:
    scope = both.ours.context(A)
    await scope.append(SESSIONS, "plain")
    await scope.append(SESSIONS, b"\xff\0\n", agent="planner")
    await scope.append(SESSIONS, b"full", provenance=ls.Provenance(**FULL))
    await scope.append_many(SESSIONS, ["one", "two", "three"], agent="batch")
    await scope.append("agent.audit", b"audit", provenance=ls.Provenance(agent="auditor"))
    for topics in ([SESSIONS], ["agent.audit"], [SESSIONS, "agent.audit"], ["agent.audit", SESSIONS]):
        read = theirs(await both.theirs.context(A).fetch(topics=topics))
        assert read == ours(await scope.fetch(topics=topics))
        assert len(read) > 0


async def test_we_read_the_peers(both: Both) -> None:
    import laser_sdk as sdk

    scope = both.theirs.context(A)
    await scope.append(SESSIONS, "plain")
    await scope.append(SESSIONS, b"\xff\0\n")
    await both.theirs.send_agent(SESSIONS, b"full", sdk.Provenance(conversation_id=A, **FULL))
    await both.theirs.send_agent("agent.audit", b"audit", sdk.Provenance(conversation_id=A, agent="auditor"))
    for topics in ([SESSIONS], ["agent.audit"], [SESSIONS, "agent.audit"]):
        read = await both.ours.context(A).fetch(topics=topics)
        assert ours(read) == theirs(await scope.fetch(topics=topics))
        assert read.skipped == ()
    full = (await both.ours.context(A).fetch())[2].provenance
    assert full == ls.Provenance(conversation_id=A, **FULL)


async def test_c10_both_write_a_conversation_to_one_partition(both: Both) -> None:
    for number in range(24):
        conversation = ls.derive_conversation_id(f"{number}")
        first = await both.ours.context(conversation).append(SESSIONS, b"ours")
        await both.theirs.context(conversation).append(SESSIONS, b"theirs")
        messages = await both.ours.context(conversation).fetch()
        assert [message.partition for message in messages] == [first.partition] * 2
        assert payloads(messages) == [b"ours", b"theirs"]


async def test_headers_are_the_same_bytes(both: Both) -> None:
    import laser_sdk as sdk

    log = both.ours.open_log()
    await both.ours.context(A).append("agent.audit", b"x", provenance=ls.Provenance(**FULL))
    await both.theirs.send_agent("agent.audit", b"x", sdk.Provenance(conversation_id=A, **FULL))
    await both.ours.context(A).append(SESSIONS, b"x")
    await both.theirs.context(A).append(SESSIONS, b"x")
    for topic in ("agent.audit", SESSIONS):
        (_, partition, offset), *_ = [
            facts["place"] for facts in ours(await both.ours.context(A).fetch(topics=[topic]))
        ]
        page = await log.read(both.ours.stream, topic, partition, start=offset, limit=10)
        first, second = page.records
        assert sorted(_entries(first.headers)) == sorted(_entries(second.headers))
        assert first.payload == second.payload


def _entries(block: bytes) -> list[tuple[bytes, int, bytes, int]]:
    from laser.wire.blocks import decode_block

    return [(one.key, one.kind, one.value, one.key_kind) for one in decode_block(block)]


async def test_ids_mean_the_same(both: Both) -> None:
    import laser_sdk as sdk

    for seed in ("", "a", "ключ", "🔥", "x" * 1_000):
        assert ls.derive_conversation_id(seed) == sdk.derive_conversation_id(seed)
    made = sdk.new_conversation_id()
    assert both.ours.context(made.lower()).conversation == made
    assert both.theirs.context(ls.new_conversation_id()).conversation
    for bad in ("", "x", A + "0", A[:-1] + "*"):
        with pytest.raises(ls.IdError):
            both.ours.context(bad)
        with pytest.raises(sdk.IdError):
            both.theirs.context(bad)


async def test_empty_content_is_a_frame_to_the_peer(both: Both) -> None:
    """Known difference: the broker has no empty payload, and the peer refuses empty content. It sees our frame."""
    await both.ours.context(A).append(SESSIONS, b"")
    assert payloads(await both.ours.context(A).fetch()) == [b""]
    assert [bytes(message.payload) for message in await both.theirs.context(A).fetch()] == [b"\0"]


async def test_numbers_of_older_writers(both: Both) -> None:
    """Known difference: numeric headers written as text are read by us and skipped by the peer."""
    from laser.wire.blocks import STRING, Header, encode_block

    own = Header(b"gen_ai.conversation.id", STRING, A.encode())
    await put_raw(both.ours, SESSIONS, A, (encode_block([Header(b"agdx.fence", STRING, b"5"), own]), b"older"))
    await both.theirs.context(A).append(SESSIONS, b"newer")
    assert payloads(await both.ours.context(A).fetch()) == [b"older", b"newer"]
    assert [bytes(message.payload) for message in await both.theirs.context(A).fetch()] == [b"newer"]
    (message, _) = await both.ours.context(A).fetch()
    assert message.provenance.fence_token == 5


async def test_what_one_skips_the_other_skips(both: Both) -> None:
    from tests.context.test_scope import GARBAGE, UNDECODABLE

    frames = {"an unknown frame"}  # Ours alone: the peer shows the bytes of a frame as they are.
    bad = {**GARBAGE, **UNDECODABLE}
    await put_raw(both.ours, SESSIONS, A, *[(block, b"x") for name, block in bad.items() if name not in frames])
    await both.ours.context(A).append(SESSIONS, b"good")
    messages = await both.ours.context(A).fetch()
    assert ours(messages) == theirs(await both.theirs.context(A).fetch())
    assert payloads(messages) == [b"good"]
    # Known difference: the peer is silent about them.
    assert len(messages.skipped) == len(bad) - 1
