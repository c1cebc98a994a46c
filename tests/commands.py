"""Running the ``laser`` command as a user does: as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def environment(**extra: str) -> dict[str, str]:
    """The environment of a child: this clone's code, no settings of laser, and every warning an error."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LASER_")}
    return kept | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"} | extra


def run_python(*args: str, cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    """Runs the interpreter of this test run with arguments."""
    return subprocess.run(
        [sys.executable, *args],
        cwd=cwd,
        env=environment(**extra),
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


def start_laser(*args: str, cwd: Path, start_new_session: bool = False, **extra: str) -> subprocess.Popen[str]:
    """Starts ``laser`` with pipes for its output; the caller ends it."""
    return subprocess.Popen(
        [sys.executable, "-m", "laser", *args],
        cwd=cwd,
        env=environment(**extra),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=start_new_session,
    )


def run_laser(*args: str, cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    """Runs ``laser`` to its end."""
    return run_python("-m", "laser", *args, cwd=cwd, **extra)
