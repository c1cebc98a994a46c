"""Messages that refer to content: appended, held, fetched, resolved."""

from __future__ import annotations

from pathlib import Path

import anyio
import msgspec
import pytest

import laser as ls
from laser.model.records import NewRecord
from laser.ports.log import Log
from laser.testing.finding import OpenIggy
from laser.testing.postgres_server import PostgresServer
from laser.wire.blocks import decode_block
from tests.content.conftest import TOPIC
from tests.content.test_content import some

pytestmark = pytest.mark.anyio


@pytest.fixture
def ctx(laser: ls.Laser) -> ls.ContextScope:
    return laser.context(ls.new_conversation_id())


async def test_a_payload_over_the_limit_is_kept_as_content(
    laser: ls.Laser, ctx: ls.ContextScope, content: ls.Content
) -> None:
    edge, over = "é" * (content.over // 2), "é" * (content.over // 2) + "x"
    await ctx.append(TOPIC, edge, content=content)
    receipt = await ctx.append(TOPIC, over, content=content, agent="a")
    plain, reference = await ctx.fetch(topics=[TOPIC])
    assert (plain.content, plain.text == edge) == (None, True)
    entry = reference.content
    assert entry is not None
    assert (entry.size, entry.tokens, entry.kind, entry.source) == (65_537, 16_385, "message", "append")
    assert (entry.preview, entry.origin, entry.provenance_ref) == ("é" * 128, None, None)
    assert len(reference.payload) < 1_000
    assert (reference.record_id, reference.provenance.agent) == (receipt.id, "a")
    resolved = await ctx.fetch(topics=[TOPIC], resolve=content)
    assert ([message.text for message in resolved] == [edge, over]) is True
    assert resolved[1].content == entry
    assert (await content.resolve(reference)).payload == over.encode()
    assert await content.resolve(plain) is plain
    assert ((await ctx.block(topics=[TOPIC], resolve=content)) == f"{edge}\n{over}") is True
    assert ((await ctx.fetch_with([TOPIC], ls.LastN(1), resolve=content))[0].text == over) is True


async def test_what_a_message_names_is_held(laser: ls.Laser, ctx: ls.ContextScope, content: ls.Content) -> None:
    sound = await content.put(some(100_000), media_type="audio/wav")
    text = await content.put("what was said", media_type="text/plain")
    entry = await content.entry(text, kind="transcript", source="ears", origin="user:ann", provenance_ref=sound)
    receipt = await ctx.append_content(TOPIC, entry, content=content, agent="user")
    holder = ls.record_holder(laser.stream, TOPIC, ctx.conversation, receipt.id)
    assert await content.held(holder) == sorted([sound.digest, text.digest])
    assert (await content.collect(grace=0)).removed == 0
    (message,) = await ctx.fetch(topics=[TOPIC], resolve=content)
    assert message.text == "what was said"
    assert message.content == entry
    assert (entry.preview, entry.tokens, entry.origin) == ("what was said", 4, "user:ann")
    prefix = ls.record_holder(laser.stream, TOPIC, ctx.conversation)
    assert holder.startswith(prefix)
    assert await content.release_below(prefix) == 2
    assert (await content.collect(grace=0)).removed == 2
    with pytest.raises(ls.NotFoundError):
        await ctx.fetch(topics=[TOPIC], resolve=content)


async def test_a_plain_reference_gets_an_entry(ctx: ls.ContextScope, content: ls.Content) -> None:
    image = await content.put(some(70_000), media_type="image/png", provider_kind="openai.image")
    receipt = await ctx.append_content(TOPIC, image, content=content)
    (message,) = await ctx.fetch(topics=[TOPIC])
    entry = message.content
    assert entry is not None
    assert (entry.ref, entry.size, entry.tokens, entry.preview) == (image, 70_000, None, "")
    assert receipt.id == message.record_id
    assert len(entry.entry_id) == 26


async def test_missing_content_refuses_the_append(ctx: ls.ContextScope, content: ls.Content) -> None:
    here = await content.put("here")
    gone = ls.ContentRef("0" * 64)
    entry = await content.entry(here)
    for broken in (
        gone,
        msgspec.structs.replace(entry, ref=gone),
        msgspec.structs.replace(entry, provenance_ref=gone),
    ):
        with pytest.raises(ls.NotFoundError):
            await ctx.append_content(TOPIC, broken, content=content)
    assert await ctx.fetch(topics=[TOPIC]) == []
    assert (await content.head(here)).holders == 0


async def test_a_refused_append_holds_nothing(ctx: ls.ContextScope, content: ls.Content) -> None:
    ref = await content.put("here")
    with pytest.raises(ls.NotFoundError):
        await ctx.append_content("no-such-topic", ref, content=content)
    with pytest.raises(ls.InvalidError):
        await ctx.append_content(TOPIC, ref, content=content, agent="\n")
    with pytest.raises(ls.InvalidError):
        await ctx.append_content(TOPIC, "0" * 64, content=content)  # type: ignore[arg-type]
    with pytest.raises(ls.InvalidError):
        await ctx.append(TOPIC, "x" * 70_000, content=content, id=0)
    assert (await content.head(ref)).holders == 0
    assert (await content.collect(grace=0)).scanned == 1


async def test_the_same_id_is_written_once(ctx: ls.ContextScope, content: ls.Content) -> None:
    for _ in range(2):
        receipt = await ctx.append(TOPIC, "x" * 70_000, content=content, id=7)
        assert (receipt.id, receipt.offset) == (7, 0)
    assert len(await ctx.fetch(topics=[TOPIC])) == 1
    (held,) = await content.held(ls.record_holder("laser", TOPIC, ctx.conversation, 7))
    assert (await content.head(held)).holders == 1


async def test_budgets_count_what_content_costs(ctx: ls.ContextScope, content: ls.Content) -> None:
    await ctx.append(TOPIC, "x" * 80_000, content=content)
    await ctx.append(TOPIC, "short", content=content)
    assert len(await ctx.fetch(topics=[TOPIC], token_budget=19_000)) == 1
    assert len(await ctx.fetch(topics=[TOPIC], token_budget=20_100)) == 2


async def test_a_reference_goes_through_follow_and_folds(ctx: ls.ContextScope, content: ls.Content) -> None:
    await ctx.append(TOPIC, "x" * 70_000, content=content)
    sizes = await ctx.state([TOPIC], [], lambda state, message: [*state, message.content.size], full=True)
    assert sizes == [70_000]


async def test_text_that_looks_like_a_reference_is_text(ctx: ls.ContextScope, content: ls.Content) -> None:
    await ctx.append(TOPIC, "x" * 70_000, content=content)
    (message,) = await ctx.fetch(topics=[TOPIC])
    await ctx.append(TOPIC, message.payload)
    assert (await ctx.fetch(topics=[TOPIC]))[1].content is None


async def test_the_order_without_a_shared_file(postgres_server: PostgresServer, tmp_path: Path, tenant: str) -> None:
    """Put, hold, append: what is on the log is held already, whatever happens in between."""
    url = f"embedded:{tmp_path}"
    async with ls.Laser.connect(url, catalog=postgres_server.url, objects=url) as laser:
        await laser.ensure_topic(TOPIC)
        content, ctx = laser.content(tenant), laser.context(ls.new_conversation_id())
        ref = await content.put("x")
        store, log = await laser.open_content(), laser.open_log()
        assert store.joint is None
        held: list[int] = []

        class Watched:
            error: ls.LaserError | None = None
            topic = staticmethod(log.topic)

            async def append(self, *args: object, **settings: object) -> object:
                held.append((await content.head(ref)).holders)
                if self.error is not None:
                    raise self.error
                return await log.append(*args, **settings)  # type: ignore[arg-type]

        watched = Watched()
        laser._log = watched  # type: ignore[assignment]
        await ctx.append_content(TOPIC, ref, content=content)
        assert held == [1]
        assert (await content.head(ref)).holders == 1
        for error, record_id, holders in (
            (ls.StorageError("refused"), None, 1),
            # Perhaps it is there from an earlier attempt.
            (ls.StorageError("refused"), 7, 2),
            (ls.AppendIndeterminateError("perhaps", record_ids=(9,)), None, 3),
        ):
            watched.error = error
            with pytest.raises(type(error)):
                await ctx.append_content(TOPIC, ref, content=content, id=record_id)
            assert (await content.head(ref)).holders == holders
        laser._log = log
        assert len(await ctx.fetch(topics=[TOPIC])) == 1


async def test_one_file_is_one_transaction(tmp_path: Path, tenant: str) -> None:
    async with ls.Laser.connect(f"embedded:{tmp_path}/a", cache=1_000_000) as laser:
        assert (await laser.open_content()).joint is not None
        await laser.ensure_topic(TOPIC)
        content, ctx = laser.content(tenant), laser.context(ls.new_conversation_id())
        await ctx.append(TOPIC, "one")
        await ctx.append(TOPIC, "x" * 70_000, content=content)
        assert [message.content is None for message in await ctx.fetch(topics=[TOPIC])] == [True, False]
    async with ls.Laser.connect(f"embedded:{tmp_path}/a", catalog=f"embedded:{tmp_path}/b") as laser:
        assert (await laser.open_content()).joint is None
    async with ls.Laser.connect(f"embedded:{tmp_path}/a", catalog=f"embedded:{tmp_path}/b/../a") as laser:
        assert (await laser.open_content()).joint is not None


async def test_a_hold_ends_with_its_topic(tmp_path: Path, tenant: str) -> None:
    async with ls.Laser.connect(f"embedded:{tmp_path}") as laser:
        await laser.ensure_topic(TOPIC)
        content, ctx = laser.content(tenant), laser.context(ls.new_conversation_id())
        await ctx.append(TOPIC, "x" * 70_000, content=content)
        assert (await content.collect(grace=0)).removed == 0
        await laser.delete_topic(TOPIC)
        with anyio.fail_after(120):
            while not (await content.collect(grace=0)).removed:
                await anyio.sleep(0.01)


async def test_a_frame_that_is_damaged_is_skipped(laser: ls.Laser, ctx: ls.ContextScope, content: ls.Content) -> None:
    log: Log = laser.open_log()
    await ctx.append(TOPIC, "x" * 70_000, content=content)
    info = await laser.topic(TOPIC)
    pages = [await log.read(laser.stream, TOPIC, part.id, start=0, limit=9) for part in info.partitions]
    (record,) = [record for page in pages for record in page.records]
    assert b"laser.frame" in {header.key for header in decode_block(record.headers)}
    for number, payload in enumerate((b"{}", b"\xff", record.payload.replace(b'"v":1', b'"v":2'))):
        await log.append(laser.stream, TOPIC, [NewRecord(number + 1, payload, record.headers)], key=ctx.conversation)
    found = await ctx.fetch(topics=[TOPIC])
    assert len(found) == 1
    assert len(found.skipped) == 3
    assert all(skipped.reason.startswith("content reference: ") for skipped in found.skipped)
    assert "version 2 is not known" in found.skipped[2].reason


@pytest.mark.iggy
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_log_on_a_server(iggy: OpenIggy, stream_name: str, tmp_path: Path) -> None:
    """It has no catalog beside it: one has to be named."""
    async with ls.Laser.connect(iggy.url, stream=stream_name) as laser:
        with pytest.raises(ls.ConfigError, match=r"^catalog: .* give catalog=.* and objects="):
            await laser.content("acme").put(b"x")
    async with ls.Laser.connect(iggy.url, stream=stream_name, catalog=f"embedded:{tmp_path}") as laser:
        await laser.ensure_topic(TOPIC)
        content, ctx = laser.content("acme"), laser.context(ls.new_conversation_id())
        assert (await laser.open_content()).joint is None
        await ctx.append(TOPIC, "x" * 70_000, content=content)
        with pytest.raises(ls.NotFoundError):
            await ctx.append_content("no-such-topic", await content.put("y"), content=content)
        assert (await content.collect(grace=0)).removed == 1
        for _ in range(2):
            (message,) = await ctx.fetch(topics=[TOPIC], resolve=content)
            assert (message.payload == b"x" * 70_000) is True
        await laser.purge_topic(TOPIC)
        report = await content.collect(grace=0)
        assert (report.released, report.removed) == (1, 1)
