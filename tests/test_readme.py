"""Every code block of the README runs."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.commands import ROOT, run_laser, run_python

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [code for name, code in BLOCKS if name == language]


def test_languages() -> None:
    """No block escapes the tests below by a language that they do not know."""
    assert {name for name, _ in BLOCKS} == {"sh", "python", "console"}


def test_first_screen(tmp_path: Path) -> None:
    """The first program stands within the first screen, has about ten lines, and runs by itself."""
    program = blocks("python")[0]
    assert README.index(program) < 1_000
    assert len([line for line in program.splitlines() if line.strip()]) <= 12
    (tmp_path / "first.py").write_text(program)
    done = run_python("first.py", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "My charger does not fit.\nWhich label is on it?\n"


def test_snippets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The other snippets run one after another, as in ``python -m asyncio``."""
    monkeypatch.chdir(tmp_path)
    anyio.run(_paste, blocks("python")[1:])
    said = capsys.readouterr().out
    assert "['hello', 'step one', 'step two'] ()" in said
    assert "\n2\n1\n" in said
    assert "['and in Rome?']" in said
    assert (
        "['Ann: I only drink green tea']\nAnn: I only drink green tea\n\nAnn: my flight to Oslo is on Friday\n" in said
    )
    assert "\nwindow 2\n" in said
    assert "\n2 ['Be brief.', 'My charger does not fit.']\nWhich label is on it? None\n" in said
    assert "['Globex']\n['Acme']\n['Alice']\n" in said
    assert "compacted 200 True\n" in said
    assert "no.such.topic False" in said


async def _paste(snippets: list[str]) -> None:
    names: dict[str, Any] = {}
    for snippet in snippets:
        code = compile(snippet, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, names)
        if inspect.iscoroutine(result):
            await result


def test_commands(tmp_path: Path) -> None:
    (session,) = blocks("console")
    for line in session.splitlines():
        command = shlex.split(line.removeprefix("$ "))
        assert command[0] == "laser"
        done = run_laser(*command[1:], cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), line


def test_make_targets() -> None:
    """The two commands of the first screen are targets of the Makefile."""
    makefile = (ROOT / "Makefile").read_text()
    for command in re.findall(r"^make (\w+)", blocks("sh")[0], re.MULTILINE):
        assert re.search(rf"^{command}:", makefile, re.MULTILINE)
