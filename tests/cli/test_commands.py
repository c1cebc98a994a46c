"""The commands: what they print for people and for programs, and how they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import laser as ls
from laser.cli.app import app

ID = ls.derive_conversation_id("ticket-1")

# memory: ends with each command, so there is nothing to see between two of them.
pytestmark = pytest.mark.parametrize("engine_url", ["embedded", "iggy"], indirect=True)


class Shell:
    """Runs commands against one log."""

    def __init__(self, url: str, stream: str) -> None:
        self._at = ["--url", url, "--stream", stream]

    def run(self, *args: str, stdin: bytes = b"") -> Result:
        return CliRunner().invoke(app, [*args, *self._at], input=stdin)

    def json(self, *args: str, stdin: bytes = b"") -> Any:
        result = self.run(*args, "--json", stdin=stdin)
        assert (result.exit_code, result.stderr) == (0, ""), result.stderr
        assert result.stdout.count("\n") == 1, "one document, on one line"
        return json.loads(result.stdout)

    def refused(self, *args: str, stdin: bytes = b"") -> str:
        """The one line on stderr of a command that ends with code 1."""
        result = self.run(*args, stdin=stdin)
        assert result.exit_code == 1, result.output
        assert result.stdout == ""
        assert result.stderr.startswith("laser: ")
        assert result.stderr.count("\n") == 1
        return result.stderr


@pytest.fixture
def shell(engine_url: str, stream_name: str) -> Shell:
    bare = Shell(engine_url, stream_name)
    assert bare.run("bootstrap").exit_code == 0
    return bare


def test_append_and_fetch(shell: Shell) -> None:
    receipt = shell.json("append", "@ticket-1", "Grüße 👋", "--agent", "user")
    assert receipt["conversation"] == ID
    assert receipt["topic"] == "agent.sessions"
    assert receipt["offset"] == 0
    shell.json("append", ID.lower(), "-", "--agent", "support", stdin=b"from \xff stdin\n")

    found = shell.json("fetch", "@ticket-1")
    assert found["conversation"] == ID
    assert found["skipped"] == []
    first, second = found["messages"]
    assert first["text"] == "Grüße 👋"
    assert first["record_id"] == receipt["id"]
    assert (first["partition"], first["offset"]) == (receipt["partition"], 0)
    assert first["provenance"] == {"conversation_id": ID, "agent": "user"}
    assert second["payload_base64"] == "ZnJvbSD/IHN0ZGluCg=="
    assert second["offset"] == 1


def test_append_twice_with_one_id(shell: Shell) -> None:
    first = shell.json("append", "@ticket-1", "once", "--id", "77")
    assert shell.json("append", "@ticket-1", "once", "--id", "77") == first
    assert len(shell.json("fetch", "@ticket-1")["messages"]) == 1


def test_append_to_a_new_conversation(shell: Shell) -> None:
    one, two = (shell.json("append", "new", "hello")["conversation"] for _ in range(2))
    assert one != two
    assert [message["text"] for message in shell.json("fetch", one)["messages"]] == ["hello"]


def test_append_nothing(shell: Shell) -> None:
    """An empty message is a message, from stdin too."""
    shell.json("append", "@ticket-1", "")
    shell.json("append", "@ticket-1", stdin=b"")
    assert [message["text"] for message in shell.json("fetch", "@ticket-1")["messages"]] == ["", ""]


def test_fetch_cuts(shell: Shell) -> None:
    call = {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f"}}]}
    for agent, text in (
        ("user", "a" * 400),
        ("assistant", json.dumps(call)),
        ("tool", json.dumps({"role": "tool", "tool_call_id": "c", "content": "done"})),
        ("user", "bye"),
    ):
        shell.json("append", "@ticket-1", text, "--agent", agent)

    def agents(*options: str) -> list[str]:
        found = shell.json("fetch", "@ticket-1", *options)["messages"]
        return [message["provenance"]["agent"] for message in found]

    assert agents() == ["user", "assistant", "tool", "user"]
    assert agents("-n", "2") == ["tool", "user"]
    assert agents("-n", "2", "--pairs") == ["user"]
    assert agents("-n", "0") == []
    assert agents("--budget", "90") == ["assistant", "tool", "user"]
    assert agents("--agent", "user") == ["user", "user"]


def test_fetch_for_people(shell: Shell) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "find", "arguments": '{"order":7}'}}
    shell.json("append", "@ticket-1", json.dumps({"role": "assistant", "content": "Looking.", "tool_calls": [call]}))
    # Text of a user must neither steer the terminal nor be taken for the console's markup.
    shell.json("append", "@ticket-1", "[bold]red[/bold] \x1b[31m\x07 \u202e[/]", "--agent", "user")
    result = shell.run("fetch", "@ticket-1")
    assert result.exit_code == 0
    assert 'Looking.\n-> find({"order":7})' in result.stdout
    assert "[bold]red[/bold] \\x1b[31m\\x07 \\x202e[/]" in result.stdout
    assert "agent.sessions" in result.stdout


def test_fetch_of_an_unknown_conversation(shell: Shell) -> None:
    assert shell.json("fetch", "@nobody")["messages"] == []
    assert "no messages of conversation" in shell.run("fetch", "@nobody").stderr


def test_topics(shell: Shell) -> None:
    shell.json("append", "@ticket-1", "hello")
    found = {topic["name"]: topic for topic in shell.json("topics")["topics"]}
    assert set(found) == set(ls.AgentTopic.ALL)
    sessions = found["agent.sessions"]
    assert sessions["records"] == 1
    assert sessions["expire_micros"] == 30 * 86_400 * 1_000_000
    assert [part["id"] for part in sessions["partitions"]] == [0, 1, 2, 3]
    assert found["agent.memory"]["expire_micros"] is None
    shown = shell.run("topics").stdout
    assert "agent.sessions" in shown
    assert "30 days" in shown


def test_bootstrap_again_changes_nothing(shell: Shell) -> None:
    before = shell.json("topics")
    assert shell.json("bootstrap", "--partitions", "2") == before


def test_tail(shell: Shell) -> None:
    for number in range(5):
        shell.json("append", "@ticket-1", f"message {number}")
    result = shell.run("tail", "@ticket-1", "-n", "3", "--count", "3", "--json")
    assert result.exit_code == 0
    assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == ["message 2", "message 3", "message 4"]


def test_serve_info(shell: Shell, engine_url: str) -> None:
    shell.json("append", "@ticket-1", "hello")
    info = shell.json("serve-info")
    assert info["engine"] == engine_url.partition(":")[0]
    assert info["records"] == 1
    assert info["topics"] == len(ls.AgentTopic.ALL)
    assert info["laser"] == ls.__version__
    assert info["default_durability"] in info["durabilities"]
    shown = shell.run("serve-info")
    assert info["version"] in shown.stdout
    assert "iggy:iggy" not in shown.output + json.dumps(info)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["fetch", "ticket-1"], "CONVERSATION: 'ticket-1' is neither a conversation id"),
        (["fetch", "@"], "CONVERSATION: '@' is neither"),
        (["fetch", "8" + ID[1:]], "is neither a conversation id"),
        (["fetch", "@ticket-1", "--topic", "no.such"], "topic 'no.such' does not exist in stream"),
        (["tail", "@ticket-1", "--topic", "no.such"], "laser bootstrap creates the agent topics"),
        (["append", "@ticket-1", "hello", "--topic", "no.such"], "topic 'no.such' does not exist in stream"),
        (["append", "@ticket-1", "hello", "--agent", "a\nb"], "agent"),
        (["append", "@ticket-1", "hello", "--id", "zero"], "--id: 'zero' is not a whole number"),
        (["append", "@ticket-1", "hello", "--id", "0"], "id: 0 is not a whole number from 1"),
        (["fetch", "@ticket-1", "-n", "-1"], "n: -1 is not a whole number from 0"),
        (["fetch", "@ticket-1", "--budget", "-1"], "max_tokens: -1 is not a whole number"),
        (["bootstrap", "--partitions", "0"], "partitions: 0 is not a whole number from 1"),
        (["bootstrap", "--keep-days", "nan"], "--keep-days: nan is not a number of days"),
        (["bootstrap", "--durability", "eternal"], "durability: 'eternal' is not one of memory, process, power"),
        (["topics", "--timeout", "0"], "timeout: 0.0 is not a number of seconds above 0"),
    ],
)
def test_refusals(shell: Shell, args: list[str], said: str) -> None:
    assert said in shell.refused(*args)
    assert shell.json("fetch", "@ticket-1")["messages"] == [], "nothing was written"


def test_without_bootstrap(engine_url: str, stream_name: str) -> None:
    assert "it has no topics yet" in Shell(engine_url, stream_name).refused("append", "@ticket-1", "hello")


def test_bad_stream(engine_url: str, tmp_path: Path) -> None:
    assert "stream: " in Shell(engine_url, "a\0b").refused("topics")
