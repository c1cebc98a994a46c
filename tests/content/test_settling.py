"""Holds of messages end by themselves once the log does not hold the message, and never before."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import psycopg
import pytest

import laser as ls
from laser.content import collecting
from laser.content.places import decode_place, encode_place, read_holder, record_holder
from laser.content.store import ContentStore
from laser.engines.memory import MemoryCatalog, MemoryObjects
from laser.engines.sqlite import open_sqlite_catalog
from laser.limits import CONTENT_GRACE_SECONDS
from laser.ports.catalog import Hold
from laser.testing.clock import SetClock
from laser.testing.finding import OpenIggy
from laser.testing.postgres_server import PostgresServer
from tests.commands import ROOT, environment

pytestmark = pytest.mark.anyio

TOPIC = "events"
TENANT = "acme"


@pytest.fixture
def clock() -> SetClock:
    """The catalog's clock; the log has its own."""
    return SetClock()


@pytest.fixture(params=["memory", "embedded", "iggy"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A log of each kind, which is never in the catalog's file."""
    if request.param == "iggy":
        server: OpenIggy = request.getfixturevalue("iggy")
        return server.url
    return "memory:" if request.param == "memory" else f"embedded:{tmp_path / 'log'}"


@pytest.fixture
async def laser(url: str, stream_name: str, tmp_path: Path, clock: SetClock) -> AsyncIterator[ls.Laser]:
    async with ls.Laser.connect(url, stream=stream_name) as client:
        await _beside(client, tmp_path / "catalog" if url != "memory:" else None, clock)
        await client.ensure_topic(TOPIC, 2)
        await client.ensure_topic("other", 1)
        yield client


async def _beside(laser: ls.Laser, directory: Path | None, clock: SetClock) -> ContentStore:
    catalog = MemoryCatalog(clock=clock) if directory is None else await open_sqlite_catalog(directory, clock=clock)
    store = laser._content = ContentStore(catalog, MemoryObjects())
    return store


@pytest.fixture
def content(laser: ls.Laser) -> ls.Content:
    return laser.content(TENANT, over=4)


@pytest.fixture
def ctx(laser: ls.Laser) -> ls.ContextScope:
    return laser.context(ls.new_conversation_id())


async def _holds(laser: ls.Laser) -> list[Hold]:
    return await (await laser.open_content()).catalog.placed(tenant=None)


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
    before = await _holds(laser)
    dry = await content.collect(grace=0, dry_run=True)
    assert (dry.released, dry.unconfirmed, dry.removed) == (5, 0, 0)
    assert await _holds(laser) == before
    # Nothing can go within the grace, so nothing is looked for.
    assert (await content.collect()).released == 0
    report = await content.collect(grace=0)
    assert (report.released, report.unconfirmed, report.removed, report.complete) == (5, 0, 4, True)
    (message,) = await ctx.fetch(topics=["other"], resolve=content)
    assert (message.record_id, message.text) == (kept.id, "message 1")
    assert [hold.holder for hold in await _holds(laser)] == [
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


class _Unsure:
    """A log whose appends are without an answer, written or not."""

    def __init__(self, laser: ls.Laser, *, written: bool) -> None:
        self._laser = laser
        self._log = laser.open_log()
        self._written = written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def append(self, *args: Any, **settings: Any) -> object:
        if self._written:
            await self._log.append(*args, **settings)
        raise ls.AppendIndeterminateError("no answer", record_ids=(1,))

    async def __aenter__(self) -> None:
        self._laser._log = self  # type: ignore[assignment]

    async def __aexit__(self, *args: object) -> None:
        self._laser._log = self._log


async def test_an_append_that_never_came_ends_after_a_week(
    laser: ls.Laser, content: ls.Content, ctx: ls.ContextScope, clock: SetClock
) -> None:
    async with _Unsure(laser, written=False):
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
    assert await _holds(laser) == []


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
        async with _Unsure(laser, written=True):
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
    (before,) = await _holds(laser)
    for dry_run in (True, False):
        report = await content.collect(dry_run=dry_run)
        assert (report.released, report.unconfirmed, report.removed) == (0, 0, 0)
        (after,) = await _holds(laser)
        assert (after == before) is dry_run
    places = [decode_place(hold.place) for hold in (before, after)]
    assert [place.topic is None for place in places if place is not None] == [True, False]
    (message,) = await ctx.fetch(topics=[TOPIC], resolve=content)
    assert message.text == "it came"
    assert places[1] is not None
    assert (message.partition, message.offset) == (places[1].partition, places[1].offset)
    await laser.purge_topic(TOPIC)
    report = await content.collect()
    assert (report.released, report.unconfirmed, report.removed) == (1, 0, 1)


async def test_a_retry_while_its_message_is_looked_for(
    laser: ls.Laser, content: ls.Content, ctx: ls.ContextScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector has found that the message is gone; before it can end the hold the caller writes it again."""
    await ctx.append(TOPIC, "once more", content=content, id=7)
    await laser.purge_topic(TOPIC)
    catalog = (await laser.open_content()).catalog
    settle = catalog.settle
    seen: list[int] = []

    async def retries_before(changes: list[tuple[Hold, str | None]]) -> int:
        await ctx.append(TOPIC, "once more", content=content, id=7)
        seen.append(await settle(changes))
        return seen[-1]

    monkeypatch.setattr(catalog, "settle", retries_before)
    report = await content.collect(grace=0)
    assert seen == [0]
    assert (report.released, report.unconfirmed, report.removed) == (0, 0, 0)
    (message,) = await ctx.fetch(topics=[TOPIC], resolve=content)
    assert message.text == "once more"


@pytest.mark.parametrize(
    ("again", "shift", "released"), [(False, 100, 0), (False, -3, 0), (False, 100_000, 1), (True, 100_000, 0)]
)
async def test_a_message_that_is_not_quite_where_it_is_said_to_be(
    laser: ls.Laser, content: ls.Content, ctx: ls.ContextScope, again: bool, shift: int, released: int
) -> None:
    """Copies stand close together; one that the caller may have written twice is looked for in the whole topic."""
    for number in range(5):
        await ctx.append(TOPIC, f"{number}")
    receipt = await ctx.append(TOPIC, "message", content=content, id=7 if again else None)
    catalog = (await laser.open_content()).catalog
    (hold,) = await _holds(laser)
    place = decode_place(hold.place)
    assert place is not None
    assert (place.again, place.offset) == (again, receipt.offset)
    moved = encode_place(msgspec.structs.replace(place, offset=place.offset + shift))
    assert await catalog.settle([(hold, moved)]) == 1
    report = await content.collect(grace=0)
    assert (report.released, report.unconfirmed, report.removed) == (released, 0, released)
    assert [each.place for each in await _holds(laser)] == ([] if released else [hold.place])


async def test_two_conversations_with_one_id(laser: ls.Laser, content: ls.Content, clock: SetClock) -> None:
    """The message of one is no proof for that of the other."""
    one, two = (laser.context(ls.new_conversation_id()) for _ in range(2))
    await one.append(TOPIC, "it is there", content=content, id=7)
    async with _Unsure(laser, written=False):
        with pytest.raises(ls.AppendIndeterminateError):
            await two.append(TOPIC, "it is not", content=content, id=7)
    clock.step(CONTENT_GRACE_SECONDS)
    report = await content.collect()
    assert (report.released, report.unconfirmed, report.removed) == (0, 1, 1)
    (message,) = await one.fetch(topics=[TOPIC], resolve=content)
    assert message.text == "it is there"


async def test_a_topic_that_cannot_be_asked_keeps_everything(
    laser: ls.Laser, content: ls.Content, ctx: ls.ContextScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ctx.append(TOPIC, "message", content=content)
    await content.put(b"loose")
    await laser.purge_topic(TOPIC)
    log = laser.open_log()

    async def fails(*args: object, **settings: object) -> None:
        raise ls.DisconnectedError("the server is down")

    for name in ("topic", "read"):
        with monkeypatch.context() as patched:
            patched.setattr(log, name, fails)
            if name == "read":
                # A record in its place, so that there is something to read.
                await ctx.append(TOPIC, "another")
            report = await content.collect(grace=0)
        assert (report.released, report.complete) == (0, False)
        assert report.failure is not None
        assert report.failure.endswith("could not be looked for: the server is down")
        assert report.removed == (1 if name == "topic" else 0), "what nothing holds goes all the same"
    report = await content.collect(grace=0)
    assert (report.released, report.removed, report.complete) == (1, 1, True)


async def test_a_bound_on_pages_holds(laser: ls.Laser, content: ls.Content, ctx: ls.ContextScope) -> None:
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


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_another_log_of_the_same_names(tmp_path: Path, clock: SetClock) -> None:
    """One catalog, two logs, equal streams and topics: one says nothing of what the other holds."""
    async with (
        ls.Laser.connect(f"embedded:{tmp_path / 'one'}") as one,
        ls.Laser.connect(f"embedded:{tmp_path / 'two'}") as two,
    ):
        store = await _beside(one, None, clock)
        two._content = store
        for laser in (one, two):
            await laser.ensure_topic(TOPIC)
            await laser.ensure_topic("other")
        texts = {one: "of one", two: "of two"}
        scopes = {laser: laser.context(ls.new_conversation_id()) for laser in texts}
        for laser, text in texts.items():
            await scopes[laser].append(TOPIC, text, content=laser.content(TENANT, over=4))
            async with _Unsure(laser, written=False):
                with pytest.raises(ls.AppendIndeterminateError):
                    await scopes[laser].append(TOPIC, text + " in vain", content=laser.content(TENANT, over=4))
        clock.step(CONTENT_GRACE_SECONDS)
        await one.purge_topic(TOPIC)
        report = await one.collect_content()
        assert (report.released, report.unconfirmed, report.removed) == (1, 1, 2)
        (message,) = await scopes[two].fetch(topics=[TOPIC], resolve=two.content(TENANT))
        assert message.text == "of two"
        # Of a stream without any topic nothing is known, not even whether it is the same log.
        await two.delete_topic("other")
        await two.delete_topic(TOPIC)
        report = await two.collect_content()
        assert (report.released, report.unconfirmed, report.removed) == (0, 0, 0)
        await two.ensure_topic("new")
        report = await two.collect_content()
        assert (report.released, report.unconfirmed, report.removed) == (1, 1, 2)


async def test_holds_that_somebody_made_by_hand_stay(
    laser: ls.Laser, content: ls.Content, ctx: ls.ContextScope, clock: SetClock
) -> None:
    ref = await content.put(b"by hand")
    await content.hold(record_holder(laser.stream, TOPIC, ctx.conversation, 7), [ref])
    catalog = (await laser.open_content()).catalog
    await catalog.hold(TENANT, "mine", [ref.digest], place="elsewhere")
    await catalog.hold(TENANT, record_holder(laser.stream, TOPIC, ctx.conversation, 8), [ref.digest], place="[1]")
    clock.step(CONTENT_GRACE_SECONDS)
    report = await content.collect()
    assert (report.released, report.unconfirmed, report.removed) == (0, 0, 0)
    assert (await content.head(ref)).holders == 3


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
        await _beside(laser, catalog, clock)
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
        async with _Unsure(laser, written=False):
            with pytest.raises(ls.AppendIndeterminateError):
                await ctx.append("other", "never came", content=content)
        async with _Unsure(laser, written=True):
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
        assert all(place is not None and place.topic for place in map(decode_place, (hold.place for hold in holds)))


def _age(url: str, tenant: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "UPDATE laser.contents SET admitted_at = admitted_at - interval '7 days' WHERE tenant = %b",
            (tenant.encode(),),
        )


@pytest.mark.parametrize("names", [("s", "t", "c"), ("a/b", "%2F", "%25/"), ("é", "record:", "//"), ("%", "/", "%%")])
def test_names_of_holders_can_be_read(names: tuple[str, str, str]) -> None:
    for record_id in (1, 2**128 - 1):
        found = read_holder(record_holder(*names, record_id))
        assert found is not None
        assert (found.stream, found.topic, found.conversation, found.record_id) == (*names, record_id)
    for holder in (record_holder(*names), "record:a/b/c/1", "record:a/b/c/" + "g" * 32, "mine", "", "record:"):
        assert read_holder(holder) is None


@pytest.mark.parametrize(
    "text", ["", "elsewhere", "[]", "[1]", "{}", '["a","b",1]', "[" * 100_000, '["a","b",true,"x"]']
)
def test_a_place_of_another_form_is_none(text: str) -> None:
    assert decode_place(text) is None
