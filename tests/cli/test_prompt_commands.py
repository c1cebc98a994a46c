"""Prompts on the command line, and the doctor."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

import laser as ls
import laser.prompt as lp
from tests.cli.test_commands import Shell

# memory: ends with each command, so there is nothing to see between two of them.
pytestmark = pytest.mark.parametrize("engine_url", ["embedded"], indirect=True)

ID = ls.derive_conversation_id("ticket-1")


@pytest.fixture
def shell(engine_url: str, stream_name: str) -> Shell:
    async def fill() -> None:
        async with ls.Laser.connect(engine_url, stream=stream_name) as laser:
            for topic in (ls.AgentTopic.Sessions, ls.AgentTopic.Control, ls.AgentTopic.Audit):
                await laser.ensure_topic(topic)
            scope = laser.context(ID)
            await scope.append("agent.sessions", json.dumps({"role": "user", "content": "hello \x1b[31m\u202e"}))
            await lp.Briefing("size").update(laser, scope, "size", "M")
            await laser.memory("support").facts(customer="ann").set("city", "Oslo")
            made = lp.PromptBuilder(laser, [lp.Identity("secret identity"), lp.History()], agent="bot")
            first = await made.build(scope, "one")
            await made.record_usage(first, lp.TraceUsage(200, 20, 100, 0))
            await lp.PromptBuilder(laser, [lp.Identity("changed"), lp.History()], agent="bot").build(scope, "two")

    anyio.run(fill)
    return Shell(engine_url, stream_name)


def test_show(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "identity.txt").write_text("You are X.\n" + "more\n" * 20)
    options = ["--field", "size", "--field", "budget", "--memory", "support", "--customer", "ann", "-m", "and now?"]
    options += ["--identity", str(tmp_path / "identity.txt")]
    shown = shell.json("prompt", "show", "@ticket-1", *options)
    assert shown["session"] == ID
    assert shown["system"].startswith("You are X.")
    assert "city: Oslo" in shown["system"]
    assert "size: M" in shown["system"]
    assert shown["messages"][0]["content"].startswith("hello")
    assert "still missing: budget" in shown["messages"][-2]["content"]
    assert shown["messages"][-1] == {"role": "user", "content": "and now?"}
    assert [section["category"] for section in shown["sections"]][:2] == ["identity", "fence"]
    text = shell.run("prompt", "show", "@ticket-1", *options).stdout
    assert "== identity, identity, system, priority 100 ==" in text
    assert "… 15 more lines" in text
    assert "\x1b" not in text
    assert "more lines" not in shell.run("prompt", "show", "@ticket-1", *options, "--whole").stdout
    # Looking writes nothing.
    assert len(shell.json("prompt", "trace", "@ticket-1")["traces"]) == 2


def test_show_with_a_vocabulary_and_a_small_budget(shell: Shell) -> None:
    shown = shell.json("prompt", "show", ID, "--tokens", "o200k_base", "--budget", "500", "--reply", "0")
    assert shown["trace"]["tokenizer"] == "o200k_base"
    assert "raise PromptBudget.tokens" in shell.refused("prompt", "show", ID, "--budget", "30", "--reply", "0")
    assert "o200k_base" in shell.refused("prompt", "show", ID, "--tokens", "gpt")
    assert "--identity" in shell.refused("prompt", "show", ID, "--identity", "absent.txt")


def test_trace(shell: Shell) -> None:
    result = shell.run("prompt", "trace", ID)
    assert result.exit_code == 0
    assert "50%" in result.stdout
    traces = shell.json("prompt", "trace", ID)["traces"]
    assert [one["invalidated"] for one in traces] == [None, "identity"]
    assert traces[0]["usage"]["cache_read_tokens"] == 100
    assert "secret" not in json.dumps(traces)
    assert "no prompts" in shell.refused("prompt", "trace", "@nobody")


def test_doctor(shell: Shell) -> None:
    found = shell.json("doctor", ID)["findings"]
    assert [one for one in found if one["level"] == "error"] == []
    assert all(one["advice"] for one in found)


def test_doctor_on_an_empty_log(engine_url: str, stream_name: str) -> None:
    bare = Shell(engine_url, stream_name)
    result = bare.run("doctor")
    assert result.exit_code == 0
    assert "laser bootstrap" in result.stdout


def test_doctor_on_a_log_that_is_not_there(engine_url: str) -> None:
    from typer.testing import CliRunner

    from laser.cli.app import app

    result = CliRunner().invoke(app, ["doctor", "--url", "iggy://u:p@127.0.0.1:1", "--timeout", "1"])
    assert result.exit_code == 1
    assert "error   log: cannot be used" in result.stdout
    assert "check the URL" in result.stdout
