"""Each check fails on a planted bug: the package is copied, one thing in it is broken, and the check has to say so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from laser.testing.history import Operation, Seen
from laser.testing.server import find_server_binary
from tests.commands import ROOT, environment
from tests.survive.checks.iggy_cluster_power_cut import judge
from tests.survive.histories import after_a_cut
from tests.survive.running import ORDER


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
    "collected without a look at the holders": Plant(
        "content_kills",
        "engines/sqlite/content_rows.py",
        "        and connection.execute(_HELD, (number,)).fetchone() is None\n",
        "",
        "NOT KEPT: held but lost",
    ),
    "an upload that nobody knows of": Plant(
        "content_kills",
        "content/writing.py",
        "    await catalog.begin_upload(key)\n    try:\n        async with aclosing(source.chunks(hasher)) as chunks:\n"
        "            await objects.put(key, chunks)\n",
        "    try:\n        async with aclosing(source.chunks(hasher)) as chunks:\n"
        "            await objects.put(key, chunks)\n        await catalog.begin_upload(key)\n"
        "        await anyio.sleep(0.01)\n",
        "NOT KEPT: objects left over",
    ),
    "power does not wait for the disk": Plant(
        "power_cut",
        "engines/sqlite/checkpoints.py",
        '"PRAGMA synchronous = FULL" if power',
        '"PRAGMA synchronous = NORMAL" if power',
        "NOT KEPT: lost at power",
    ),
    "a batch committed record by record": Plant(
        "disk_full",
        "engines/sqlite/appending.py",
        "        tx.connection.executemany(_INSERT, rows)\n",
        "        for each in rows:\n"
        "            tx.connection.execute(_INSERT, each)\n"
        '            tx.connection.execute("COMMIT")\n'
        '            tx.connection.execute("BEGIN IMMEDIATE")\n',
        "NOT KEPT: half visible",
    ),
    "an operating system's error as it is": Plant(
        "descriptors",
        "engines/sqlite/opening.py",
        "except (*DRIVER_ERRORS, OSError) as error:",
        "except DRIVER_ERRORS as error:",
        "NOT KEPT: other errors",
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
    "power does not wait for the server's disk": Plant(
        "iggy_power_cut",
        "engines/iggy/durability.py",
        "bool_option(_FSYNC, True)",
        "bool_option(_FSYNC, False)",
        "NOT KEPT: lost at power",
    ),
    "no answer is taken for a good one": Plant(
        "iggy_failover",
        "engines/iggy/appends.py",
        "                broken, attempts = error, attempts + 1\n",
        "                ids = attempt.layout.stream_id, attempt.layout.topic_id\n"
        "                return Appended(*ids, partition, tuple(range(len(records))))\n",
        "NOT KEPT: acknowledged but lost",
    ),
    "sent again as something new, without a look": Plant(
        "iggy_network",
        "engines/iggy/appends.py",
        "            if broken is not None or find_first:\n",
        "            if broken is not None:\n"
        "                records = [msgspec.structs.replace(record, id=record.id + 1) for record in records]\n"
        "                messages = _messages(records)\n"
        "            if find_first:\n",
        "NOT KEPT: visible duplicates",
    ),
    "a call that waits as long as it takes": Plant(
        "iggy_network",
        "engines/iggy/links.py",
        "return min(deadline, started + self._stall + size / SLOW_BYTES)",
        "return started + 3_600",
        "NOT KEPT: hangs",
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
    "a fetch that begins at the beginning": Plant(
        "load_ten_million",
        "engines/sqlite/reading.py",
        '"low": low, "high": high, "limit": limit}',
        '"low": position(part.key, part.first), "high": high, "limit": -1}',
        "NOT KEPT: fetch, ratio",
    ),
    "a cache without a bound": Plant(
        "load_conversations",
        "context/cache/cached_log.py",
        "        if self.size <= self._max_bytes:\n            return\n",
        "        if self.size >= 0:\n            return\n",
        "NOT KEPT: over the cache's bound",
    ),
    "a follow that reads as far as it can": Plant(
        "slow_consumer",
        "context/following.py",
        "_PAGE: Final = 500\n",
        "_PAGE: Final = 500_000\n",
        "NOT KEPT: read ahead of it",
    ),
    "a batching that takes whatever comes": Plant(
        "slow_consumer",
        "context/batching.py",
        "self._pending >= self._max_pending",
        "self._pending < 0",
        "NOT KEPT: waiting in a batching",
    ),
    "connections that outlive their client": Plant(
        "soak",
        "engines/iggy/links.py",
        "            link = self._links.pop()\n",
        "            link = self._links.pop()\n            Links.kept = [*getattr(Links, 'kept', []), link]\n",
        "NOT KEPT: left open",
    ),
}
_LOADS = {"load_conversations", "slow_consumer", "soak"}
_ON_IGGY = {name for name in ORDER if name.startswith("iggy_")} | {"restart_in_fold"} | _LOADS
_NEED_DISKS = {"power_cut", "iggy_power_cut"}
# Kills and cuts fall where the machine has them fall: a bug that one run happens to miss is not missed by three.
_SEEDS = (1, 2, 3)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.iggy] if plant.check in _ON_IGGY else []) for name, plant in PLANTS.items()],
)
@pytest.mark.timeout(900)
def test_a_planted_bug_is_found(name: str, tmp_path: Path) -> None:
    plant = PLANTS[name]
    if plant.check in _ON_IGGY and find_server_binary() is None:
        pytest.skip("no iggy-server program to kill")
    if plant.check == "disk_full" and os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    if plant.check in _NEED_DISKS and (os.geteuid() != 0 or not Path("/dev/loop-control").exists()):
        pytest.skip("needs root and loop devices")
    for part in ("laser", "tests", "benchmarks"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path / "laser" / plant.file
    text = file.read_text()
    assert text.count(plant.old) >= 1, "the code has changed: plant the bug anew"
    file.write_text(text.replace(plant.old, plant.new, 1))
    said = ""
    for seed in _SEEDS:
        done = subprocess.run(
            [sys.executable, "-m", "tests.survive", plant.check, "--short", "--seed", f"{seed}"],
            cwd=tmp_path,
            env=environment(PYTHONPATH=str(tmp_path)),
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        said += done.stdout + done.stderr
        if done.returncode == 1 and plant.seen in said:
            return
    raise AssertionError(f"not found: {said}")


def test_every_check_has_a_planted_bug() -> None:
    # A cut of a cluster takes half a minute: what it found is planted instead, below. A copy has no real conversations:
    # bugs are planted into compaction in tests/compaction/test_planted.py.
    elsewhere = {"iggy_cluster_power_cut", "compaction"}
    assert {plant.check for plant in PLANTS.values()} == set(ORDER) - elsewhere


@pytest.mark.parametrize(
    ("kept", "lost", "torn"),
    [
        (["a", "b", "c"], 0, 0),
        (["a", "b"], 1, 0),
        ([], 3, 0),
        (["a", "x", "c"], 1, 1),
        (["a", "c"], 2, 1),
    ],
)
def test_what_a_cut_took_is_found(kept: list[str], lost: int, torn: int) -> None:
    operations = [
        Operation("w", "append", 0, value=value, outcome="acknowledged", partition=0, offset=offset)
        for offset, value in enumerate(["a", "b", "c"])
    ]
    operations.append(Operation("w", "append", 0, value="in doubt"))
    raw = [Seen(0, offset, value) for offset, value in enumerate(kept)]
    assert after_a_cut(operations, raw) == (lost, torn)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({}, []),
        ({"torn": 1}, ["torn: 1"]),
        ({"most lost by one cut at power": 9}, ["lost at power: 9 by one cut"]),
        ({"lost at process": 0}, ["nothing was lost at process: the cuts show nothing"]),
    ],
)
def test_a_cut_of_a_cluster_is_judged(found: dict[str, int], said: list[str]) -> None:
    good = {"torn": 0, "lost at process": 100, "most lost by one cut at power": 2}
    assert judge(good | found, "iggy").broken == said
