"""Runs targets under atheris, each in a process of its own."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from tests.commands import ROOT, environment

__all__ = ["CORPUS", "Fuzzed", "fuzz", "missing"]

CORPUS: Final = Path(__file__).parent / "corpus"
_DONE: Final = re.compile(r"Done (\d+) (?:runs )?in")
_PULSE: Final = re.compile(r"^#(\d+)\s", re.MULTILINE)


class Fuzzed(msgspec.Struct, frozen=True):
    """What a run did: how many inputs it tried, and the input that broke the contract, where one did."""

    target: str
    inputs: int
    broken: str = ""


def missing() -> str | None:
    """Why nothing can be fuzzed here, ``None`` when it can."""
    if find_spec("atheris") is None:
        return "the package atheris is not installed (extra fuzz; it has no builds for every Python and machine)"
    return None


def fuzz(name: str, *, runs: int = 0, seconds: int = 0, seed: int = 1) -> Fuzzed:
    """Fuzzes one target, from the kept corpus on.

    Args:
        runs: inputs to try, 0 for no end. seconds: how long, 0 for no end. One of the two must end it.
    """
    if not runs and not seconds:
        raise ValueError("runs or seconds: one of them must end it")
    with tempfile.TemporaryDirectory(prefix="laser-fuzz-") as text:
        work = Path(text)
        shutil.copytree(CORPUS / name, work / "corpus")
        limits = [f"-seed={seed}", "-max_len=4096", "-timeout=30", f"-artifact_prefix={work}/found-"]
        limits += [f"-runs={runs}"] if runs else []
        limits += [f"-max_total_time={seconds}"] if seconds else []
        done = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.worker", name, *limits, str(work / "corpus")],
            cwd=ROOT,
            env=environment(),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        said = done.stdout + done.stderr
        counted = _DONE.findall(said) or _PULSE.findall(said)
        inputs = int(counted[-1]) if counted else 0
        found = sorted(work.glob("found-*"))
        if not found and done.returncode == 0:
            return Fuzzed(name, inputs)
        data = found[0].read_bytes() if found else b""
        return Fuzzed(name, inputs, f"{data!r}: {said[-1_500:]}")
