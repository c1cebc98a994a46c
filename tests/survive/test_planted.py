"""Each check fails on a planted bug: the package is copied, one thing in it is broken, and the check has to say so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from laser.testing.server import find_server_binary
from tests.commands import ROOT, environment


class Plant(NamedTuple):
    """A bug.

    Attributes:
        check: what has to find it. file: in the package. old, new: the text before and after. seen: what is said of it.
    """

    check: str
    file: str
    old: str
    new: str
    seen: str


PLANTS = {
    "acknowledged before it is committed": Plant(
        "embedded_kills",
        "engines/sqlite/writer.py",
        '            db.execute("COMMIT")\n',
        "            self._home.post(finish, list(group[:done]))\n            time.sleep(0.003)\n"
        '            db.execute("COMMIT")\n',
        "NOT KEPT: acknowledged but lost",
    ),
    "power does not wait for the disk": Plant(
        "power_cut",
        "engines/sqlite/checkpoints.py",
        '"PRAGMA synchronous = FULL" if power',
        '"PRAGMA synchronous = NORMAL" if power',
        "NOT KEPT: lost at power",
    ),
    "the clock's time as it is": Plant(
        "clocks",
        "engines/sqlite/stamps.py",
        "self._last = max(now, newest, self._last + 1)",
        "self._last = now",
        "NOT KEPT: ",
    ),
    "a server that keeps records in memory": Plant(
        "iggy_durability",
        "engines/iggy/durability.py",
        "flush = u32_option(_FLUSH, 1)",
        "flush = u32_option(_FLUSH, 1_000)",
        "NOT KEPT: lost at process",
    ),
    "copies are shown": Plant(
        "faulty_log",
        "context/decoding.py",
        "            return True\n",
        "            return False\n",
        "NOT KEPT: visible duplicates",
    ),
    "a fold that leaves out a record a page": Plant(
        "restart_in_fold",
        "context/replay.py",
        "reader.scanned = max(start, min(page.next, span.stop))",
        "reader.scanned = max(start, min(page.next + 1, span.stop))",
        "NOT KEPT: folded twice or not",
    ),
    "the last record of a snapshot folded again": Plant(
        "model",
        "context/snapshots.py",
        "per_topic[found.name][part.partition] = min(part.offset + 1, MAX_OFFSET)",
        "per_topic[found.name][part.partition] = part.offset",
        "Error",
    ),
    "a header that is cut short read as it is": Plant(
        "decoders",
        "wire/blocks.py",
        "    if size - at < 5:\n",
        "    if size - at < 0:\n",
        "struct.error",
    ),
}
_ON_IGGY = {"iggy_durability", "restart_in_fold"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.iggy] if plant.check in _ON_IGGY else []) for name, plant in PLANTS.items()],
)
def test_a_planted_bug_is_found(name: str, tmp_path: Path) -> None:
    plant = PLANTS[name]
    if plant.check in _ON_IGGY and find_server_binary() is None:
        pytest.skip("no iggy-server program to kill")
    if plant.check == "power_cut" and (os.geteuid() != 0 or not Path("/dev/loop-control").exists()):
        pytest.skip("needs root and loop devices")
    for part in ("laser", "tests"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path / "laser" / plant.file
    text = file.read_text()
    assert text.count(plant.old) >= 1, "the code has changed: plant the bug anew"
    file.write_text(text.replace(plant.old, plant.new, 1))
    done = subprocess.run(
        [sys.executable, "-m", "tests.survive", plant.check, "--short"],
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert plant.seen in done.stdout + done.stderr
