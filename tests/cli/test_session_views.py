"""Transcripts, contexts and forks on the command line."""

from __future__ import annotations

import anyio
import pytest

import laser as ls
from tests.cli.test_commands import Shell
from tests.session.talking import talk

# memory: ends with each command, so there is nothing to see between two of them.
pytestmark = pytest.mark.parametrize("engine_url", ["embedded", "iggy"], indirect=True)


@pytest.fixture
def made() -> list[str]:
    return []


@pytest.fixture
def shell(engine_url: str, stream_name: str, made: list[str]) -> Shell:
    async def fill() -> None:
        async with ls.Laser.connect(engine_url, stream=stream_name) as laser:
            for topic in (ls.AgentTopic.Sessions, ls.AgentTopic.Control):
                await laser.ensure_topic(topic, partitions=1)
            session = await laser.sessions().start("a ticket")
            made.append(session.id)
            rules = ls.NewEntry("instruction", b"be brief\x1b[31m", key="rules", tokens=2, source="discovery")
            await session.active.add(0, rules, ls.NewEntry("catalog", b"v1", key="tools", tokens=1))
            await session.active.add(1, ls.NewEntry("catalog", b"v2", key="tools", tokens=1))
            await talk(session, 3)

    anyio.run(fill)
    return Shell(engine_url, stream_name)


def test_transcript(shell: Shell, made: list[str]) -> None:
    (session,) = made
    page = shell.json("session", "transcript", session, "-n", "4")
    assert [message["text"] for message in page["messages"]] == ["question 1", "answer 1", "question 2", "answer 2"]
    older = shell.json("session", "transcript", session, "-n", "4", "--before", page["older"])
    assert [message["text"] for message in older["messages"]] == ["question 0", "answer 0"]
    assert (older["older"], older["live"]) == (None, page["live"])
    newer = shell.json("session", "transcript", session, "--after", page["live"])
    assert newer["messages"] == []
    text = shell.run("session", "transcript", session, "-n", "2").stdout
    assert "question 2" in text
    assert "question 1" not in text
    assert "There are older messages" in text
    assert "before: not a cursor" in shell.refused("session", "transcript", session, "--before", "x")
    for command in ("transcript", "context", "fork", "show", "end"):
        said = shell.refused("session", command, "@nobody")
        assert f"session {ls.derive_conversation_id('nobody')} is not on stream" in said
        assert "laser session list" in said


def test_context(shell: Shell, made: list[str]) -> None:
    (session,) = made
    shown = shell.json("session", "context", session)
    kinds = [entry["kind"] for entry in shown["entries"]]
    assert kinds == ["instruction", "catalog", "catalog", *["user", "assistant"] * 3]
    assert [entry["superseded"] for entry in shown["entries"][:3]] == [False, True, False]
    assert shown["tokens"] == {"estimated": 22, "measured": {"input_tokens": 9}}
    assert shown["run"]["output"] == "answer 2"
    before = shell.json("session", "context", session, "--at", "1")
    assert [entry["text"] for entry in before["entries"]] == ["be brief\x1b[31m", "v1"]
    text = shell.run("session", "context", session).stdout
    assert "\x1b" not in text
    assert "superseded" in text
    assert "never at 99" in shell.refused("session", "context", session, "--at", "99")


def test_context_show(shell: Shell, made: list[str]) -> None:
    (session,) = made
    shown = shell.json("context", "show", session)
    request = shown.pop("request")
    assert shown == shell.json("session", "context", session)
    assert (request["strategy"], request["status"], request["rows"], request["covered"]) == (
        "rolling",
        "no_window",
        6,
        0,
    )
    text = shell.run("context", "show", session).stdout
    assert "\x1b" not in text
    assert "== request of its 6 messages ==\nstrategy  rolling, no window: no window is known" in text
    assert "          tail: 6 inputs, " in text
    assert (
        "window    9,000 tokens, compacted from 8,100 on\n"
        in shell.run("context", "show", session, "--window", "9000").stdout
    )
    assert text.index("== instructions (1) ==") < text.index("be brief") < text.index("== conversation (8) ==")
    assert "key rules, from discovery, about 2 tokens" in text
    assert "estimated tokens of all entries   22\n" in text
    assert "estimated tokens to be compacted  19\n" in text
    assert "measured by the provider          input_tokens 9\n" in text


def test_fork(shell: Shell, made: list[str]) -> None:
    (session,) = made
    whole = shell.run("session", "fork", session, "--label", "other").stdout.strip()
    assert shell.json("session", "show", whole)["label"] == "other"
    assert f"fork of   {session}, 6 messages\n" in shell.run("session", "show", whole).stdout
    assert len(shell.json("session", "transcript", whole)["messages"]) == 6
    place = shell.json("session", "transcript", session)["messages"][1]
    part = shell.json("session", "fork", session, "--at", f"{place['partition']}:{place['offset']}")
    assert (part["origin"]["session"], part["origin"]["messages"]) == (session, 2)
    texts = [message["text"] for message in shell.json("session", "transcript", part["session"])["messages"]]
    assert texts == ["question 0", "answer 0"]
    clone = shell.json("session", "fork", session, "--clone")
    assert clone["origin"] is None
    entries = shell.json("session", "context", clone["session"])["entries"]
    assert [entry["text"] for entry in entries] == ["be brief\x1b[31m", "v2"]
    assert "has no message '7:7'" in shell.refused("session", "fork", session, "--at", "7:7")
    assert "--at: does not go with --clone" in shell.refused("session", "fork", session, "--at", "0:0", "--clone")
