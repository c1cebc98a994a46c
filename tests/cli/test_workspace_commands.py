"""Workspaces on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_commands import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(f"embedded:{tmp_path / 'data'}", "app")


def ok(shell: Shell, *args: str, stdin: bytes | None = None) -> str:
    done = shell.run("workspace", *args, "--tenant", "acme", stdin=stdin)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


def test_files_and_directories(shell: Shell, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "docs").mkdir(parents=True)
    (source / "docs" / "a.md").write_text("# A")
    (source / "link").symlink_to(tmp_path)
    (tmp_path / "one.txt").write_text("one")
    assert ok(shell, "put", "site", str(source), "--note", "first") == "revision 2\nleft out link: a symbolic link\n"
    assert ok(shell, "put", "site", str(tmp_path / "one.txt"), "--path", "docs/one.txt") == "revision 3\n"
    assert ok(shell, "put", "site", "-", "--path", "docs/a.md", "--seen", "3", stdin=b"# B") == "revision 4\n"
    assert ok(shell, "ls") == "site\n"
    assert ok(shell, "ls", "site").split() == ["6", "docs/"]
    assert ok(shell, "ls", "site", "docs").split() == ["3", "docs/a.md", "3", "docs/one.txt"]
    assert ok(shell, "cat", "site", "docs/a.md") == "# B"
    assert ok(shell, "cat", "site", "docs/a.md", "--revision", "2") == "# A"
    assert ok(shell, "diff", "site", "2") == "~ docs/a.md\n+ docs/one.txt\n"
    lines = ok(shell, "log", "site").splitlines()
    assert [line.split()[0] for line in lines] == ["4", "3", "2", "1"]
    assert lines[2].endswith("first")
    target = tmp_path / "target"
    assert ok(shell, "export", "site", str(target), "--revision", "3") == "2 files\n"
    assert (target / "docs" / "a.md").read_text() == "# A"


def test_json(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    put = shell.json("workspace", "put", "site", str(tmp_path / "f"), "--tenant", "acme")
    assert put["revision"] == 2
    [info] = shell.json("workspace", "ls", "site", "--tenant", "acme")
    assert (info["path"], info["size"], info["directory"]) == ("f", 1, False)
    assert [entry["revision"] for entry in shell.json("workspace", "log", "site", "--tenant", "acme")] == [2, 1]
    [change] = shell.json("workspace", "diff", "site", "1", "--tenant", "acme")
    assert (change["path"], change["before"]) == ("f", None)
    assert shell.json("workspace", "ls", "--tenant", "other") == []


def test_what_is_refused(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    ok(shell, "put", "site", str(tmp_path / "f"))
    assert "saw 1" in shell.refused("workspace", "put", "site", str(tmp_path / "f"), "--tenant", "acme", "--seen", "1")
    assert "no name of a file" in shell.refused(
        "workspace", "put", "site", str(tmp_path / "f"), "--tenant", "acme", "--path", "../f"
    )
    assert "stdin has no name" in shell.refused("workspace", "put", "site", "-", "--tenant", "acme")
    assert "does not exist" in shell.refused("workspace", "ls", "nothing", "--tenant", "acme")
    assert "not empty" in shell.refused("workspace", "export", "site", str(tmp_path), "--tenant", "acme")
    assert "does not exist" in shell.refused("workspace", "cat", "site", "f", "--tenant", "other")
