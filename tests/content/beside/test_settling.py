"""Holds of messages end by themselves once the log does not hold the message."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest

import laser as ls
from laser.content import collecting
from laser.content.places import decode_place, record_holder
from laser.limits import CONTENT_GRACE_SECONDS
from laser.testing.clock import SetClock
from laser.testing.postgres_server import PostgresServer
from tests.commands import ROOT, environment
from tests.content.beside.conftest import TENANT, TOPIC, Unsure, catalog_beside, holds_of

pytestmark = pytest.mark.anyio


async def _take_all(laser: ls.Laser, way: str) -> None:
    if way == "purge":
        await laser.purge_topic(TOPIC)
    else:
        await laser.delete_topic(TOPIC)
    if way == "recreation":
        await laser.ensure_topic(TOPIC, 1)


@pytest.mark.parametrize("way", ["purge", "deletion", "recreation"])
async def test_what_a_topic_held_goes_with_it(
    laser: ls.Laser, content: ls.Content, ctx: ls.ContextScope, way: str
) -> None:
    sound = await content.put(b"sound")
    for number in range(3):
        await ctx.append(TOPIC, f"message {number}", content=content)
    ref = await content.put(b"with two")
    await ctx.append_content(TOPIC, await content.entry(ref, provenance_ref=sound), content=content)
    kept = await ctx.append("other", "message 1", content=content)
    report = await content.collect(grace=0)
    assert (report.released, report.unconfirmed, report.removed, report.complete) == (0, 0, 0, True)

    await _take_all(laser, way)
    before = await holds_of(laser)
    dry = await content.collect(grace=0, dry_run=True)
    assert (dry.released, dry.unconfirmed, dry.removed) == (5, 0, 0)
    assert await holds_of(laser) == before
    # Nothing can go within the grace, so nothing is looked for.
    assert (await content.collect()).released == 0
    report = await content.collect(grace=0)
    assert (report.released, report.unconfirmed, report.removed, report.complete) == (5, 0, 4, True)
    (message,) = await ctx.fetch(topics=["other"], resolve=content)
    assert (message.record_id, message.text) == (kept.id, "message 1")
    assert [hold.holder for hold in await holds_of(laser)] == [
        record_holder(laser.stream, "other", ctx.conversation, kept.id)
    ]
    assert (await content.collect(grace=0)).released == 0


async def test_retention_ends_what_it_takes(
    laser: ls.Laser, url: str, content: ls.Content, ctx: ls.ContextScope
) -> None:
    """Records before the first one that is left are gone, those after it are not."""
    await laser.ensure_topic("bounded", 1, ls.TopicRetention(max_size=4 << 20))
    await ctx.append("bounded", "old content", content=content)
    for number in range(8):
        await ctx.append("bounded", f"{number}".ljust(1 << 20))
    await ctx.append("bounded", "new content", content=content)
    if url.startswith("iggy"):
        await _delete_segments(url, laser.stream, "bounded")
    with anyio.fail_after(20):
        while (await laser.topic("bounded")).partitions[0].first == 0:
            await anyio.sleep(0.01)
    report = await content.collect(grace=0)
    assert (report.released, report.unconfirmed, report.removed) == (1, 0, 1)
    newest = (await ctx.fetch(topics=["bounded"], resolve=content))[-1]
    assert newest.text == "new content"


async def _delete_segments(url: str, stream: str, topic: str) -> None:
    from apache_iggy import IggyClient

    client = IggyClient.from_connection_string(url)
    await client.connect()
    names = b"".join(bytes([2, len(name.encode())]) + name.encode() for name in (stream, topic))
    # Removes the oldest segments of partition 0, as retention does.
    await client.send_binary_request(503, names + (0).to_bytes(4, "little") + (3).to_bytes(4, "little"))


async def test_offsets_that_are_used_again_after_a_purge(
    laser: ls.Laser, content: ls.Content, ctx: ls.ContextScope
) -> None:
    """Nothing but the record itself tells that the topic was purged."""
    for number in range(20):
        await ctx.append(TOPIC, f"before {number}", content=content)
    await laser.purge_topic(TOPIC)
    for number in range(30):
        await ctx.append(TOPIC, f"after {number}", content=content)
    report = await collecting.collect(
        await laser.open_content(),
        laser.open_log(),
        tenant=TENANT,
        grace_micros=0,
        upload_grace_micros=0,
        dry_run=False,
        max_pages=100,
        page=7,
    )
    assert (report.released, report.unconfirmed, report.removed, report.complete) == (20, 0, 20, True)
    texts = [message.text for message in await ctx.fetch(topics=[TOPIC], n=100, resolve=content)]
    assert texts == [f"after {number}" for number in range(30)]


async def test_an_append_that_never_came_ends_after_a_week(
    laser: ls.Laser, content: ls.Content, ctx: ls.ContextScope, clock: SetClock
) -> None:
    async with Unsure(laser, written=False):
        with pytest.raises(ls.AppendIndeterminateError):
            await ctx.append(TOPIC, "never came", content=content)
    clock.step(CONTENT_GRACE_SECONDS - 0.001)
    for grace in (0, CONTENT_GRACE_SECONDS):
        report = await content.collect(grace=grace, upload_grace=0)
        assert (report.released, report.unconfirmed, report.removed) == (0, 0, 0)
    clock.step(0.001)
    dry = await content.collect(dry_run=True)
    assert (dry.released, dry.unconfirmed, dry.removed) == (0, 1, 0)
    report = await content.collect()
    assert (report.released, report.unconfirmed, report.removed, report.complete) == (0, 1, 1, True)
    assert await holds_of(laser) == []


@pytest.mark.parametrize("lost", ["answer", "note"])
async def test_an_append_that_came_after_all_keeps_its_hold(
    laser: ls.Laser,
    content: ls.Content,
    ctx: ls.ContextScope,
    clock: SetClock,
    lost: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its answer was lost, or the process died before it could note the offset."""
    if lost == "answer":
        async with Unsure(laser, written=True):
            with pytest.raises(ls.AppendIndeterminateError):
                await ctx.append(TOPIC, "it came", content=content)
    else:
        with monkeypatch.context() as patched:
            catalog = (await laser.open_content()).catalog
            hold, calls = catalog.hold, iter([True, False])

            async def fails_at_the_second(*args: Any, **settings: Any) -> None:
                if not next(calls):
                    raise ls.DisconnectedError("the catalog is down")
                await hold(*args, **settings)

            patched.setattr(catalog, "hold", fails_at_the_second)
            await ctx.append(TOPIC, "it came", content=content)
    clock.step(CONTENT_GRACE_SECONDS)
    (before,) = await holds_of(laser)
    for dry_run in (True, False):
        report = await content.collect(dry_run=dry_run)
        assert (report.released, report.unconfirmed, report.removed) == (0, 0, 0)
        (after,) = await holds_of(laser)
        assert (after == before) is dry_run
    places = [decode_place(hold.place) for hold in (before, after)]
    assert [place.spot is None for place in places if place is not None] == [True, False]
    (message,) = await ctx.fetch(topics=[TOPIC], resolve=content)
    assert message.text == "it came"
    assert places[1] is not None
    assert (message.partition, message.offset) == places[1].spot
    await laser.purge_topic(TOPIC)
    report = await content.collect()
    assert (report.released, report.unconfirmed, report.removed) == (1, 0, 1)


