"""A hold stays while there is any doubt that its message is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import laser as ls
from laser.content.places import Place, decode_place, encode_place, read_holder, record_holder
from laser.limits import CONTENT_GRACE_SECONDS, MAX_PLACE_BYTES
from laser.ports.catalog import Hold
from laser.testing.clock import SetClock
from laser.testing.finding import OpenIggy
from tests.content.beside.conftest import TENANT, TOPIC, Unsure, catalog_beside, holds_of

pytestmark = pytest.mark.anyio


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
    (hold,) = await holds_of(laser)
    place = decode_place(hold.place)
    assert place is not None
    assert (place.again, place.offset) == (again, receipt.offset)
    moved = encode_place(msgspec.structs.replace(place, offset=receipt.offset + shift))
    assert await catalog.settle([(hold, moved)]) == 1
    report = await content.collect(grace=0)
    assert (report.released, report.unconfirmed, report.removed) == (released, 0, released)
    assert [each.place for each in await holds_of(laser)] == ([] if released else [hold.place])


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("written", [False, True])
async def test_a_topic_under_another_name(clock: SetClock, replaced: bool, written: bool) -> None:
    """Iggy's own tools can rename a topic: its messages are there and name their content."""
    async with ls.Laser.connect("memory:") as laser:
        await catalog_beside(laser, None, clock)
        await laser.ensure_topic(TOPIC)
        content, ctx = laser.content(TENANT, over=4), laser.context(ls.new_conversation_id())
        await ctx.append(TOPIC, "renamed", content=content)
        async with Unsure(laser, written=written):
            with pytest.raises(ls.AppendIndeterminateError):
                await ctx.append(TOPIC, "renamed, too", content=content)
        log: Any = laser.open_log()
        topics = log._streams[laser.stream].topics
        topics["new-name"] = topics.pop(TOPIC)
        topics["new-name"].name = "new-name"
        if replaced:
            await laser.ensure_topic(TOPIC)
        clock.step(CONTENT_GRACE_SECONDS)
        report = await content.collect()
        assert (report.released, report.unconfirmed, report.removed) == (0, 0, 0)
        texts = [message.text for message in await ctx.fetch(topics=["new-name"], resolve=content)]
        assert texts == (["renamed", "renamed, too"] if written else ["renamed"])
        await laser.ensure_topic("other")
        await laser.delete_topic("new-name")
        report = await content.collect()
        assert (report.released, report.unconfirmed, report.removed) == (1, 1, 2)


async def test_two_conversations_with_one_id(laser: ls.Laser, content: ls.Content, clock: SetClock) -> None:
    """The message of one is no proof for that of the other."""
    one, two = (laser.context(ls.new_conversation_id()) for _ in range(2))
    await one.append(TOPIC, "it is there", content=content, id=7)
    async with Unsure(laser, written=False):
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


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_another_log_of_the_same_names(tmp_path: Path, clock: SetClock) -> None:
    """One catalog, two logs, equal streams and topics: one says nothing of what the other holds."""
    async with (
        ls.Laser.connect(f"embedded:{tmp_path / 'one'}") as one,
        ls.Laser.connect(f"embedded:{tmp_path / 'two'}") as two,
    ):
        store = await catalog_beside(one, None, clock)
        two._content = store
        for laser in (one, two):
            await laser.ensure_topic(TOPIC)
            await laser.ensure_topic("other")
        texts = {one: "of one", two: "of two"}
        scopes = {laser: laser.context(ls.new_conversation_id()) for laser in texts}
        for laser, text in texts.items():
            await scopes[laser].append(TOPIC, text, content=laser.content(TENANT, over=4))
            async with Unsure(laser, written=False):
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


@pytest.mark.iggy
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_server_that_was_killed_has_everything(iggy: OpenIggy, stream_name: str, clock: SetClock) -> None:
    """What it says of its topics right after the start is no proof of anything that is not so."""
    if iggy.server is None:
        pytest.skip("the server is not this run's own to kill")
    async with ls.Laser.connect(iggy.url, stream=stream_name) as laser:
        await catalog_beside(laser, None, clock)
        await laser.ensure_topic(TOPIC, 2)
        content = laser.content(TENANT, over=4)
        scopes = [laser.context(ls.new_conversation_id()) for _ in range(4)]
        for number in range(5):
            for ctx in scopes:
                await ctx.append(TOPIC, f"{number} of {ctx.conversation}", content=content)
        await iggy.server.kill()
        await iggy.server.start()
        report = await content.collect(grace=0)
        assert (report.released, report.unconfirmed, report.removed, report.failure) == (0, 0, 0, None)
        for ctx in scopes:
            assert len(await ctx.fetch(topics=[TOPIC], resolve=content)) == 5


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


@pytest.mark.parametrize("names", [("s", "t", "c"), ("a/b", "%2F", "%25/"), ("é", "record:", "//"), ("%", "/", "%%")])
def test_names_of_holders_can_be_read(names: tuple[str, str, str]) -> None:
    for record_id in (1, 2**128 - 1):
        found = read_holder(record_holder(*names, record_id))
        assert found is not None
        assert (found.stream, found.topic, found.conversation, found.record_id) == (*names, record_id)
    for holder in (record_holder(*names), "record:a/b/c/1", "record:a/b/c/" + "g" * 32, "mine", "", "record:"):
        assert read_holder(holder) is None


def test_the_longest_place() -> None:
    """``CatalogConformance`` has every catalog keep places of ``MAX_PLACE_BYTES``."""
    most = 2**64 - 1
    place = Place(f"{2**32 - 1}.{most}", "7" + "Z" * 25, False, most, 2**32 - 1, most)
    text = encode_place(place)
    assert decode_place(text) == place
    assert len(text.encode()) <= MAX_PLACE_BYTES


@pytest.mark.parametrize(
    "text", ["", "elsewhere", "[]", "[1]", "{}", '["a","b",1]', "[" * 100_000, '["a","b",true,"x"]']
)
def test_a_place_of_another_form_is_none(text: str) -> None:
    assert decode_place(text) is None
