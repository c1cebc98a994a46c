"""Memory on the command line."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest

import laser as ls
from tests.cli.test_commands import Shell
from tests.context.logs import put_raw

# memory: ends with each command, so there is nothing to see between two of them.
pytestmark = pytest.mark.parametrize("engine_url", ["embedded", "iggy"], indirect=True)

CONVERSATION = ls.derive_conversation_id("ticket-1")
EVIL = "red \x1b[31m\u202e[bold]text"


@pytest.fixture
def shell(engine_url: str, stream_name: str) -> Shell:
    return Shell(engine_url, stream_name)


def remember(shell: Shell, text: str, *more: str, stdin: bytes = b"") -> str:
    return str(shell.json("memory", "remember", text, *more, stdin=stdin)["id"])


def test_remember_list_and_search(shell: Shell) -> None:
    first = remember(shell, "Ann likes green tea", "--user", "u1", "--agent", "g", "--application", "app")
    second = remember(shell, "-", "-k", "message", "-c", "@ticket-1", "--user", "u10", stdin=b"\xff raw")
    remember(shell, "elsewhere", "-N", "other")
    shown = shell.json("memory", "list")
    assert (shown["namespace"], shown["skipped"]) == ("agent.memory", [])
    newest, oldest = shown["items"]
    assert (newest["id"], newest["kind"], newest["body_base64"]) == (second, "message", "/yByYXc=")
    assert (newest["conversation"], newest["user"]) == (CONVERSATION, "u10")
    assert (oldest["id"], oldest["text"], oldest["agent"]) == (first, "Ann likes green tea", "g")
    assert oldest["application"] == "app"
    for given, found in (
        (("--user", "u1"), [first]),
        (("--user", "u"), []),
        (("-c", "@ticket-1"), [second]),
        (("-n", "1"), [second]),
        (("--agent", "g", "--application", "app"), [first]),
    ):
        assert [item["id"] for item in shell.json("memory", "list", *given)["items"]] == found
    (hit,) = shell.json("memory", "search", "green teas")["items"]
    assert hit["id"] == first
    assert hit["score"] > 0
    assert set(hit["signals"]) == {"keyword", "recency"}
    assert shell.json("memory", "search", "green", "--user", "u10")["items"] == []
    assert [item["text"] for item in shell.json("memory", "list", "-N", "other")["items"]] == ["elsewhere"]
    text = shell.run("memory", "search", "tea").stdout
    assert f"{first}  fact" in text
    assert "user u1" in text
    assert "Ann likes green tea\n" in text


def test_forget(shell: Shell) -> None:
    item = remember(shell, "the same", "--dedup", "--durable", "--user", "u1")
    assert remember(shell, "the same", "--dedup", "--user", "u1") == item
    assert shell.json("memory", "forget", item, "--user", "u2")["known"] is False
    assert len(shell.json("memory", "list")["items"]) == 1
    assert shell.json("memory", "forget", item)["known"] is True
    assert shell.json("memory", "list")["items"] == []
    assert "there was no such item" in shell.run("memory", "forget", item).stdout


def test_rebuild(shell: Shell, engine_url: str, stream_name: str) -> None:
    for number in range(3):
        remember(shell, f"note {number}")

    async def spoil() -> None:
        async with ls.Laser.connect(engine_url, stream=stream_name) as laser:
            await put_raw(laser, "agent.memory", "x", (b"", b"noise"))

    anyio.run(spoil)
    rebuilt = shell.json("memory", "rebuild")
    assert (rebuilt["read"], len(rebuilt["skipped"])) == (4, 1)
    result = shell.run("memory", "rebuild")
    assert result.stdout == "4 records read\n"
    assert "folding" in result.stderr
    assert "laser: skipped agent.memory" in result.stderr
    assert len(shell.json("memory", "list")["items"]) == 3


def test_nothing_steers_the_terminal(shell: Shell) -> None:
    remember(shell, EVIL, "--user", "\u202eu")
    for command in (("list",), ("search", "red")):
        text = shell.run("memory", *command).stdout
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "[bold]text" in text
    assert shell.json("memory", "list")["items"][0]["text"] == EVIL


def test_refusals(shell: Shell) -> None:
    assert "topic 'agent.memory' does not exist" in shell.refused("memory", "list")
    assert "kind: 'Fact' is not one of" in shell.refused("memory", "remember", "x", "-k", "Fact")
    item = remember(shell, "x")
    assert "id: 'x' is not the id of an item" in shell.refused("memory", "forget", "x")
    assert "--conversation: 'x' is neither" in shell.refused("memory", "forget", item, "-c", "x")
    assert "limit: -1" in shell.refused("memory", "list", "-n", "-1")
    assert "namespace: is empty" in shell.refused("memory", "list", "-N", "")
    assert "user: is empty" in shell.refused("memory", "search", "x", "--user", "")


def test_views_elsewhere(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The view that ``--views`` or LASER_VIEWS names is the one that is read, and that is folded anew."""
    item = remember(shell, "green tea")
    place = f"embedded:{tmp_path / 'views'}"
    assert shell.json("memory", "search", "tea", "--views", place)["items"][0]["id"] == item
    with closing(sqlite3.connect(tmp_path / "views" / "views.db")) as spoilt:
        spoilt.execute("DELETE FROM memory_items")
        spoilt.commit()
    monkeypatch.setenv("LASER_VIEWS", place)
    assert shell.json("memory", "list")["items"] == []
    assert shell.json("memory", "rebuild")["read"] == 1
    assert [found["id"] for found in shell.json("memory", "list")["items"]] == [item]
    monkeypatch.setenv("LASER_VIEWS", "redis://u:secret@host")
    text = shell.refused("memory", "list")
    assert "views: unknown form" in text
    assert "secret" not in text
