"""The standard streams of the command: full, closed, and of other encodings than UTF-8."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import environment, run_laser, run_python

_LASER = f"{sys.executable} -m laser"

# Runs the command, and tells on stdout once it waits for stdin.
_TELLING = """
import anyio, os, sys
from laser.cli import main

wait_readable = anyio.wait_readable

async def telling(descriptor):
    if descriptor == 0:
        os.write(1, b"waiting\\n")
    await wait_readable(descriptor)

anyio.wait_readable = telling
main()
"""

full_disk = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    assert run_laser("bootstrap", cwd=tmp_path).returncode == 0
    assert run_laser("append", "@a", "Grüße → 👋", "--agent", "ü", cwd=tmp_path).returncode == 0
    return tmp_path


def shell(command: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """A command with redirections; ``laser`` in it is the command under test."""
    return subprocess.run(
        ["sh", "-c", command.replace("laser ", f"{_LASER} ")],
        cwd=cwd,
        env=environment(**variables),
        capture_output=True,
        timeout=60,
        check=False,
    )


@full_disk
@pytest.mark.parametrize("command", ["topics", "fetch @a --json", "--help"])
def test_output_that_cannot_be_written(place: Path, command: str) -> None:
    """One line says so; no traceback, and no second complaint when Python flushes at its end."""
    done = shell(f"laser {command} > /dev/full", place)
    assert (done.returncode, done.stderr) == (1, b"laser: the output cannot be written: No space left on device\n")


@pytest.mark.parametrize("command", ["topics", "topics --json"])
def test_a_closed_stdout(place: Path, command: str) -> None:
    done = shell(f"laser {command} >&-", place)
    assert (done.returncode, done.stderr) == (0, b"")


def test_all_streams_closed(place: Path) -> None:
    """Nothing that is opened later gets the number of a closed stream, and with it what is printed."""
    assert shell("laser append @a more <&- >&- 2>&-", place).returncode == 0
    assert shell("laser append @a -n <&- >&- 2>&-", place).returncode == 2
    assert shell("laser append @a <&-", place).stderr == b""
    found = json.loads(run_laser("fetch", "@a", "--json", cwd=place).stdout)["messages"]
    assert [one["text"] for one in found] == ["Grüße → 👋", "more", ""]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_other_encodings(place: Path, encoding: str) -> None:
    """People see what the encoding lacks as escapes; JSON is UTF-8 for whoever reads it."""
    people = shell("laser fetch @a", place, PYTHONIOENCODING=encoding)
    assert (people.returncode, people.stderr) == (0, b"")
    assert people.stdout.splitlines()[1] == "Grüße → 👋".encode(encoding, "backslashreplace")
    programs = shell("laser fetch @a --json", place, PYTHONIOENCODING=encoding)
    assert (programs.returncode, programs.stderr) == (0, b"")
    (message,) = json.loads(programs.stdout.decode("utf-8"))["messages"]
    assert (message["text"], message["provenance"]["agent"]) == ("Grüße → 👋", "ü")


def test_an_error_does_not_steer_the_terminal(tmp_path: Path) -> None:
    script = (
        "import laser as ls\nfrom laser.cli.running import run\n"
        "async def work():\n    raise ls.InvalidError('a\\x1b[31mb\\nc')\nrun(work)\n"
    )
    done = run_python("-c", script, cwd=tmp_path)
    assert done.stderr.splitlines()[0] == "laser: a\\x1b[31mb c"


@pytest.mark.parametrize("command", ["append @a", "content put - --tenant acme"])
def test_an_interrupt_while_stdin_is_awaited(tmp_path: Path, command: str) -> None:
    """Ctrl-C ends a command that waits for a text, as it ends any other, and nothing was written."""
    assert run_laser("bootstrap", cwd=tmp_path).returncode == 0
    with subprocess.Popen(
        [sys.executable, "-c", _TELLING, *command.split()],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == b"waiting\n"
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(30) == 130
    assert json.loads(run_laser("fetch", "@a", "--json", cwd=tmp_path).stdout)["messages"] == []


def test_a_text_from_a_terminal(place: Path) -> None:
    """Somebody who forgot the text is told what the command waits for."""
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "laser", "append", "@b"],
        cwd=place,
        env=environment(),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as typing:
        assert typing.stderr is not None
        assert typing.stderr.readline() == b"Reading from the terminal: Ctrl-D ends the text, Ctrl-C gives up.\n"
        os.write(ours, "typed ü\n\x04".encode())
        assert typing.wait(60) == 0
    os.close(ours)
    os.close(theirs)
    (message,) = json.loads(run_laser("fetch", "@b", "--json", cwd=place).stdout)["messages"]
    assert message["text"] == "typed ü\n"


def test_stdin_that_cannot_be_read(place: Path) -> None:
    done = shell("laser append @a 0> unreadable", place)
    assert (done.returncode, done.stderr) == (1, b"laser: stdin cannot be read: Bad file descriptor\n")
