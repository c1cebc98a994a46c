"""Embedded: the power goes while it is written to: nothing is lost at `power`, a whole beginning stays at `process`."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

import laser as ls
from laser.testing.history import Operation
from tests.survive.figures import Budget, CannotRunError, Figures
from tests.survive.histories import PARTITIONS, TOPIC, everything, visible
from tests.survive.killing import Writers

_SIZE = 96 << 20


def run(budget: Budget, seed: int) -> Figures:
    """Cuts on file systems in an image: the writers stop, the image is copied, the copy is mounted and opened.

    What the kernel had not given to the disk is not in the copy, as after a power cut. The figure for ``process`` shows
    that the cuts bite.
    """
    if os.geteuid() != 0 or not shutil.which("mkfs.ext4") or not Path("/dev/loop-control").exists():
        raise CannotRunError("needs root, mkfs.ext4 and loop devices to mount a file system image")
    cuts = budget.choose(2, 40)
    found = Counter[str]()
    engine = ""
    for durability in ("process", "power"):
        rng = random.Random(f"{seed} {durability}")
        for _ in range(cuts // 2):
            counted, engine = _cut(durability, rng)
            found.update(counted)
    figures = Figures(f"{cuts} cuts", dict(found), engine=engine).must_be_zero("lost at power", "torn")
    if not found["lost at process"]:
        figures.broken.append("nothing was lost at process: the cuts show nothing")
    return figures


def _cut(durability: ls.Durability, rng: random.Random) -> tuple[dict[str, int], str]:
    with tempfile.TemporaryDirectory(prefix="laser-power-") as text:
        place = Path(text)
        with (place / "disk").open("wb") as disk:
            disk.truncate(_SIZE)
        subprocess.run(["mkfs.ext4", "-q", place / "disk"], check=True)
        with _mounted(place / "disk", place / "live") as live:
            # What comes before is on the disk: the cut is to fall into the writing, not into the making.
            anyio.run(_make, live / "data", durability)
            os.sync()
            with Writers(f"embedded:{live / 'data'}", "survive", 4, durability) as writers:
                writers.start()
                writers.start()
                writers.wait_for(rng.randrange(30, 300))
                writers.pause()
                _copy(place / "disk", place / "after")
            operations = writers.operations()
        with _mounted(place / "after", place / "again") as again:
            return anyio.run(_look, again / "data", durability, operations)


async def _make(directory: Path, durability: ls.Durability) -> None:
    async with ls.Laser.connect(f"embedded:{directory}", stream="survive") as laser:
        await laser.ensure_topic(TOPIC, PARTITIONS, durability=durability)


async def _look(directory: Path, durability: ls.Durability, operations: list[Operation]) -> tuple[dict[str, int], str]:
    async with ls.Laser.connect(f"embedded:{directory}", stream="survive") as laser:
        raw = await everything(laser)
        there = {(one.partition, one.offset): one.value for one in raw}
        torn = 0
        for partition in range(PARTITIONS):
            offsets = [one.offset for one in raw if one.partition == partition]
            torn += offsets != list(range(len(offsets)))
        lost = 0
        for one in operations:
            if one.outcome != "acknowledged":
                continue
            value = there.get((one.partition, one.offset))
            lost += value is None
            # Another record in its place would be more than a missing end.
            torn += value not in (None, one.value)
        torn += sorted(await visible(laser)) != sorted(there.values())
        # And it can be written to again.
        await laser.context(operations[0].key).append(TOPIC, "after")
        acknowledged = sum(one.outcome == "acknowledged" for one in operations)
        info = await laser.info()
        counted = {"acknowledged": acknowledged, f"lost at {durability}": lost, "torn": torn}
        return counted, f"{info.engine} {info.version}"


def _copy(disk: Path, target: Path) -> None:
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
def _mounted(disk: Path, at: Path) -> Iterator[Path]:
    at.mkdir()
    # The journal is written when somebody asks for it, and not by the clock in between.
    subprocess.run(["mount", "-o", "loop,commit=300", disk, at], check=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", at], check=True)
