"""The command as a process: exit codes, signals, pipes, settings, secrets, and what is said without the extra."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import laser as ls
from tests.commands import environment, run_laser, run_python, start_laser

CANARY = "s3cr3t-c4n4ry"


def test_environment_decides(tmp_path: Path) -> None:
    """Without options the variables count, and without those ./.laser."""
    at = {"LASER_CONNECTION_STRING": "embedded:elsewhere", "LASER_STREAM": "mine"}
    assert run_laser("bootstrap", cwd=tmp_path, **at).returncode == 0
    info = json.loads(run_laser("serve-info", "--json", cwd=tmp_path, **at).stdout)
    assert (info["stream"], info["topics"]) == ("mine", len(ls.AgentTopic.ALL))
    assert json.loads(run_laser("serve-info", "--json", cwd=tmp_path).stdout)["topics"] == 0
    assert (tmp_path / "elsewhere").is_dir()
    assert (tmp_path / ".laser").is_dir()


def test_version_and_help(tmp_path: Path) -> None:
    assert run_laser("--version", cwd=tmp_path).stdout == f"laser {ls.__version__}\n"
    shown = run_laser("--help", cwd=tmp_path)
    assert shown.returncode == 0
    for command in ("append", "fetch", "tail", "topics", "bootstrap", "import", "serve-info"):
        assert f"\n  {command} " in shown.stdout
    assert "130 interrupted" in shown.stdout


@pytest.mark.parametrize(
    "args", [["no-such-command"], ["fetch"], ["fetch", "@a", "--no-such"], ["fetch", "@a", "-n", "x"]]
)
def test_wrong_usage(args: list[str], tmp_path: Path) -> None:
    done = run_laser(*args, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage: laser" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "url",
    [
        f"http://user:{CANARY}@127.0.0.1:1",
        f"iggy://user:{CANARY}@",
        f"iggy://user:{CANARY}@127.0.0.1:notaport",
        f"user:{CANARY}@127.0.0.1:99999",
        f"iggy://user:{CANARY}@127.0.0.1:1?no_such_option={CANARY}",
        f"{CANARY}",
        "embedded:",
        "",
    ],
)
def test_wrong_url(url: str, tmp_path: Path) -> None:
    """One line that says what is wrong, without the password, and nothing is made."""
    done = run_laser("topics", "--url", url, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("laser: ")
    assert done.stderr.count("\n") == 1
    assert CANARY not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.iggy
def test_no_server_there(tmp_path: Path) -> None:
    done = run_laser("topics", "--url", f"iggy://user:{CANARY}@127.0.0.1:1", "--timeout", "2", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "127.0.0.1:1" in done.stderr
    assert done.stderr.count("\n") == 1
    assert CANARY not in done.stderr


def test_interrupted_tail(tmp_path: Path) -> None:
    """Messages show up as they are appended; Ctrl-C ends it quietly with 130."""
    assert run_laser("bootstrap", cwd=tmp_path).returncode == 0
    run_laser("append", "@a", "before", cwd=tmp_path)
    with start_laser("tail", "@a", "--json", cwd=tmp_path) as tail:
        assert tail.stdout is not None
        assert tail.stderr is not None
        assert json.loads(tail.stdout.readline())["text"] == "before"
        for number in range(3):
            run_laser("append", "@a", f"after {number}", cwd=tmp_path)
            assert json.loads(tail.stdout.readline())["text"] == f"after {number}"
        tail.send_signal(signal.SIGINT)
        assert tail.wait(100) == 130
        assert tail.stdout.read() == ""
        assert tail.stderr.read() == ""


def test_closed_pipe(tmp_path: Path) -> None:
    """``laser fetch … | head -1`` ends without a complaint."""
    assert run_laser("bootstrap", cwd=tmp_path).returncode == 0
    for _ in range(3):
        run_laser("append", "@a", "x" * 100_000, cwd=tmp_path)
    with start_laser("fetch", "@a", cwd=tmp_path) as fetch:
        assert fetch.stdout is not None
        assert fetch.stderr is not None
        fetch.stdout.readline()
        fetch.stdout.close()
        assert fetch.wait(100) == 0
        assert fetch.stderr.read() == ""


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra(missing: str, tmp_path: Path) -> None:
    """The library works without the cli extra, and the command says what to install."""
    hide = f"import sys; sys.modules[{missing!r}] = None\n"
    done = run_python("-c", hide + "from laser.cli import main; main()", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install 'laser-context[cli]'" in done.stderr
    assert done.stderr.count("\n") == 1
    assert run_python("-c", hide + "import laser; laser.Laser.connect('memory:')", cwd=tmp_path).returncode == 0


def test_entry_point(tmp_path: Path) -> None:
    """The installed script is the same command."""
    script = Path(sys.executable).parent / "laser"
    if not script.exists():
        pytest.skip("laser-context is not installed beside this interpreter: only its source is on the path")
    done = subprocess.run(
        [script, "--version"], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"laser {ls.__version__}\n")
