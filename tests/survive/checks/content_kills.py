"""Content: eight processes put, hold, release and collect at once and are killed; nothing held is lost or left over."""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import anyio.to_thread

import laser as ls
from laser.context.decoding import decode_record
from laser.testing.postgres_server import find_postgres, run_postgres
from tests.survive.content_worker import TOPIC
from tests.survive.figures import Budget, Figures
from tests.survive.killing import Processes

_PROCESSES = 8
_GRACE = 0.5
_PATIENCE = 60.0
_LEAST = 8
_ZERO = ("held but lost", "left over", "objects left over", "objects lost", "broken references", "broken in between")


def run(budget: Budget, seed: int) -> Figures:
    """On the embedded catalog and, where there is one, on PostgreSQL."""
    seconds = budget.choose(3, 120)
    found: Counter[str] = Counter()
    engine = "embedded"
    with tempfile.TemporaryDirectory(prefix="laser-survive-") as directory:
        url = f"embedded:{directory}/embedded"
        found += anyio.run(_turn, url, "", "", f"{directory}/embedded/objects", seconds, seed)
        if find_postgres() is None:
            engine = "embedded, PostgreSQL"
            url = f"embedded:{directory}/beside"
            with run_postgres() as server:
                found += anyio.run(_turn, url, server.url, url, f"{directory}/beside/objects", seconds, seed)
    figures = {
        name: found[name] for name in ("kills", "holds", "releases", "messages", "collections that removed", *_ZERO)
    }
    told = Figures(f"{seconds} s on each of: {engine}", figures, engine=engine).must_be_zero(*_ZERO)
    told.broken += [
        f"nothing was tried: {name}" for name in ("holds", "messages", "collections that removed") if not found[name]
    ]
    return told


async def _turn(url: str, catalog: str, objects: str, place: str, seconds: int, seed: int) -> Counter[str]:
    tenant = f"survive-{uuid4().hex}"
    async with ls.Laser.connect(url, catalog=catalog or None, objects=objects or None) as laser:
        await laser.ensure_topic(TOPIC, 2)
        await laser.open_content()
        command = ["tests.survive.content_worker", url, catalog, objects, tenant, str(_GRACE)]
        with Processes(command) as processes:
            kills = await anyio.to_thread.run_sync(_kill, processes, seconds, random.Random(f"{seed} {catalog[:4]}"))
        # What the dead had begun is over the grace when it has passed twice.
        await anyio.sleep(2 * _GRACE)
        content = laser.content(tenant)
        with anyio.fail_after(180):
            while not (report := await content.collect(grace=_GRACE, upload_grace=_GRACE)).elected:
                await anyio.sleep(0.5)  # the lease of one that was killed
        assert report.complete, report
        found = await _judge(laser, content, processes.lines, Path(place))
    found["kills"] = kills
    return found


def _kill(processes: Processes, seconds: int, rng: random.Random) -> int:
    for _ in range(_PROCESSES):
        processes.start()
    end, kills = time.monotonic() + seconds, 0
    give_up = end + _PATIENCE
    # On a slow machine it takes longer until everything was tried.
    while time.monotonic() < end or (not _all_tried(processes) and time.monotonic() < give_up):
        processes.wait_for(rng.randrange(20, 200))
        processes.kill(rng.choice(list(processes.living)))
        processes.start()
        kills += 1
    return kills


def _all_tried(processes: Processes) -> bool:
    tried = Counter(line[1] if line[0] == "did" else line[0] for line in list(processes.lines))
    return min(tried[word] for word in ("remove", "append", "held", "released")) >= _LEAST


async def _judge(laser: ls.Laser, content: ls.Content, lines: list[list[Any]], place: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    children: dict[str, list[str]] = {}
    holds: dict[str, list[str]] = {}
    sure: set[str] = set()
    over: set[str] = set()
    for line in lines:
        match line:
            case ["put", digest, named]:
                children.setdefault(digest, named)
            case ["hold", holder, digests]:
                holds[holder] = digests
            case ["held", holder]:
                sure.add(holder)
                found["holds"] += 1
            case ["release", holder]:
                sure.discard(holder)
            case ["released", holder]:
                over.add(holder)
                found["releases"] += 1
            case ["broken", _]:
                found["broken in between"] += 1
            case ["did", "remove"]:
                found["collections that removed"] += 1
            case _:
                continue
    held = {digest for holder in sure for digest in holds[holder]}
    perhaps = {digest for holder in holds.keys() - over for digest in holds[holder]}
    named, referred = await _references(laser, content, found)
    held, perhaps = _closed(held, children), _closed(perhaps | referred, children)
    store = await laser.open_content()
    keys = set()
    for digest in children.keys() | named:
        blob = await store.catalog.get(content.tenant, digest)
        if blob is None:
            found["held but lost"] += digest in held
            continue
        found["left over"] += digest not in perhaps
        if blob.key is not None:
            keys.add(blob.key)
        try:
            await content.get(digest)
        except ls.StorageError:
            found["objects lost"] += 1
        for child in children.get(digest, ()):
            found["broken references"] += await store.catalog.get(content.tenant, child) is None
    files = {path.name for path in place.rglob("*") if path.is_file()}
    found["objects left over"] = len(files - {key.partition("/")[2] for key in keys})
    return found


async def _references(laser: ls.Laser, content: ls.Content, found: Counter[str]) -> tuple[set[str], set[str]]:
    """The contents that messages name; those that cannot be had are broken references."""
    named = set()
    log, info = laser.open_log(), await laser.topic(TOPIC)
    for part in info.partitions:
        start = part.first
        while start < part.end:
            page = await log.read(laser.stream, TOPIC, part.id, start=start, limit=1_000)
            for record in page.records:
                message = decode_record(record, info)
                assert isinstance(message, ls.ContextMessage)
                assert message.content is not None
                found["messages"] += 1
                named.add(message.content.ref.digest)
            start = page.next
    for digest in named:
        try:
            await content.get(digest)
        except (ls.NotFoundError, ls.StorageError):
            found["broken references"] += 1
    return named, named


def _closed(digests: set[str], children: dict[str, list[str]]) -> set[str]:
    """Contents with everything that they name."""
    closed: set[str] = set()
    waiting = list(digests)
    while waiting:
        digest = waiting.pop()
        if digest not in closed:
            closed.add(digest)
            waiting += children.get(digest, ())
    return closed
