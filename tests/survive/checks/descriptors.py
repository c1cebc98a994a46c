"""Embedded: no file descriptor is left. A typed error at opening and at reading, and usable once there are some."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile

import anyio

import laser as ls
from tests.commands import ROOT, environment
from tests.survive.figures import Budget, Figures
from tests.survive.histories import KEYS, PARTITIONS, TOPIC

_SPARE = 8


def run(budget: Budget, seed: int) -> Figures:
    """In a process of its own, with 0 to 7 descriptors to spare at each step."""
    times = budget.choose(1, 5)
    found = {"refused with a typed error": 0, "other errors": 0, "lost": 0, "not usable": 0}
    for _ in range(times):
        with tempfile.TemporaryDirectory(prefix="laser-files-") as place:
            done = subprocess.run(
                [sys.executable, "-m", __name__, place],
                cwd=ROOT,
                env=environment(),
                capture_output=True,
                text=True,
                timeout=240,
                check=False,
            )
        if done.returncode:
            raise AssertionError(f"the process ended with {done.returncode}: {done.stderr[-2_000:]}")
        for name, count in json.loads(done.stdout).items():
            found[name] += count
    figures = Figures(f"{2 * _SPARE * times} steps", found, engine="embedded")
    return figures.must_be_zero("other errors", "lost", "not usable")


async def _starve(place: str) -> None:
    found = {"refused with a typed error": 0, "other errors": 0, "lost": 0, "not usable": 0}
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    written = 0

    def only(spare: int) -> None:
        free = os.open(os.devnull, os.O_RDONLY)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + spare, hard))

    def enough() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    async with ls.Laser.connect(f"embedded:{place}", stream="survive") as first:
        await first.ensure_topic(TOPIC, PARTITIONS)
    for spare in range(_SPARE):
        only(spare)
        try:
            async with ls.Laser.connect(f"embedded:{place}", stream="survive") as laser:
                await laser.context(KEYS[0]).append(TOPIC, f"{written}")
                written += 1
        except ls.LaserError:
            found["refused with a typed error"] += 1
        except Exception:
            found["other errors"] += 1
        finally:
            enough()
    for spare in range(_SPARE):
        async with ls.Laser.connect(f"embedded:{place}", stream="survive") as laser:
            scope = laser.context(KEYS[0])
            only(spare)
            try:
                await scope.append(TOPIC, f"{written}")
                written += 1
                # The first read opens files of its own.
                await scope.fetch(topics=[TOPIC], n=10_000)
            except ls.LaserError:
                found["refused with a typed error"] += 1
            except Exception:
                found["other errors"] += 1
            finally:
                enough()
            messages = await scope.fetch(topics=[TOPIC], n=10_000)
            found["lost"] += [message.text for message in messages] != [f"{number}" for number in range(written)]
    print(json.dumps(found))


if __name__ == "__main__":
    anyio.run(_starve, sys.argv[1])
