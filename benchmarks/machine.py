"""What was measured on what: versions, the machine and its load. No names of hosts, users or directories."""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import laser as ls

__all__ = ["describe_machine", "describe_program"]

_ROOT: Final = Path(__file__).resolve().parents[1]
_PACKAGES: Final = ("apache-iggy", "laser-sdk", "openai-agents", "langgraph-checkpoint-sqlite")


def describe_program() -> dict[str, Any]:
    """Versions of what is measured; a commit with ``+`` has changes that were not committed."""
    return {
        "laser": ls.__version__,
        "commit": _commit(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "sqlite": sqlite3.sqlite_version,
        "packages": {name: found for name in _PACKAGES if (found := _version(name)) is not None},
    }


def describe_machine() -> dict[str, Any]:
    """The machine, and how busy it is at this moment."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "cores": _cores(),
        "memory_gib": _memory_gib(),
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str:
    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        changed = git(
            "status", "--porcelain", "--untracked-files=no", "--", "laser", "benchmarks", ":!benchmarks/results"
        )
        return git("rev-parse", "--short=10", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory_gib() -> float:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
