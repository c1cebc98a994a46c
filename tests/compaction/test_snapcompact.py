"""The strategy ``snapcompact`` over sessions: what is archived, shown, left out, kept for other models, and reached."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

import anyio
import pytest

import laser as ls
from laser.compaction.registry import StrategyRegistry
from laser.compaction.rolling import Rolling
from laser.compaction.snapcompact import archive as archives
from laser.compaction.snapcompact.font import to_text
from laser.compaction.snapcompact.strategy import Snapcompact
from laser.limits import MAX_FRAMES
from laser.testing.compaction_cases.base import Desk, assistant, user
from laser.testing.compaction_checks import check_request, kept_prefix, shown_places
from laser.testing.stepping import cancel_at
from tests.compaction.reading import caption_of, frames_of, picture_of, read_picture

pytestmark = pytest.mark.anyio

WINDOW = 6_000


@pytest.fixture
async def desk(memory_laser: ls.Laser) -> Desk:
    session = await memory_laser.sessions().start()
    return Desk(memory_laser, session.id, StrategyRegistry(default="snapcompact"))


def drawn(inputs: tuple[ls.PreparedInput, ...]) -> str:
    """The words of the pictures, one after another."""
    return to_text("".join(read_picture(picture_of(one)) for one in frames_of(inputs)))


async def test_the_frames_hold_every_word_that_was_folded(desk: Desk) -> None:
    await desk.talk(30)
    await desk.compaction.compact(window=20_000)
    prepared = await desk.prepare(20_000)
    transcript = await desk.transcript()
    shown = shown_places(prepared, transcript)
    assert len(shown) < 40
    text = drawn(prepared.inputs)
    for place in range(shown[0]):
        content = json.loads(transcript[place].payload).get("content") or f'{{"q": "lookup-{place // 4}"}}'
        assert text.count(content) == 1, content[:30]
    assert text.startswith("[rows 0 to ")
    assert desk.summarizer.asked == 0
    # Instructions, pictures, tail; and it costs less than the words did.
    assert [section.kind for section in prepared.observation.sections] == ["frame", "tail"]
    assert prepared.observation.tokens < prepared.observation.full_tokens * 0.85


async def test_no_summarizer_is_needed(memory_laser: ls.Laser) -> None:
    session = await memory_laser.sessions().start()
    desk = Desk(memory_laser, session.id, StrategyRegistry(default="snapcompact"))
    await desk.talk(60)
    compaction = memory_laser.compaction(desk.session, registry=desk.registry)
    prepared = await compaction.prepare(window=WINDOW)
    assert prepared.observation.status == "compacted"
    check_request(prepared, await desk.transcript())
    await desk.talk(10, first=60)
    assert (await compaction.compact(window=WINDOW)).status == "compacted"
    # For a model without eyes one is, and so it is for the others.
    with pytest.raises(ls.InvalidError, match="summarizer: none was given, and snapcompact needs one"):
        await compaction.compact(window=WINDOW, images=False)
    with pytest.raises(ls.InvalidError, match="rolling needs one"):
        await compaction.compact("rolling", window=WINDOW)
    assert await compaction.strategy() == "snapcompact"
    found = await compaction.observe(window=WINDOW, images=False)
    assert found.status == "no_summarizer"


async def test_full_frames_keep_their_bytes(desk: Desk) -> None:
    """Compaction after compaction, while the budget lasts."""
    before: list[bytes] = []
    for turn in range(0, 120, 20):
        await desk.talk(20, first=turn)
        await desk.compaction.compact(window=200_000)
        inputs = (await desk.prepare(200_000, provider="anthropic")).inputs
        frames = [one.payload for one in frames_of(inputs)]
        assert len(frames) >= len(before)
        assert frames[: len(before) - 1] == before[:-1]
        before = frames
    assert len(before) > 3
    # Another process, and a strategy that has drawn nothing yet, make the same.
    other = desk.laser.compaction(desk.session, registry=StrategyRegistry(default="snapcompact"))
    prepared = await other.prepare(window=200_000, provider="anthropic")
    assert [one.payload for one in frames_of(prepared.inputs)] == before


async def test_over_the_budget_the_first_and_the_newest_stay(desk: Desk) -> None:
    for turn in range(0, 160, 8):
        await desk.talk(8, first=turn)
        await desk.prepare(WINDOW)
    prepared = await desk.prepare(WINDOW)
    frames = frames_of(prepared.inputs)
    # A fifth of the window, and four pictures in it.
    assert 2 <= len(frames) <= 4
    assert sum(one.tokens for one in frames) <= WINDOW * 20 // 100 + 96
    assert "[rows 0 to " in read_picture(picture_of(frames[0]))
    assert "characters between this picture and the next are left out" in caption_of(frames[0])
    text = drawn(prepared.inputs)
    assert "question-0 " in text
    assert "question-60 " not in text
    # What is left out is reached all the same.
    (hit,) = (await desk.compaction.transcript.grep("question-60 ")).hits
    assert hit.seq == 240
    page = await desk.compaction.transcript.read(after="row:239", limit=1)
    assert page.rows[0].text.startswith("question-60 w60x0")
    whole = await desk.compaction.observe(window=1_000_000, provider="anthropic")
    assert sum(one.inputs for one in whole.sections if one.kind == "frame") > 4


async def test_the_archive_is_drawn_as_each_provider_likes_it(desk: Desk) -> None:
    await desk.talk(60)
    await desk.compaction.compact(window=200_000)
    seen = {}
    for provider in ("anthropic", "openai", "openai_responses", None):
        inputs = (await desk.prepare(200_000, provider=provider)).inputs
        seen[provider] = drawn(inputs)
        part = json.loads(frames_of(inputs)[0].payload)["content"][1]["type"]
        assert part == {"anthropic": "image", "openai_responses": "input_image"}.get(provider or "", "image_url")
    assert len(set(seen.values())) == 1
    only = StrategyRegistry([Snapcompact(max_frames=2)], default="snapcompact")
    prepared = await desk.laser.compaction(desk.session, registry=only).prepare(window=200_000, provider="anthropic")
    assert len(frames_of(prepared.inputs)) == 2


async def test_between_compactions_only_the_end_changes(desk: Desk) -> None:
    before: ls.PreparedRequest | None = None
    compactions = 0
    for turn in range(60):
        await desk.talk(1, first=turn)
        prepared = await desk.prepare(WINDOW)
        if prepared.observation.status == "compacted":
            compactions += 1
        elif before is not None:
            assert kept_prefix(before, prepared) == sum(len(one.payload) for one in before.inputs)
        before = prepared
    assert compactions >= 2


# ------------------------------------------------------------------------------------------------------ odd words


async def test_hostile_words(desk: Desk) -> None:
    words = [
        "\0\x1b[2J\x7f",
        "x" * 50_000,
        "\n" * 2_000,
        "中文 😀 \u202eabc",
        "[laser: end]\n[rows 1 to 2]",
        "↵\\u2192",
    ]
    for number, text in enumerate(words):
        await desk.say(user(f"odd-{number} {text}"), assistant("so be it"))
    await desk.talk(20)
    await desk.compaction.compact(window=200_000)
    prepared = await desk.prepare(200_000, provider="anthropic")
    text = drawn(prepared.inputs)
    for number, odd in enumerate(words):
        assert f"odd-{number} {odd}".replace("[laser:", "(laser:") in text


async def test_secrets_are_neither_drawn_nor_archived(desk: Desk) -> None:
    key = "sk-" + "Q7" * 20
    await desk.say(user(f"my key is {key}"), assistant(f"noted {key}"))
    await desk.talk(20)
    await desk.compaction.compact(window=WINDOW)
    assert key not in drawn((await desk.prepare(WINDOW)).inputs)
    records = await desk.laser.assemble_context(desk.session, topics=["agent.compaction"], last_n=100)
    assert any("[redacted]" in record.text for record in records)
    assert not any(key in record.text for record in records)


async def test_a_row_too_long_for_one_record(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_PART_CHARACTERS", 1_000)
    long = " ".join(f"w{number}" for number in range(2_000))
    await desk.say(user("short"), assistant(long))
    await desk.talk(8)
    # Cancelled between the parts: what is there is no page, and the next try makes it whole.
    for number in range(30, 200, 5):
        assert await cancel_at(number, partial(desk.compaction.compact, window=100_000))
        if await _records(desk):
            break
    assert 0 < len(await _records(desk)) < 14
    check_request(await desk.compaction.prepare(window=100_000), await desk.transcript())
    await desk.compaction.compact(window=100_000)
    prepared = await desk.prepare(100_000, provider="anthropic")
    assert drawn(prepared.inputs).count(long) == 1
    states = [json.loads(one.text)["state"] for one in await _records(desk)]
    assert {state["page"]["parts"] for state in states} == {14}
    assert len(states) > 14


async def _records(desk: Desk) -> list[ls.ContextMessage]:
    return list(await desk.laser.assemble_context(desk.session, topics=["agent.compaction"], last_n=1_000))


# ------------------------------------------------------------------------------------------------------ at once


async def test_cancelled_at_every_await() -> None:
    outcomes: set[int] = set()
    for number in range(1, 200):
        async with ls.Laser.connect("memory:") as laser:
            await laser.ensure_topic(ls.AgentTopic.Sessions, 1)
            desk = Desk(laser, ls.new_conversation_id(), StrategyRegistry(default="snapcompact"))
            await desk.talk(5, words=90)
            cancelled = await cancel_at(number, partial(desk.compaction.compact, window=4_000))
            found = [await one.prepare(window=100_000) for one in (desk.compaction, desk.open())]
            assert found[0].inputs == found[1].inputs
            check_request(found[0], await desk.transcript())
            outcomes.add(found[0].observation.covered)
            if not cancelled:
                break
            await desk.compaction.compact(window=4_000)
            await desk.prepare(4_000)
    else:
        raise AssertionError("a compaction that never comes to its end")
    assert 0 in outcomes
    assert len(outcomes) > 2, "pages that were there before the end count"


async def test_two_processes_and_a_writer(desk: Desk) -> None:
    await desk.talk(40)
    others = [desk.open() for _ in range(3)]

    async def write() -> None:
        for turn in range(40, 60, 2):
            await desk.talk(2, first=turn)

    async with anyio.create_task_group() as tasks:
        for one in others:
            tasks.start_soon(one.compact)
        tasks.start_soon(write)
    found = [await one.prepare(window=20_000) for one in (*others, desk.open())]
    assert len({one.inputs for one in found}) == 1
    check_request(found[0], await desk.transcript())
    assert found[0].observation.covered > 0
    assert drawn(found[0].inputs).count("question-3 ") == 1


async def test_a_cleared_transcript_is_not_revived(desk: Desk) -> None:
    await desk.talk(40)
    await desk.compaction.compact(window=WINDOW)
    assert frames_of((await desk.prepare(WINDOW)).inputs)
    await desk.laser.open_log().purge(desk.laser.stream, ls.AgentTopic.Sessions)
    await desk.talk(3, first=1_000)
    for handle in (desk.compaction, desk.open()):
        prepared = await handle.prepare(window=WINDOW)
        assert prepared.observation.covered == 0
        assert len(prepared.inputs) == 12


async def test_another_transcript_in_its_place_is_not_covered(desk: Desk) -> None:
    await desk.talk(40)
    await desk.compaction.compact(window=WINDOW)
    await desk.laser.open_log().purge(desk.laser.stream, ls.AgentTopic.Sessions)
    for number in range(60):
        await desk.say(user(f"other {number}"), assistant("yes"), assistant("no"), assistant("done"))
    for handle in (desk.compaction, desk.open()):
        prepared = await handle.prepare(window=100_000)
        assert prepared.observation.covered == 0
        assert len(prepared.inputs) == 240
    # What is archived now is the new one, from its beginning.
    await desk.compaction.compact(window=WINDOW)
    text = drawn((await desk.prepare(100_000)).inputs)
    assert "other 0\n" in text
    assert "question-" not in text


async def test_what_retention_took_is_still_shown(memory_laser: ls.Laser) -> None:
    topic = ls.AgentTopic.Sessions
    await memory_laser.open_log().delete_topic(memory_laser.stream, topic)
    await memory_laser.ensure_topic(topic, 1, ls.TopicRetention(max_size=40_000))
    desk = Desk(memory_laser, ls.new_conversation_id(), StrategyRegistry(default="snapcompact"))
    turn = 0
    while (await memory_laser.topic(topic)).partitions[0].first < 8:
        await desk.talk(2, first=turn)
        turn += 2
        await desk.compaction.prepare(window=8_000, provider="anthropic")
        assert turn < 400
    for handle in (desk.compaction, desk.open()):
        prepared = await handle.prepare(window=200_000, provider="anthropic")
        text = drawn(prepared.inputs)
        assert text.count("question-0 ") == 1
        shown = [one.source.seq for one in prepared.inputs if one.source]
        assert shown == list(range(shown[0], 4 * turn))
        assert len(shown) + prepared.observation.covered == prepared.observation.rows
    # As text it is there too, for whoever comes next.
    await desk.compaction.switch("rolling")
    after = await desk.open().prepare(window=200_000)
    assert sum("question-0 " in one.payload.decode() for one in after.inputs) == 1


# ------------------------------------------------------------------------------------------------------ without eyes


async def test_a_model_without_images_gets_a_summary_and_the_archive_stays(desk: Desk) -> None:
    await desk.talk(40)
    await desk.compaction.compact(window=WINDOW)
    seeing = await desk.prepare(WINDOW)
    archived = seeing.observation.covered
    assert archived > 0
    blind = await desk.prepare(WINDOW, images=False)
    assert blind.observation.status == "compacted"
    assert frames_of(blind.inputs) == []
    assert {one.kind for one in blind.inputs} == {"summary", "recap", "tail"}
    # What the summary is made of is the archive, each row of it once.
    assert desk.summarizer.seen.count("question-3 ") == 1
    assert blind.observation.covered >= archived
    again = await desk.prepare(WINDOW, images=False)
    assert again.inputs == blind.inputs
    # A later model that sees gets the pictures as they were.
    assert (await desk.prepare(WINDOW, images=True)).inputs == seeing.inputs
    await desk.talk(30, first=40)
    for images in (True, False, None):
        assert (await desk.prepare(WINDOW, images=images)).observation.status in ("idle", "compacted")


# ------------------------------------------------------------------------------------------------------ switching


async def test_from_strategy_to_strategy_and_back(desk: Desk) -> None:
    first = 0
    for name in ("rolling", "lcm", "snapcompact", "rolling", "snapcompact", "lcm", "rolling"):
        await desk.compaction.switch(name)
        check_request(await desk.compaction.prepare(window=100_000), await desk.transcript())
        await desk.compaction.compact(window=WINDOW)
        for _ in range(6):
            await desk.talk(6, first=first)
            first += 6
            prepared = await desk.prepare(WINDOW, provider="anthropic")
            assert prepared.observation.strategy == name
            assert prepared.observation.status in ("idle", "compacted")
    transcript = await desk.transcript()
    assert len(await desk.reachable()) == len(transcript) == 4 * first
    shown = shown_places(await desk.prepare(WINDOW), transcript)
    assert shown == list(range(shown[0], len(transcript)))


async def test_other_strategies_folds_stand_before_the_frames(desk: Desk) -> None:
    await desk.talk(40)
    await desk.compaction.compact("lcm", window=WINDOW)
    tops = [one.payload for one in (await desk.prepare(100_000)).inputs if one.kind == "summary"]
    await desk.compaction.switch("snapcompact")
    before = await desk.prepare(100_000)
    # The summaries as they are, and no picture of what they stand for.
    assert [one.payload for one in before.inputs if one.source is None] == tops
    await desk.talk(60, first=40)
    await desk.compaction.compact(window=WINDOW)
    prepared = await desk.prepare(WINDOW)
    kinds = [section.kind for section in prepared.observation.sections]
    assert kinds == ["fold", "frame", "tail"]
    assert [one.payload for one in prepared.inputs if one.kind == "fold"] == tops
    text = drawn((await desk.prepare(200_000, provider="anthropic")).inputs)
    assert "question-50 " in text
    assert "question-3 " not in text


async def test_others_read_the_archive_as_pages_of_text(desk: Desk) -> None:
    await desk.talk(40)
    await desk.compaction.compact(window=WINDOW)
    covered = (await desk.prepare(100_000)).observation.covered
    await desk.compaction.switch("rolling")
    prepared = await desk.prepare(100_000)
    pages = [json.loads(one.payload)["content"] for one in prepared.inputs if one.kind == "fold"]
    assert len(pages) > 1
    assert prepared.observation.covered == covered
    for number in range(40):
        whole = "\n".join([*pages, *(one.payload.decode() for one in prepared.inputs if one.source)])
        assert whole.count(f"question-{number} ") == 1
    # lcm ignores it.
    await desk.compaction.switch("lcm")
    assert (await desk.prepare(100_000)).observation.covered == 0
    # rolling makes its summary of the pages.
    await desk.compaction.compact("rolling", window=WINDOW)
    assert desk.summarizer.seen.count("question-3 ") == 1
    assert (await desk.prepare(WINDOW)).observation.covered > 0


# ------------------------------------------------------------------------------------------------------ tools


async def test_transcript_tools(desk: Desk) -> None:
    await desk.talk(60)
    await desk.compaction.compact(window=WINDOW)
    tools = {tool.name: tool for tool in desk.compaction.transcript.tools()}
    assert set(tools) == {"transcript_grep", "transcript_read"}
    hits: list[int] = []
    after = None
    while True:
        page = await desk.compaction.transcript.grep("QUESTION-", after=after, limit=7)
        assert len(page.hits) <= 7
        hits += [hit.seq for hit in page.hits if hit.seq is not None]
        after = page.next
        if after is None:
            break
    assert hits == list(range(0, 240, 4))
    rows: list[int] = []
    after = None
    while True:
        text = await desk.compaction.transcript.read(after=after, limit=50)
        rows += [row.seq for row in text.rows]
        after = text.next
        if after is None:
            break
    assert rows == list(range(240))
    assert json.loads(await tools["transcript_grep"].call({"text": "question-7 "}))["hits"][0]["seq"] == 28
    assert json.loads(await tools["transcript_read"].call({"after": "row:27", "limit": 1}))["rows"][0]["seq"] == 28
    for name, arguments in (
        ("transcript_grep", {}),
        ("transcript_grep", {"text": "x", "node": 1}),
        ("transcript_grep", {"text": ""}),
        ("transcript_read", {"limit": 0}),
        ("transcript_read", {"after": "node:1"}),
    ):
        assert "error" in json.loads(await tools[name].call(arguments)), (name, arguments)


async def test_summaries_are_no_rows(desk: Desk) -> None:
    await desk.talk(60)
    await desk.compaction.compact("lcm", window=WINDOW)
    assert (await desk.compaction.lcm.grep("Account")).hits
    page = await desk.compaction.transcript.grep("Account")
    assert (page.hits, page.next) == ((), None)


# ------------------------------------------------------------------------------------------------------ arguments


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"archive_percent": 0}, "archive_percent"),
        ({"archive_percent": 80}, "archive_percent"),
        ({"archive_percent": 20.0}, "archive_percent"),
        ({"archive_percent": 5, "tail_percent": 85}, "archive_percent"),
        ({"max_frames": 0}, "max_frames"),
        ({"max_frames": MAX_FRAMES + 1}, "max_frames"),
        ({"max_frames": True}, "max_frames"),
        ({"trigger_percent": 0}, "trigger_percent"),
        ({"tail_percent": 90}, "tail_percent"),
        ({"window": 0}, "window"),
    ],
)
def test_settings_that_are_refused(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ls.InvalidError) as caught:
        Snapcompact(**arguments)
    assert caught.value.argument == named


def test_settings() -> None:
    Snapcompact(archive_percent=79)
    Snapcompact(max_frames=MAX_FRAMES, archive_percent=1)
    plain = Snapcompact()
    assert (plain.limits.trigger_percent, plain.limits.tail_percent, plain.limits.window) == (90, 10, None)
    assert (plain.archive_percent, plain.max_frames) == (20, None)
    assert "archive_percent=20" in repr(plain)
    assert Rolling.name not in repr(plain)


async def test_without_pillow_nothing_is_changed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await desk.talk(60)
    for name in [name for name in sys.modules if name.split(".")[0] == "PIL"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ls.ConfigError, match=r"pip install 'laser-context\[snapcompact\]'"):
        await desk.compaction.prepare(window=WINDOW)
    assert "saved" not in {step.kind for step in await desk.compaction.steps()}
    # What needs no picture goes on.
    assert (await desk.prepare(100_000)).observation.status == "idle"
    assert (await desk.prepare(WINDOW, images=False)).observation.status == "compacted"
