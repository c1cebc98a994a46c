"""State, checkpoints, snapshots and sessions on the command line."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

import laser as ls
from laser.cli.folds import FOLDS
from tests.cli.test_commands import ID, Shell
from tests.context.folding import append_garbage

# memory: ends with each command, so there is nothing to see between two of them.
pytestmark = pytest.mark.parametrize("engine_url", ["embedded", "iggy"], indirect=True)


@pytest.fixture
def shell(engine_url: str, stream_name: str) -> Shell:
    bare = Shell(engine_url, stream_name)
    assert bare.run("bootstrap").exit_code == 0
    return bare


Client = Callable[[Callable[[ls.Laser], Awaitable[Any]]], Any]


@pytest.fixture
def client(engine_url: str, stream_name: str) -> Client:
    """Does something with the library on the shell's log."""

    def do(work: Callable[[ls.Laser], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            async with ls.Laser.connect(engine_url, stream=stream_name) as laser:
                return await work(laser)

        return anyio.run(run)

    return do


def _say(shell: Shell, *texts: str, agent: str = "user") -> None:
    for text in texts:
        shell.json("append", "@ticket-1", text, "--agent", agent)


def test_each_fold(shell: Shell, client: Client) -> None:
    empty = {
        "count": 0,
        "last": None,
        "messages-by-agent": {},
        "tokens": {"estimated": 0, "input": 0, "output": 0, "cost_usd": 0},
    }
    assert set(empty) == set(FOLDS)
    for name, nothing in empty.items():
        assert shell.json("state", "@ticket-1", "--fold", name)["state"] == nothing
    _say(shell, "hello", "again")
    _say(shell, "Grüße", agent="support")
    used = ls.Provenance(input_tokens=100, output_tokens=7, cost_usd=0.25)
    client(lambda laser: laser.context(ID).append(ls.AgentTopic.Sessions, "x" * 9, provenance=used))
    found = {name: shell.json("state", "@ticket-1", "--fold", name) for name in FOLDS}
    assert all(
        (one["conversation"], one["topics"], one["skipped"]) == (ID, ["agent.sessions"], 0) for one in found.values()
    )
    assert found["count"]["state"] == 4
    assert (found["last"]["state"]["text"], found["last"]["state"]["offset"]) == ("x" * 9, 3)
    assert found["messages-by-agent"]["state"] == {"user": 2, "support": 1, "": 1}
    assert found["tokens"]["state"] == {"estimated": 2 + 2 + 2 + 3, "input": 100, "output": 7, "cost_usd": 0.25}
    assert shell.run("state", "@ticket-1").stdout == "4\n"
    assert '"support": 1' in shell.run("state", "@ticket-1", "-f", "messages-by-agent").stdout


def test_checkpoints_in_files(shell: Shell, tmp_path: Path) -> None:
    _say(shell, "a", "b")
    result = shell.run("checkpoint", "--json")
    assert result.exit_code == 0
    taken = ls.Checkpoint.from_json(result.stdout)
    assert sum(taken.topics()["agent.sessions"].values()) == 2
    file = tmp_path / "bookmark.json"
    file.write_text(result.stdout)
    _say(shell, "c")
    assert shell.json("state", "@ticket-1", "--from-checkpoint", str(file))["state"] == 1
    assert shell.json("state", "@ticket-1", "--at", str(file))["state"] == 2
    assert shell.json("state", "@ticket-1", "--at", "-", stdin=file.read_bytes())["state"] == 2
    assert shell.json("state", "@ticket-1", "--last", "2")["state"] == 2
    assert shell.json("state", "@ticket-1", "--last", "0")["state"] == 0
    both = shell.run("checkpoint", "-t", "agent.sessions", "-t", "agent.audit")
    assert both.exit_code == 0
    assert "agent.audit" in both.stdout
    assert "next offset" in both.stdout


def test_snapshots(shell: Shell, client: Client) -> None:
    assert shell.json("snapshot", "list") == {"topic": "agent.snapshots", "snapshots": []}
    _say(shell, "a", "b", "c")
    assert shell.json("state", "@ticket-1", "--save-every", "2")["state"] == 3
    _say(shell, "d")
    assert shell.json("state", "@ticket-1", "--save-every", "2")["state"] == 4
    assert shell.json("state", "@ticket-1", "--save-every", "1", "--fold", "last")["state"]["text"] == "d"
    count, last = "laser/count/agent.sessions", "laser/last/agent.sessions"

    listed = shell.json("snapshot", "list", "@ticket-1")["snapshots"]
    assert [one["fold"] for one in listed].count(count) == 2
    assert [one["timestamp_micros"] for one in listed] == sorted(
        (one["timestamp_micros"] for one in listed), reverse=True
    )
    assert {one["conversation"] for one in listed} == {ID}
    assert [one["fold"] for one in shell.json("snapshot", "list", "@ticket-1", "--fold", count)["snapshots"]] == [
        count
    ] * 2
    assert shell.json("snapshot", "list", "@nobody")["snapshots"] == []
    assert len(shell.json("snapshot", "list", "-n", "2")["snapshots"]) == 2
    assert "agent.snapshots of stream" in shell.run("snapshot", "list").stdout

    shown = shell.json("snapshot", "show", "@ticket-1", "--fold", count)["snapshots"]
    assert [(one["fold"], one["version"], one["state"]) for one in shown] == [(count, 1, 4)]
    assert [one["offset"] for one in shown[0]["as_of"]] == [3]
    both = shell.run("snapshot", "show", "@ticket-1").stdout
    assert f"fold      {count}, version 1" in both
    assert '"text": "d"' in both

    _say(shell, "e")
    checked = shell.json("snapshot", "verify", "@ticket-1")["snapshots"]
    assert checked == [
        {"fold": name, "version": 1, "usable": True, "problem": None, "messages_after": 1} for name in (count, last)
    ]
    assert f"{count}, version 1: usable, 1 messages after it" in shell.run("snapshot", "verify", "@ticket-1").stdout

    client(lambda laser: laser.purge_topic("agent.sessions"))
    result = shell.run("snapshot", "verify", "@ticket-1", "--fold", count, "--json")
    assert result.exit_code == 1
    (check,) = json.loads(result.stdout)["snapshots"]
    assert (check["usable"], check["messages_after"]) == (False, None)
    assert "ends at 0, before the checkpoint's 4" in check["problem"]
    assert "fold from the start instead" in shell.refused("state", "@ticket-1", "--save-every", "2")


def test_records_that_hold_no_snapshot(shell: Shell, client: Client) -> None:
    shell.json("append", "@ticket-1", "garbage \x1b[31m", "--topic", "agent.snapshots")
    (one,) = shell.json("snapshot", "list")["snapshots"]
    assert (one["bytes"], one["offset"]) == (13, 0)
    assert "not strict CBOR" in one["problem"]
    assert shell.json("snapshot", "list", "@ticket-1")["snapshots"] == []
    assert shell.run("snapshot", "list").exit_code == 0

    async def damaged(laser: ls.Laser) -> None:
        scope = laser.context(ID)
        made = await ls.snapshot_from_checkpoint(laser, ID, "mine", await scope.checkpoint(), 5, version=3)
        await ls.TopicSnapshotStore(laser, "mine", version=3).save(msgspec.structs.replace(made, state=b"{"))

    client(damaged)
    (shown,) = shell.json("snapshot", "show", "@ticket-1")["snapshots"]
    assert (shown["fold"], shown["version"], "state" in shown) == ("mine", 3, False)
    assert "not JSON" in shown["problem"]
    assert "(unreadable: state: not JSON" in shell.run("snapshot", "show", "@ticket-1").stdout
    assert shell.run("snapshot", "verify", "@ticket-1").exit_code == 1


def test_skipped_records_are_told(shell: Shell, client: Client) -> None:
    _say(shell, "a")
    client(lambda laser: append_garbage(laser, "agent.sessions", ID))
    result = shell.run("state", "@ticket-1", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "conversation": ID,
        "topics": ["agent.sessions"],
        "fold": "count",
        "state": 1,
        "skipped": 1,
    }
    assert "laser: skipped 1 records that could not be decoded\n" in result.stderr


def test_sessions(shell: Shell, client: Client) -> None:
    assert shell.json("session", "list")["sessions"] == []

    async def start(laser: ls.Laser) -> tuple[str, str, str]:
        sessions = laser.sessions()
        root = await sessions.start("Ticket \u202e7", agent="planner")
        child = await sessions.start("look it up", parent=root, agent="worker")
        other = await sessions.start()
        return root.id, child.id, other.id

    root, child, other = client(start)
    listed = shell.json("session", "list")["sessions"]
    assert [one["id"] for one in listed] == [other, child, root]
    assert [one["id"] for one in shell.json("session", "list", "--parent", root)["sessions"]] == [child]
    assert [one["id"] for one in shell.json("session", "list", "-n", "1")["sessions"]] == [other]
    shown = shell.json("session", "show", child.lower())
    assert (shown["state"], shown["parent"], shown["root"], shown["agent"]) == ("running", root, root, "worker")
    assert shell.json("session", "show", root)["children"] == [child]
    text = shell.run("session", "show", root).stdout
    assert "label     Ticket \\x202e7" in text
    assert f"child     {child}  running  look it up" in text

    ended = shell.json("session", "end", root, "--agent", "me")
    assert (ended["state"], ended["error"]) == ("ended", None)
    assert int(ended["decided_by"]) > 0
    assert shell.json("session", "end", root) == ended, "the same end again is done already"
    failed = shell.json("session", "end", child, "--as", "failed", "--error", "no answer")
    assert (failed["state"], failed["error"]) == ("failed", "no answer")
    assert "error     no answer" in shell.run("session", "show", child).stdout
    assert shell.json("session", "end", other, "--as", "cancelled")["state"] == "cancelled"
    assert f"session {root} finished as ended before it could be cancelled" in shell.refused(
        "session", "end", root, "--as", "cancelled"
    )
    assert [one["id"] for one in shell.json("session", "list", "--state", "failed")["sessions"]] == [child]
    assert "sessions of stream" in shell.run("session", "list").stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["state", "ticket-1"], "CONVERSATION: 'ticket-1' is neither a conversation id"),
        (["state", "@ticket-1", "--fold", "os.system"], "--fold: 'os.system' is not one of count, last"),
        (["state", "@ticket-1", "--topic", "no.such"], "topic 'no.such' does not exist in stream"),
        (["state", "@ticket-1", "--last", "-1"], "n: -1 is not a whole number from 0"),
        (["state", "@ticket-1", "--last", "1", "--save-every", "1"], "give one of --last"),
        (["state", "@ticket-1", "--save-every", "0"], "every: 0 is not a whole number from 1"),
        (["state", "@ticket-1", "--at", "/no/such/file"], "--at: /no/such/file: No such file"),
        (["state", "@ticket-1", "--from-checkpoint", "/"], "--from-checkpoint: /: Is a directory"),
        (["state", "@ticket-1", "--at", "-"], "checkpoint: not JSON"),
        (["checkpoint", "--topic", "no.such"], "topic 'no.such' does not exist in stream"),
        (["snapshot", "list", "--topic", "no.such"], "topic 'no.such' does not exist in stream"),
        (["snapshot", "list", "ticket-1"], "is neither a conversation id"),
        (["snapshot", "show", "@ticket-1"], f"no snapshot of conversation {ID} on topic 'agent.snapshots'"),
        (["snapshot", "verify", "@ticket-1", "--fold", "f"], "no snapshot of fold 'f' of conversation"),
        (["session", "list", "--state", "done"], "state: 'done' is not one of running, ended, failed, cancelled"),
        (["session", "list", "--parent", "x"], "--parent: 'x' is neither"),
        (["session", "list", "-n", "0"], "limit: 0 is not a whole number from 1"),
        (["session", "show", "x"], "SESSION: 'x' is neither"),
        (["session", "show", ID], f"session {ID} is not on stream"),
        (["session", "end", ID], f"session {ID} is not on stream"),
        (["session", "end", ID, "--as", "done"], "--as: 'done' is not one of ended, failed, cancelled"),
        (["session", "end", ID, "--error", "x"], "--error: goes with --as failed"),
    ],
)
def test_refusals(shell: Shell, args: list[str], said: str) -> None:
    assert said in shell.refused(*args)


def test_wrong_usage(shell: Shell) -> None:
    for args in (["snapshot", "list", "-n", "-1"], ["session", "end"], ["snapshot", "nothing"], ["state"]):
        assert shell.run(*args).exit_code == 2
