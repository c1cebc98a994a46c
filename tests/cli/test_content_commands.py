"""Content on the command line."""

from __future__ import annotations

import hashlib
from pathlib import Path

import anyio
import pytest

import laser as ls
from tests.cli.test_commands import Shell
from tests.commands import run_laser

LARGE = bytes(range(256)) * 5_000


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(f"embedded:{tmp_path / 'data'}", "app")


def put(shell: Shell, data: bytes, *args: str) -> str:
    done = shell.run("content", "put", "-", "--tenant", "acme", *args, stdin=data)
    assert (done.exit_code, done.stderr) == (0, "")
    digest = done.stdout.strip()
    assert digest == hashlib.sha256(data).hexdigest()
    return digest


def test_put_and_get(shell: Shell, tmp_path: Path) -> None:
    for data in (b"", b"small \xff", LARGE):
        digest = put(shell, data)
        path = tmp_path / "file"
        path.write_bytes(data)
        shown = shell.json("content", "put", str(path), "--tenant", "acme", "--media-type", "a/b")
        assert shown == {"digest": digest, "media_type": "a/b", "size": len(data)}
        got = shell.run("content", "get", digest, "--tenant", "acme")
        assert (got.exit_code, got.stdout_bytes == data) == (0, True)
        got = shell.run("content", "get", digest, "--tenant", "acme", "--start", "2", "--stop", "9")
        assert got.stdout_bytes == data[2:9]
        out = tmp_path / f"out-{len(data)}"
        assert shell.run("content", "get", digest, "--tenant", "acme", "--out", str(out)).exit_code == 0
        assert (out.read_bytes() == data) is True
        assert "exists" in shell.refused("content", "get", digest, "--tenant", "acme", "--out", str(out))
    assert not list(tmp_path.glob("*.part"))


def test_info_and_gc(shell: Shell) -> None:
    digest, loose = put(shell, LARGE, "--hold", "me"), put(shell, b"loose")
    shown = shell.json("content", "info", digest, "--tenant", "acme")
    assert (shown["size"], shown["inline"], shown["holders"]) == (len(LARGE), False, 1)
    assert "kept by 1 holders" in shell.run("content", "info", digest, "--tenant", "acme").stdout
    assert "kept by nothing" in shell.run("content", "info", loose, "--tenant", "acme").stdout
    assert shell.json("content", "gc")["removed"] == 0
    dry = shell.run("content", "gc", "--tenant", "acme", "--grace", "0", "--dry-run").stdout
    assert dry == "would remove 1 of 2 looked at, 5 bytes\n"
    done = shell.run("content", "gc", "--grace", "0").stdout
    assert done.startswith("removed 1 of ")
    assert "does not exist" in shell.refused("content", "info", loose, "--tenant", "acme")
    assert shell.json("content", "info", digest, "--tenant", "acme")["holders"] == 1


def test_tenants_are_apart(shell: Shell) -> None:
    digest = put(shell, b"secret")
    for command in ("get", "info"):
        assert "does not exist" in shell.refused("content", command, digest, "--tenant", "other")
    assert shell.json("content", "gc", "--tenant", "other", "--grace", "0")["scanned"] == 0


def test_a_collector_at_work(shell: Shell, tmp_path: Path) -> None:
    async def elect() -> None:
        async with ls.Laser.connect(f"embedded:{tmp_path / 'data'}") as laser:
            await (await laser.open_content()).catalog.lease("content-collector", "somebody", 60)

    anyio.run(elect)
    assert "another process is collecting" in shell.run("content", "gc").stdout


def test_refusals(shell: Shell, tmp_path: Path) -> None:
    assert "64 lower-case" in shell.refused("content", "get", "abc", "--tenant", "acme")
    assert "No such file" in shell.refused("content", "put", str(tmp_path / "none"), "--tenant", "acme")
    assert "grace" in shell.refused("content", "gc", "--grace", "-1")
    assert shell.run("content", "put", "-").exit_code == 2
    digest = put(shell, b"x")
    refused = shell.refused("content", "get", digest, "--tenant", "acme", "--out", str(tmp_path / "no" / "file"))
    assert "--out" in refused


def test_places_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(LARGE)
    put_it = ("content", "put", "file", "--tenant", "acme", "--url", f"embedded:{tmp_path}/log")
    places = {"LASER_CATALOG": f"embedded:{tmp_path}/catalog", "LASER_OBJECTS": f"embedded:{tmp_path}/objects"}
    done = run_laser(*put_it, cwd=tmp_path, **places)
    assert (done.returncode, done.stderr) == (0, "")
    assert any(path.is_file() for path in (tmp_path / "objects").rglob("*"))
    assert (tmp_path / "catalog" / "laser.db").exists()
    assert not (tmp_path / "log" / "objects").exists()


def test_what_stands_beside_an_output_file_is_left_alone(shell: Shell, tmp_path: Path) -> None:
    digest = put(shell, LARGE)
    out, beside = tmp_path / "out", tmp_path / "out.part"
    beside.write_text("somebody's")
    assert shell.run("content", "get", digest, "--tenant", "acme", "--out", str(out)).exit_code == 0
    assert (out.read_bytes() == LARGE, beside.read_text()) == (True, "somebody's")
    absent = tmp_path / "absent" / "out"
    assert "--out: " in shell.refused("content", "get", digest, "--tenant", "acme", "--out", str(absent))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "out", "out.part"]


def test_messages_that_are_gone(tmp_path: Path) -> None:
    """The catalog is not in the log's file: a collection asks the log."""
    log, catalog = f"embedded:{tmp_path / 'log'}", f"embedded:{tmp_path / 'catalog'}"

    async def write_and_purge() -> None:
        async with ls.Laser.connect(log, stream="app", catalog=catalog) as laser:
            await laser.ensure_topic("events")
            await laser.context(ls.new_conversation_id()).append("events", "x" * 70_000, content=laser.content("acme"))
            await laser.purge_topic("events")

    anyio.run(write_and_purge)
    shell = Shell(log, "app")
    dry = shell.run("content", "gc", "--grace", "0", "--dry-run", "--catalog", catalog).stdout
    told = "1 holds of messages that are gone, 0 that never came"
    assert dry == f"would remove 0 of 1 looked at, 0 bytes; would end {told}\n"
    done = shell.run("content", "gc", "--grace", "0", "--catalog", catalog).stdout
    assert done == f"removed 1 of 1 looked at, 70,000 bytes; 1 objects gone; ended {told}\n"
    shown = shell.json("content", "gc", "--catalog", catalog)
    assert (shown["released"], shown["unconfirmed"], shown["complete"]) == (0, 0, True)