async def test_a_bound_on_pagesholds_of(laser: ls.Laser, content: ls.Content, ctx: ls.ContextScope) -> None:
    for number in range(4):
        await ctx.append(TOPIC, f"message {number}", content=content)
    await laser.purge_topic(TOPIC)

    async def collect(pages: int) -> ls.CollectReport:
        return await collecting.collect(
            await laser.open_content(),
            laser.open_log(),
            tenant=TENANT,
            grace_micros=0,
            upload_grace_micros=0,
            dry_run=False,
            max_pages=pages,
            page=3,
        )

    report = await collect(1)
    assert (report.released, report.complete) == (3, False)
    report = await collect(9)
    assert (report.released, report.complete) == (1, True)


async def test_a_workspace_on_a_log_that_was_purged(laser: ls.Laser, clock: SetClock) -> None:
    content = laser.content(TENANT)
    workspace = await laser.workspaces(TENANT).create("site")
    await workspace.write("a.md", "first")
    await workspace.write("a.md", "second")
    clock.step(CONTENT_GRACE_SECONDS)
    assert (await content.collect()).removed == 0
    assert await (await workspace.at(2)).read("a.md") == b"first"
    await laser.purge_topic("agent.workspaces")
    report = await content.collect()
    assert (report.released, report.removed) == (2, 4)


