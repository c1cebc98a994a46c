"""Assembly with a recorded manifest, and manifests of anybody's making."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from laser.session.lifecycle import decode_event
from laser.session.manifest import decode_manifest, encode_manifest
from tests.context.folding import append_garbage
from tests.properties import decodes, examples

AUDIT = ls.AgentTopic.Audit
SESSIONS = ls.AgentTopic.Sessions
TOOLS = ls.AgentTopic.ToolCalls


async def _manifests(laser: ls.Laser, session: ls.Session) -> list[ls.ContextManifest]:
    found = [decode_manifest(message.payload) for message in await laser.context(session.id).fetch(topics=[AUDIT])]
    return [manifest for manifest in found if manifest is not None]


def _places(messages: list[ls.ContextMessage]) -> tuple[ls.MessageRef, ...]:
    return tuple(ls.MessageRef(message.topic, message.partition, message.offset) for message in messages)


@pytest.mark.anyio
async def test_what_was_kept_and_dropped_is_on_the_log(laser: ls.Laser) -> None:
    session = await laser.sessions().start(agent="planner")
    scope = session.scope()
    for number in range(6):
        await scope.append([SESSIONS, TOOLS][number % 2], f"message {number}", agent=f"agent-{number % 3}")
    history = await scope.fetch(topics=[SESSIONS, TOOLS])
    assembled = await session.assemble(ls.Chain([ls.LastN(4), ls.TokenBudget(6)]), topics=[SESSIONS, TOOLS])
    assert assembled.text() == "message 4\nmessage 5"
    assert [message.text for message in assembled.fragments] == ["message 4", "message 5"]
    manifest = assembled.manifest
    assert manifest == ls.ContextManifest(
        conversation=session.id,
        policy="chain(last_n(4),token_budget(6))",
        policy_version="1",
        reason="chain(last_n(4),token_budget(6))",
        kept=_places(history[4:]),
        dropped=_places(history[:4]),
        tokens=6,
        over_budget=False,
    )
    assert await _manifests(laser, session) == [manifest]
    (record,) = await laser.context(session.id).fetch(topics=[AUDIT])
    assert record.provenance.agent == "planner"
    # What it names is what is there.
    by_place = dict(zip(_places(history), history, strict=True))
    assert [by_place[place].text for place in manifest.kept] == ["message 4", "message 5"]
    # The view changed nothing on the log.
    assert await scope.fetch(topics=[SESSIONS, TOOLS]) == history


@pytest.mark.anyio
async def test_every_assembly_is_recorded(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    empty = await session.assemble()
    assert (empty.fragments, empty.text(), empty.manifest.kept, empty.manifest.tokens) == ([], "", (), 0)
    for number in range(60):
        await session.scope().append(SESSIONS, f"{number}")
    newest = await session.assemble()
    assert (newest.manifest.policy, len(newest.fragments), len(newest.manifest.dropped)) == ("last_n(50)", 50, 10)
    over = await session.assemble(ls.TokenBudget(0))
    assert (over.manifest.over_budget, over.text()) == (True, "59")
    mine = await session.assemble(lambda messages: messages[:1])
    assert (mine.manifest.policy, mine.manifest.policy_version, mine.text()) == ("custom", "1", "0")
    assert await _manifests(laser, session) == [one.manifest for one in (empty, newest, over, mine)]


@pytest.mark.anyio
async def test_g4_skipped_records_are_named(laser: ls.Laser) -> None:
    """G4, E4: what could not be decoded is in the manifest too."""
    session = await laser.sessions().start()
    receipt = await session.scope().append(SESSIONS, "a")
    await append_garbage(laser, SESSIONS, session.id)
    assembled = await session.assemble()
    assert assembled.manifest.skipped == (ls.MessageRef(SESSIONS, receipt.partition, receipt.offset + 1),)
    assert await _manifests(laser, session) == [assembled.manifest]


@pytest.mark.anyio
async def test_errors_leave_no_manifest(laser: ls.Laser) -> None:
    session = await laser.sessions().start()

    def fails(messages: list[ls.ContextMessage]) -> list[ls.ContextMessage]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await session.assemble(fails)
    with pytest.raises(ls.InvalidError):
        await session.assemble(5)  # type: ignore[arg-type]
    with pytest.raises(ls.InvalidError):
        await session.assemble(topics=SESSIONS)
    assert await _manifests(laser, session) == []


_refs = st.lists(
    st.builds(ls.MessageRef, st.text(max_size=5), st.integers(0, 2**32 - 1), st.integers(0, 2**63)), max_size=3
)
_manifest = st.builds(
    ls.ContextManifest,
    conversation=st.text(max_size=26),
    policy=st.text(max_size=10),
    policy_version=st.text(max_size=3),
    reason=st.text(max_size=10),
    kept=_refs.map(tuple),
    dropped=_refs.map(tuple),
    tokens=st.integers(0, 2**63),
    over_budget=st.booleans(),
    skipped=_refs.map(tuple),
)


@given(_manifest)
@examples(100)
def test_round_trip(made: ls.ContextManifest) -> None:
    assert decode_manifest(encode_manifest(made)) == made


@pytest.mark.parametrize("payload", [b"", b"{}", b"[1]", b"null", b"\xff", b'{"role":"user"}', b"[" * 10_000])
def test_what_is_no_manifest(payload: bytes) -> None:
    assert decode_manifest(payload) is None


def _with(**members: Any) -> bytes:
    whole = json.loads(encode_manifest(ls.ContextManifest("c", "p", "1", "r", (), (), 0, False)))
    return json.dumps({**whole, **members}).encode()


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b'{"laser.manifest":1}', "missing required field"),
        (_with(**{"laser.manifest": 2}), "version 2 is not 1; a newer laser may read it"),
        (_with(**{"laser.manifest": "1"}), "version '1' is not 1"),
        (_with(tokens="7"), "tokens"),
        (_with(kept=[["t", 0]]), "kept"),
        (_with(kept=[["t", "0", 1]]), "kept"),
        (_with(over_budget=1), "over_budget"),
    ],
)
def test_damaged_and_newer_manifests(payload: bytes, said: str) -> None:
    with pytest.raises(ls.CodecError, match="manifest") as caught:
        decode_manifest(payload)
    assert said in str(caught.value)
    assert decode_manifest(_with(later=1)) is not None, "members of later releases are passed over"


@given(
    st.binary(max_size=60) | st.builds(lambda text: b'{"laser.session":"ended","error":' + text, st.binary(max_size=20))
)
@examples(300)
def test_any_payload_is_an_event_a_manifest_or_neither(payload: bytes) -> None:
    decodes(lambda: decode_manifest(payload), ls.CodecError)
    decodes(lambda: decode_event(payload))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{}",
        b"[]",
        b'"started"',
        b'{"laser.session":"running"}',
        b'{"laser.session":"STARTED"}',
        b'{"laser.session":1}',
        b'{"laser.session":["ended"]}',
        b'{"laser.session":{}}',
        b'{"laser.session":"started","label":5}',
    ],
)
def test_what_is_no_event(payload: bytes) -> None:
    assert decode_event(payload) is None
