"""Work in a process of its own, whose memory is nobody else's."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.commands import ROOT, environment

__all__ = ["run_apart"]


def run_apart(module: str, *arguments: object, seconds: float = 3_600) -> dict[str, Any]:
    """Runs ``python -m module arguments`` and returns the JSON object that it prints."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=seconds, check=False
    )
    if done.returncode:
        raise AssertionError(f"the process ended with {done.returncode}: {done.stderr[-2_000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
