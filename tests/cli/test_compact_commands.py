"""``laser compact``, ``laser lcm`` and ``laser strategies``."""

from __future__ import annotations

import json
import sys

import anyio
import pytest

import laser as ls
from laser.testing.compaction_cases.base import Desk
from tests.cli.test_commands import Shell

# memory: ends with each command, so there is nothing to see between two of them.
pytestmark = pytest.mark.parametrize("engine_url", ["embedded", "iggy"], indirect=True)

COMMAND = f"{sys.executable} -c \"import sys; print('Of', len(sys.stdin.read()), 'characters.')\""
FAILING = f'{sys.executable} -c "import sys; print(1); sys.exit(3)"'


@pytest.fixture
def shell(engine_url: str, stream_name: str) -> Shell:
    async def fill() -> None:
        async with ls.Laser.connect(engine_url, stream=stream_name) as laser:
            await laser.ensure_topic(ls.AgentTopic.Sessions)
            desk = Desk(laser, ls.derive_conversation_id("long"), ls.StrategyRegistry())
            await desk.talk(40)
            await desk.say(b'{"role":"user","content":"\\u001b[31mred\\u202e"}')

    anyio.run(fill)
    return Shell(engine_url, stream_name)


def test_compact(shell: Shell) -> None:
    shown = shell.json("compact", "@long", "--window", "4000")
    assert (shown["status"], shown["strategy"], shown["rows"]) == ("compacted", "rolling", 161)
    assert shown["tokens"] < shown["tokens_before"] / 2
    assert shown["covered"] > 80
    again = shell.run("compact", "@long", "lcm", "--window", "4000", "--summarizer-command", COMMAND)
    assert again.exit_code == 0, again.output
    assert "compacted (lcm)" in again.stdout
    assert "messages  161, of which" in again.stdout
    assert "100 % of" in again.stderr
    # A conversation that is no session has a request as well.
    context = shell.json("context", "show", "@long")
    assert (context["request"]["strategy"], "entries" in context) == ("lcm", False)
    assert "== request of its 161 messages ==" in shell.run("context", "show", "@long").stdout
    listed = shell.json("lcm", "list", "@long")["folds"]
    assert listed[0]["text"].startswith("Of ")
    assert shell.json("lcm", "describe", "@long", "1") == listed[0]


def test_lcm(shell: Shell) -> None:
    shell.json("compact", "@long", "lcm", "--window", "4000")
    folds = shell.json("lcm", "list", "@long", "-n", "200")["folds"]
    assert len(folds) > 3
    parent = next(fold for fold in folds if fold["children"])
    text = shell.run("lcm", "list", "@long", "-n", "2").stdout
    assert "more: --after 2" in text
    text = shell.run("lcm", "describe", "@long", str(parent["number"])).stdout
    assert f"{parent['number']}: of summaries {', '.join(map(str, parent['children']))}" in text
    hits = shell.json("lcm", "grep", "@long", "question-7 ")["hits"]
    assert [hit["role"] for hit in hits if hit["seq"] is not None] == ["user"]
    assert "row " in shell.run("lcm", "grep", "@long", "ANSWER-7 ").stdout
    inside = shell.json("lcm", "grep", "@long", "question-", "--node", str(parent["number"]), "-n", "200")["hits"]
    assert inside
    pages = [shell.json("lcm", "expand", "@long", "-n", "100")]
    while pages[-1]["next"]:
        pages.append(shell.json("lcm", "expand", "@long", "-n", "100", "--after", pages[-1]["next"]))
    assert sum(len(page["rows"]) for page in pages) == 161
    rows = shell.run("lcm", "expand", "@long", str(folds[0]["number"])).stdout
    assert "(user)" in rows
    last = pages[-1]["rows"][-2]["seq"]
    red = shell.run("lcm", "expand", "@long", "--after", f"row:{last}").stdout
    assert "\x1b" not in red
    assert "\\x1b[31mred\\x202e" in red


def test_strategies(shell: Shell) -> None:
    del shell
    from typer.testing import CliRunner

    from laser.cli.app import app

    found = json.loads(CliRunner().invoke(app, ["strategies", "--json"]).stdout)
    assert found["default"] == "rolling"
    assert [(one["name"], one["trigger_percent"], one["tail_percent"]) for one in found["strategies"]] == [
        ("rolling", 90, 25),
        ("lcm", 90, 25),
        ("snapcompact", 90, 10),
    ]
    text = CliRunner().invoke(app, ["strategies"]).stdout
    assert "rolling (default)" in text


def test_into_pictures(shell: Shell) -> None:
    found = shell.json("compact", "@long", "snapcompact")
    assert (found["strategy"], found["status"]) == ("snapcompact", "compacted")
    assert [section["kind"] for section in found["sections"]] == ["frame", "tail"]
    assert found["tokens"] < found["tokens_before"]


def test_what_is_refused(shell: Shell) -> None:
    for command, said in ((FAILING, "code 3"), ("no-such-command -x", "no-such-command")):
        result = shell.run("compact", "@long", "--summarizer-command", command)
        assert (result.exit_code, result.stdout) == (1, "")
        assert said in result.stderr.splitlines()[-1]
    assert "--summarizer-command" in shell.refused("compact", "@long", "--summarizer-command", "'")
    assert "'best' is not here; there are: rolling, lcm" in shell.refused("compact", "@long", "best")
    assert "no messages" in shell.refused("compact", "@other")
    assert "window" in shell.refused("compact", "@long", "--window", "0")
    assert "no summary 77" in shell.refused("lcm", "describe", "@long", "77")
    assert "limit" in shell.refused("lcm", "list", "@long", "-n", "0")
    assert "after" in shell.refused("lcm", "expand", "@long", "--after", "x")
    # Nothing came of what failed.
    assert shell.json("lcm", "list", "@long")["folds"] == []
    assert shell.json("compact", "@long")["status"] == "compacted"


def test_messages_that_stay(shell: Shell) -> None:
    shown = shell.json("compact", "@long", "--keep-last", "30")
    # Turns have four messages, and the newest one stands alone.
    assert (shown["rows"], shown["covered"]) == (161, 128)
    refused = shell.run("compact", "@long", "--keep-last", "-1")
    assert refused.exit_code == 1
    assert "keep_last" in refused.output


def test_an_active_context(shell: Shell, engine_url: str, stream_name: str) -> None:
    async def fill() -> str:
        async with ls.Laser.connect(engine_url, stream=stream_name) as laser:
            await laser.ensure_topic(ls.AgentTopic.Control)
            session = await laser.sessions().start("active")
            for number in range(8):
                asked = ls.NewEntry("user", f"question {number} {'word ' * 50}".encode(), tokens=60)
                async with session.run([asked]) as run, await run.turn() as turn:
                    await turn.finish([ls.NewEntry("assistant", b"answer " * 50, tokens=90)])
            return session.id

    session = anyio.run(fill)
    refused = shell.run("compact", session)
    assert refused.exit_code == 1
    assert "--active" in refused.output
    shown = shell.json("compact", session, "--active", "--keep-last", "4", "--summarizer-command", COMMAND)
    assert (shown["status"], shown["entries_before"], shown["entries"]) == ("compacted", 16, 6)
    assert shown["tokens"] < shown["tokens_before"] == 1_200
    text = shell.run("compact", session, "rolling", "--active", "--keep-last", "100")
    assert "nothing to fold (active context)" in text.stdout
    assert shell.run("compact", session, "nope", "--active").exit_code == 1
