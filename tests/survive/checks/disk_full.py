"""Embedded: the disk is full. A clear error, nothing half visible, and usable as soon as there is room again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio

import laser as ls
from tests.commands import ROOT, environment
from tests.survive.figures import Budget, CannotRunError, Figures
from tests.survive.histories import KEYS, PARTITIONS, TOPIC, everything, visible


def run(budget: Budget, seed: int) -> Figures:
    """File systems of a few MiB, filled by records of several sizes, and made larger afterwards."""
    if os.geteuid() != 0:
        raise CannotRunError("needs root to mount a small file system")
    found = {"acknowledged": 0, "lost": 0, "half visible": 0, "errors that are not StorageError": 0, "not usable": 0}
    engine = ""
    times = budget.choose(3, 12)
    for number in range(times):
        with tempfile.TemporaryDirectory(prefix="laser-full-") as text:
            place = Path(text)
            mebibytes = 3 + (seed + number) % 5
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", place], check=True)
            try:
                # In a process of its own: a signal from a page that cannot be had must not end the checks.
                done = subprocess.run(
                    [sys.executable, "-m", __name__, str(place), str(1_000 * 7 ** (number % 3))],
                    cwd=ROOT,
                    env=environment(),
                    capture_output=True,
                    text=True,
                    timeout=240,
                    check=False,
                )
            finally:
                subprocess.run(["umount", place], check=True)
        if done.returncode:
            raise AssertionError(f"the process ended with {done.returncode}: {done.stderr[-2_000:]}")
        counted = json.loads(done.stdout)
        engine = counted.pop("engine")
        for name, count in counted.items():
            found[name] += count
    names = [name for name in found if name != "acknowledged"]
    return Figures(f"{times} disks", found, engine=engine).must_be_zero(*names)


async def _fill(place: Path, size: int) -> None:
    counted = {"acknowledged": 0, "lost": 0, "half visible": 0, "errors that are not StorageError": 0, "not usable": 0}
    async with ls.Laser.connect(f"embedded:{place / 'data'}", stream="survive") as laser:
        await laser.ensure_topic(TOPIC, PARTITIONS)
        acknowledged: list[str] = []

        async def append(number: int) -> bool:
            texts = [f"{number}.{part} ".ljust(size, "x") for part in range((1, 3, 9)[number % 3])]
            try:
                await laser.context(KEYS[number % 5]).append_many(TOPIC, texts)
            except ls.StorageError as error:
                counted["errors that are not StorageError"] += str(place) not in str(error)
                return False
            except Exception:
                counted["errors that are not StorageError"] += 1
                return False
            acknowledged.extend(texts)
            return True

        number = failures = 0
        # Some more after the first that failed: small ones may still find room.
        while failures < 20:
            failures += not await append(number)
            number += 1
        await _compare(laser, acknowledged, counted)
        await anyio.run_process(["mount", "-o", "remount,size=64m", str(place)])
        for _ in range(5):
            counted["not usable"] += not await append(number)
            number += 1
    async with ls.Laser.connect(f"embedded:{place / 'data'}", stream="survive") as again:
        await _compare(again, acknowledged, counted)
        info = await again.info()
    counted["acknowledged"] = len(acknowledged)
    print(json.dumps(counted | {"engine": f"{info.engine} {info.version}"}))


async def _compare(laser: ls.Laser, acknowledged: list[str], counted: dict[str, int]) -> None:
    raw = [seen.value for seen in await everything(laser)]
    counted["lost"] += len(set(acknowledged) - set(raw))
    counted["half visible"] += len(set(raw) - set(acknowledged)) + (len(raw) - len(set(raw)))
    counted["half visible"] += sorted(await visible(laser, KEYS[:5])) != sorted(raw)


if __name__ == "__main__":
    anyio.run(_fill, Path(sys.argv[1]), int(sys.argv[2]))
