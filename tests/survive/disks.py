"""File systems in an image, to cut the power of: what the kernel had not given to the disk is not in a copy of it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.survive.figures import CannotRunError

__all__ = ["MORE_CUTS", "copy_disk", "make_disk", "mounted", "need_disks"]

MORE_CUTS = 4
"""How many more cuts are tried when none has shown that cuts take something."""

_TRIES = 150
_PAUSE_SECONDS = 0.2


def need_disks() -> None:
    """Raises unless images can be made and mounted here."""
    if os.geteuid() != 0 or not shutil.which("mkfs.ext4") or not Path("/dev/loop-control").exists():
        raise CannotRunError("needs root, mkfs.ext4 and loop devices to mount a file system image")


def make_disk(disk: Path, size: int) -> None:
    """Makes an image with an empty file system."""
    with disk.open("wb") as file:
        file.truncate(size)
    subprocess.run(["mkfs.ext4", "-q", disk], check=True)


def copy_disk(disk: Path, target: Path) -> None:
    """A copy of a moment: copied until two in a row are equal, as the kernel may write meanwhile."""
    before = ""
    for _ in range(10):
        subprocess.run(["cp", "--sparse=always", disk, target], check=True)
        with target.open("rb") as file:
            now = hashlib.file_digest(file, "blake2b").hexdigest()
        if now == before:
            return
        before = now
    raise RuntimeError("the file system did not come to rest")


@contextmanager
def mounted(disk: Path, at: Path) -> Iterator[Path]:
    """Mounts an image, and unmounts it at the end."""
    at.mkdir(exist_ok=True)
    # The journal is written when somebody asks for it, and not by the clock in between.
    subprocess.run(["mount", "-o", "loop,commit=300", disk, at], check=True)
    try:
        yield at
    finally:
        _unmount(at)


def _unmount(at: Path) -> None:
    # A server's last calls can hold its files for a moment after its end.
    for _ in range(_TRIES - 1):
        if not subprocess.run(["umount", at], stderr=subprocess.DEVNULL, check=False).returncode:
            return
        time.sleep(_PAUSE_SECONDS)
    subprocess.run(["umount", at], check=True)
