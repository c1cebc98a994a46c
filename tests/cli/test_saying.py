"""What a command says where there is nothing to show, and what a narrow terminal must not take away."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from typer.testing import CliRunner

import laser as ls
from laser.cli.app import app
from tests.cli.test_commands import Shell
from tests.commands import run_laser

ID = ls.derive_conversation_id("a")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = Shell(f"embedded:{tmp_path / 'data'}", "app")
    assert made.run("bootstrap").exit_code == 0
    made.json("append", "@a", "hello")
    return made


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["fetch", "@b"], "no messages of conversation"),
        (["memory", "list"], "nothing of it in namespace agent.memory"),
        (["memory", "search", "tea"], "nothing of it in namespace agent.memory"),
        (["lcm", "list", "@a"], "laser compact"),
        (["lcm", "grep", "@a", "tea"], "not found"),
        (["workspace", "ls", "--tenant", "acme"], "has no workspaces"),
    ],
)
def test_nothing_is_said_on_stderr(shell: Shell, args: list[str], said: str) -> None:
    """Nobody is left to guess whether the command did anything, and a program reads an empty stdout."""
    result = shell.run(*args)
    assert (result.exit_code, result.stdout) == (0, "")
    assert said in result.stderr
    shell.json(*args)


def test_doctor_says_that_all_is_well(shell: Shell, tmp_path: Path) -> None:
    assert shell.run("doctor").stdout.splitlines()[-1] == "ok      everything that was looked at works"
    bare = Shell(f"embedded:{tmp_path / 'data'}", "another").run("doctor")
    assert "laser bootstrap" in bare.stdout
    assert "ok " not in bare.stdout


def test_a_typo_does_not_make_a_workspace(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    put = ("workspace", "put", "sight", str(tmp_path / "f"), "--tenant", "acme")
    assert "does not exist" in shell.refused(*put, "--seen", "7")
    for rest in (
        ["ls", "sight"],
        ["cat", "sight", "f"],
        ["log", "sight"],
        ["diff", "sight", "1"],
        ["export", "sight", "."],
    ):
        said = shell.refused("workspace", *rest, "--tenant", "acme")
        assert "'sight' of tenant 'acme' does not exist" in said
        assert "laser workspace put" in said
        assert "create()" not in said
    assert shell.json("workspace", "ls", "--tenant", "acme") == []
    assert shell.run(*put).exit_code == 0


def test_ids_are_whole_on_a_narrow_terminal(shell: Shell, tmp_path: Path) -> None:
    """The next command needs all of an id."""
    shell.json("state", "@a", "--save-every", "1")

    async def start() -> str:
        async with ls.Laser.connect(f"embedded:{tmp_path / 'data'}", stream="app") as laser:
            return (await laser.sessions().start("a label of several words", agent="support")).id

    session = anyio.run(start)
    at = ("--url", f"embedded:{tmp_path / 'data'}", "--stream", "app")
    assert session in run_laser("session", "list", *at, cwd=tmp_path, COLUMNS="80").stdout
    assert ID in run_laser("snapshot", "list", *at, cwd=tmp_path, COLUMNS="80").stdout


def test_a_log_that_is_gone_is_not_offered(tmp_path: Path) -> None:
    (tmp_path / "chat.jsonl").write_text('{"role":"user","content":"hello"}\n')
    assert "Next:" not in run_laser("import", "chat.jsonl", "--url", "memory:", cwd=tmp_path).stdout
    assert "Next:" in run_laser("import", "chat.jsonl", "--url", "embedded:kept", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    "command",
    [
        ["session", "show"],
        ["session", "end"],
        ["session", "transcript"],
        ["session", "context"],
        ["session", "fork"],
        ["session", "list"],
        ["context", "show"],
        ["prompt", "show"],
        ["snapshot", "list"],
        ["doctor"],
    ],
    ids=" ".join,
)
def test_help_says_that_a_key_stands_for_an_id(command: list[str]) -> None:
    assert "@KEY" in CliRunner().invoke(app, [*command, "--help"]).output
