"""Names that are traps elsewhere: paths, SQL, look-alikes. Here they are names, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import laser as ls
from tests.context.logs import SESSIONS
from tests.context.making import payloads

pytestmark = pytest.mark.anyio

A = ls.derive_conversation_id("a")

TRAPS = [
    "../outside", "../../../../etc/passwd", "/absolute", "C:\\x", "a/b", "CON", "nul.txt", ".", "..", "~", "-rf",
    "x') OR 1=1--", "x'; DROP TABLE records;--", '"', "`", "%", "_", "*", "?", "$HOME", "{0}", "\\x00", "x\\",
    "é", "e\u0301", "аgent.sessions", "agent.sessions\u200b", "🔥", "x" * 255, "é" * 127, "0x10",
    "1e3", "-7",
]  # fmt: skip


async def test_g6_g7_traps_are_only_names(laser: ls.Laser, engine_url: str) -> None:
    before = _files(engine_url)
    for number, name in enumerate(TRAPS):
        info = await laser.ensure_topic(name, partitions=1)
        assert info.name == name
        await laser.context(A).append(name, f"{number}", agent=name)
    for number, name in enumerate(TRAPS):
        (message,) = await laser.context(A).fetch(topics=[name])
        assert (message.topic, message.payload, message.provenance.agent) == (name, b"%d" % number, name)
    assert payloads(await laser.context(A).fetch(topics=TRAPS)) == [b"%d" % number for number in range(len(TRAPS))]
    assert {info.name for info in await laser.topics()} >= set(TRAPS)
    assert payloads(await laser.assemble_context(A, topics=TRAPS, roles=["x') OR 1=1--"])) == [b"11"]
    assert await laser.context(A).fetch(topics=[SESSIONS]) == []
    assert _files(engine_url) == before


def _files(engine_url: str) -> list[Path]:
    """Everything beside the embedded engine's directory: nothing may appear there."""
    if not engine_url.startswith("embedded:"):
        return []
    home = Path(engine_url.removeprefix("embedded:"))
    return sorted(path for path in home.parent.rglob("*") if home not in path.parents)


async def test_g6_streams_are_only_names(engine_url: str, tmp_path: Path, stream_name: str) -> None:
    for trap in ("../outside", "x'; DROP TABLE records;--", "a/b"):
        stream = f"{trap}{stream_name}"
        async with ls.Laser.connect(engine_url, stream=stream) as laser:
            assert await laser.topics() == ()
            await laser.ensure_topic("t")
            await laser.context(A).append("t", stream)
            assert [message.text for message in await laser.context(A).fetch(topics=["t"])] == [stream]
    assert not list(tmp_path.glob("*outside*"))


async def test_two_streams_do_not_see_each_other(engine_url: str, stream_name: str) -> None:
    async with ls.Laser.connect(engine_url, stream=f"{stream_name}-1") as one:
        await one.ensure_topic("t")
        await one.context(A).append("t", b"one")
        if engine_url == "memory:":
            return
        async with ls.Laser.connect(engine_url, stream=f"{stream_name}-10") as another:
            assert await another.context(A).fetch(topics=["t"]) == []
            await another.ensure_topic("t")
            await another.context(A).append("t", b"another")
            assert payloads(await another.context(A).fetch(topics=["t"])) == [b"another"]
        assert payloads(await one.context(A).fetch(topics=["t"])) == [b"one"]