_DIES: str = """
import os, signal, sys, anyio
import laser as ls

async def main():
    log, catalog = sys.argv[1:]
    async with ls.Laser.connect(log, catalog=catalog) as laser:
        await laser.ensure_topic("events")
        content, ctx = laser.content("acme", over=4), laser.context(ls.derive_conversation_id("x"))
        await ctx.append("events", "it came", content=content)

        async def dies(*args, **settings):
            os.kill(os.getpid(), signal.SIGKILL)

        laser.open_log().append = dies
        await ctx.append("events", "never came", content=content)

anyio.run(main)
"""


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_process_that_is_killed_between_hold_and_append(tmp_path: Path) -> None:
    log, catalog = f"embedded:{tmp_path / 'log'}", tmp_path / "catalog"
    done = await anyio.run_process(
        [sys.executable, "-c", _DIES, log, f"embedded:{catalog}"], check=False, cwd=ROOT, env=environment()
    )
    assert done.returncode == -9, done.stderr
    clock = SetClock(time.time_ns() // 1_000)
    async with ls.Laser.connect(log) as laser:
        await catalog_beside(laser, catalog, clock)
        content = laser.content(TENANT)
        report = await content.collect(grace=0)
        assert (report.unconfirmed, report.removed) == (0, 0)
        clock.step(CONTENT_GRACE_SECONDS)
        report = await content.collect()
        assert (report.released, report.unconfirmed, report.removed) == (0, 1, 1)
        (message,) = await laser.context(ls.derive_conversation_id("x")).fetch(topics=[TOPIC], resolve=content)
        assert message.text == "it came"


async def test_on_postgresql(postgres_server: PostgresServer, tmp_path: Path, tenant: str) -> None:
    """Its clock is the server's; what is said to be old is made old there."""
    async with ls.Laser.connect(
        f"embedded:{tmp_path}", catalog=postgres_server.url, objects=f"embedded:{tmp_path}"
    ) as laser:
        await laser.ensure_topic(TOPIC, 2)
        await laser.ensure_topic("other", 1)
        content, ctx = laser.content(tenant, over=4), laser.context(ls.new_conversation_id())
        await ctx.append(TOPIC, "purged", content=content)
        await ctx.append("other", "it stays", content=content)
        async with Unsure(laser, written=False):
            with pytest.raises(ls.AppendIndeterminateError):
                await ctx.append("other", "never came", content=content)
        async with Unsure(laser, written=True):
            with pytest.raises(ls.AppendIndeterminateError):
                await ctx.append("other", "it came", content=content)
        await laser.purge_topic(TOPIC)
        assert (await content.collect()).released == 0
        report = await content.collect(grace=0)
        assert (report.released, report.unconfirmed, report.removed) == (1, 0, 1)
        await anyio.to_thread.run_sync(_age, postgres_server.url, tenant)
        report = await content.collect()
        assert (report.released, report.unconfirmed, report.removed) == (0, 1, 1)
        texts = [message.text for message in await ctx.fetch(topics=["other"], resolve=content)]
        assert texts == ["it stays", "it came"]
        holds = await (await laser.open_content()).catalog.placed(tenant=tenant)
        assert all(place is not None and place.spot for place in map(decode_place, (hold.place for hold in holds)))


def _age(url: str, tenant: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "UPDATE laser.contents SET admitted_at = admitted_at - interval '7 days' WHERE tenant = %b",
            (tenant.encode(),),
        )
