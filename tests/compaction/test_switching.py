"""From one strategy to another and back: nothing lost, nothing shown twice; and along to forks."""

from __future__ import annotations

import pytest

import laser as ls
from laser.compaction.lcm.copying import copy_nodes
from laser.compaction.registry import StrategyRegistry
from laser.compaction.requests import CompactionLimits
from laser.testing.compaction_cases.base import Desk, assistant, user
from laser.testing.compaction_checks import check_request, shown_places

pytestmark = pytest.mark.anyio

WINDOW = 4_000


@pytest.fixture
async def desk(memory_laser: ls.Laser) -> Desk:
    session = await memory_laser.sessions().start()
    return Desk(memory_laser, session.id, StrategyRegistry())


async def folds(desk: Desk) -> list[str]:
    prepared = await desk.prepare(100_000)
    return [one.payload.decode().split(",")[0] for one in prepared.inputs if one.kind == "fold"]


async def test_there_and_back_again(desk: Desk) -> None:
    first = 0
    for name in ("rolling", "lcm", "rolling", "lcm", "rolling"):
        await desk.compaction.compact(name, window=WINDOW)
        for _ in range(10):
            await desk.talk(6, first=first)
            first += 6
            prepared = await desk.prepare()
            assert prepared.observation.strategy == name
            assert prepared.observation.status in ("idle", "compacted")
    transcript = await desk.transcript()
    assert len(await desk.reachable()) == len(transcript) == 4 * first
    shown = shown_places(await desk.prepare(), transcript)
    assert shown == list(range(shown[0], len(transcript)))


async def test_rolling_reads_what_lcm_stored(desk: Desk) -> None:
    await desk.talk(40)
    await desk.compaction.compact("lcm", window=WINDOW)
    before = await desk.prepare(100_000)
    tops = [one.payload for one in before.inputs if one.kind == "summary"]
    assert tops
    await desk.compaction.switch("rolling")
    after = await desk.prepare(100_000)
    # The very same accounts, in the same places, and the same tail.
    assert [one.payload for one in after.inputs] == [one.payload for one in before.inputs]
    assert [one.kind for one in after.inputs if one.source is None] == ["fold"] * len(tops)
    asked = len(desk.summarizer.requests)
    await desk.talk(20, first=40)
    await desk.compaction.compact(window=WINDOW)
    request = desk.summarizer.requests[asked]
    # Their accounts, not the rows below them, are what the new summary is made of.
    assert request.text.count("Account ") == len(tops)
    assert "question-3 " not in "".join(one.text for one in desk.summarizer.requests[asked:])
    prepared = await desk.prepare(100_000)
    assert {one.kind for one in prepared.inputs} == {"summary", "recap", "tail"}
    # The nodes are still there for the tools.
    assert len((await desk.compaction.lcm.list()).folds) >= len(tops)
    assert "question-3 " in "".join((await desk.reachable()).values())


async def test_lcm_ignores_what_rolling_stored(desk: Desk) -> None:
    await desk.talk(40)
    await desk.compaction.compact("rolling", window=WINDOW)
    asked = len(desk.summarizer.requests)
    assert (await desk.prepare(100_000)).observation.covered > 0
    await desk.compaction.switch("lcm")
    prepared = await desk.prepare(100_000)
    assert prepared.observation.covered == 0
    assert len(prepared.inputs) == 160
    await desk.compaction.compact(window=WINDOW)
    requests = desk.summarizer.requests[asked:]
    assert "question-0 " in requests[0].text
    assert all(request.previous is None for request in requests)
    assert not any("Account" in request.text for request in requests if request.kind == "leaf")


async def test_a_node_that_another_summary_covers_in_part_is_read_by_its_children(desk: Desk) -> None:
    await desk.talk(40)
    # rolling covers the first half of what lcm covers later.
    await desk.compaction.compact("rolling", window=100_000)
    half = (await desk.compaction.observe(window=100_000)).covered
    await desk.talk(80, first=40)
    await desk.compaction.compact("lcm", window=WINDOW)
    tops = [fold for fold in (await desk.compaction.lcm.list(limit=200)).folds if fold.parent is None]
    assert any(fold.spans[0][0] < half <= fold.spans[-1][1] for fold in tops)
    await desk.compaction.switch("rolling")
    prepared = await desk.prepare(100_000)
    assert {"summary", "fold", "tail"} <= {one.kind for one in prepared.inputs}
    check_request(prepared, await desk.transcript())


async def test_a_choice_outlives_another_default(desk: Desk) -> None:
    await desk.compaction.switch("lcm")
    other = desk.laser.compaction(desk.session, registry=StrategyRegistry(default="rolling"))
    assert await other.strategy() == "lcm"
    unchosen = desk.laser.compaction(ls.new_conversation_id(), registry=StrategyRegistry(default="lcm"))
    assert await unchosen.strategy() == "lcm"
    without = desk.laser.compaction(desk.session, registry=StrategyRegistry([Own()], default="own"))
    with pytest.raises(ls.NotFoundError, match="'lcm' is not here; there are: own"):
        await without.prepare(window=WINDOW)


class Own:
    """A strategy of somebody's own that never folds."""

    name = "own"
    limits = CompactionLimits()

    async def project(self, view: object) -> tuple[list[object], int]:
        return [], 0

    async def compact(self, view: object, work: object, *, force: bool) -> bool:
        return False


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"strategies": [Own(), Own()], "default": "own"}, "strategies"),
        ({"strategies": [object()], "default": None}, "strategies"),
        ({"default": "other"}, "default"),
    ],
)
def test_registries_that_are_refused(arguments: dict[str, object], named: str) -> None:
    with pytest.raises(ls.InvalidError) as caught:
        StrategyRegistry(**arguments)  # type: ignore[arg-type]
    assert caught.value.argument == named


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"trigger_percent": 0}, "trigger_percent"),
        ({"trigger_percent": 101}, "trigger_percent"),
        ({"trigger_percent": 50.0}, "trigger_percent"),
        ({"tail_percent": 0}, "tail_percent"),
        ({"tail_percent": 90}, "tail_percent"),
        ({"window": 0}, "window"),
        ({"window": True}, "window"),
    ],
)
def test_limits_that_are_refused(arguments: dict[str, int], named: str) -> None:
    with pytest.raises(ls.InvalidError) as caught:
        CompactionLimits(**arguments)
    assert caught.value.argument == named


async def test_a_window_of_its_own_goes_before_the_models(memory_laser: ls.Laser) -> None:
    from laser.compaction.rolling import Rolling

    desk = Desk(memory_laser, ls.new_conversation_id(), StrategyRegistry([Rolling(window=2_000)]))
    await desk.talk(12)
    prepared = await desk.prepare(1_000_000)
    assert (prepared.observation.window, prepared.observation.status) == (2_000, "compacted")


async def test_references_give_their_messages(desk: Desk) -> None:
    await desk.talk(30)
    before = (await desk.prepare(100_000)).inputs
    await desk.compaction.compact("rolling", window=WINDOW)
    assert (await desk.prepare(100_000)).observation.covered > 40
    every = await desk.compaction.sources()
    assert [one.payload for one in every] == [one.payload for one in before]
    for one in every:
        assert one.source is not None
        assert await desk.compaction.source(one.source) == one
    with pytest.raises(ls.NotFoundError, match="row 9999"):
        await desk.compaction.source(ls.SourceRef(desk.session, 9_999))
    for bad in (ls.SourceRef(ls.new_conversation_id(), 0), 7):
        with pytest.raises(ls.InvalidError, match="ref"):
            await desk.compaction.source(bad)  # type: ignore[arg-type]


# ---------------------------------------------------------------------------------------------------------- forks


async def fork(desk: Desk, count: int) -> tuple[Desk, dict[int, int]]:
    """A session with a copy of the first messages, and where they are in it."""
    transcript = (await desk.transcript())[:count]
    child = Desk(desk.laser, ls.new_conversation_id(), desk.registry)
    child.summarizer = desk.summarizer
    await child.say(*(message.payload for message in transcript))
    copies = await child.transcript()
    return child, {old.offset: new.offset for old, new in zip(transcript, copies, strict=True)}


async def test_a_fork_takes_whole_nodes_along(desk: Desk) -> None:
    await desk.talk(60)
    await desk.compaction.compact("lcm", window=WINDOW)
    nodes = {fold.number: fold for fold in (await desk.compaction.lcm.list(limit=200)).folds}
    cut = 130
    child, mapping = await fork(desk, cut)
    asked = desk.summarizer.asked
    copied = await copy_nodes(desk.laser, desk.session, child.session, mapping)
    assert desk.summarizer.asked == asked
    last = list(mapping)[-1]
    whole = [fold for fold in nodes.values() if fold.spans[-1][1] <= last]
    assert copied == len(whole) < len(nodes)
    taken = (await child.compaction.lcm.list(limit=200)).folds
    assert [fold.text for fold in taken] == [fold.text for fold in whole]
    assert any(fold.children for fold in taken), "links are taken along too"
    for fold in taken:
        first = mapping[next(one for one in whole if one.text == fold.text).spans[0][0]]
        assert fold.spans[0][0] == first
        for name in fold.children:
            assert next(one for one in taken if one.number == name).parent == fold.number
    # Twice writes nothing; the fork goes on by itself, and the other session sees nothing of it.
    assert await copy_nodes(desk.laser, desk.session, child.session, mapping) == 0
    await child.compaction.switch("lcm")
    prepared = await child.prepare(100_000)
    assert prepared.observation.covered > 0
    await child.talk(60, first=500)
    await child.prepare()
    await desk.prepare(100_000)
    assert "question-500 " not in "".join((await desk.reachable()).values())


async def test_a_fork_by_the_client(desk: Desk) -> None:
    await desk.talk(60)
    await desk.compaction.compact("lcm", window=WINDOW)
    session = await desk.laser.sessions().open(desk.session)
    forked = await session.fork()
    # The first look at a fork takes along what its past was summarised to.
    child = Desk(desk.laser, forked.id, desk.registry)
    folds = (await desk.compaction.lcm.list(limit=200)).folds
    assert len((await child.compaction.lcm.list(limit=200)).folds) == len(folds) > 0
    assert await copy_nodes(desk.laser, desk.session, forked.id) == 0
    await child.compaction.switch("lcm")
    before = (await desk.prepare(100_000)).inputs
    after = (await child.compaction.prepare(window=100_000)).inputs
    assert len(after) == len(before)
    assert [one.payload for one in after if one.source] == [one.payload for one in before if one.source]
    assert all(one.source.session == forked.id for one in after if one.source)


async def test_a_fork_begins_without_a_rolling_summary(desk: Desk) -> None:
    await desk.talk(60)
    await desk.compaction.compact("rolling", window=WINDOW)
    child, mapping = await fork(desk, 120)
    await copy_nodes(desk.laser, desk.session, child.session, mapping)
    prepared = await child.prepare(100_000)
    assert prepared.observation.covered == 0
    assert len(prepared.inputs) == 120


# ------------------------------------------------------------------------------------------------------- retention


@pytest.mark.parametrize("name", ["rolling", "lcm"])
async def test_what_retention_takes_is_not_asked_for_again(name: str, memory_laser: ls.Laser) -> None:
    topic, session = ls.AgentTopic.Sessions, ls.new_conversation_id()
    log = memory_laser.open_log()
    await log.delete_topic(memory_laser.stream, topic)
    await memory_laser.ensure_topic(topic, 1, ls.TopicRetention(max_size=40_000))
    desk = Desk(memory_laser, session, StrategyRegistry())
    await desk.compaction.switch(name)
    turn = 0
    while (await memory_laser.topic(topic)).partitions[0].first == 0 or turn < 60:
        await desk.talk(2, first=turn)
        turn += 2
        await desk.compaction.prepare(window=WINDOW)
        assert turn < 400
    first = (await memory_laser.topic(topic)).partitions[0].first
    asked = desk.summarizer.asked
    for handle in (desk.compaction, desk.open()):
        prepared = await handle.prepare(window=WINDOW)
        assert prepared.observation.rows == 4 * turn - first
        summaries = [one for one in prepared.inputs if one.kind == "summary"]
        assert summaries, "what stands for lost rows is all that is left of them"
        shown = [one.source.seq for one in prepared.inputs if one.source]
        assert shown == list(range(shown[0], 4 * turn))
        assert len(shown) + prepared.observation.covered == prepared.observation.rows
    assert desk.summarizer.asked == asked
    await desk.talk(20, first=turn)
    assert (await desk.compaction.prepare(window=WINDOW)).observation.status in ("idle", "compacted")


async def test_a_changed_transcript_resets_rolling(memory_laser: ls.Laser) -> None:
    session = ls.new_conversation_id()
    desk = Desk(memory_laser, session, StrategyRegistry())
    await desk.talk(40)
    await desk.compaction.compact(window=WINDOW)
    assert (await desk.prepare(100_000)).observation.covered > 0
    # Another transcript in the place of that one: as long, with other words of the user.
    await memory_laser.open_log().purge(memory_laser.stream, ls.AgentTopic.Sessions)
    for number in range(60):
        await desk.say(user(f"other {number}"), assistant("yes"), assistant("no"), assistant("done"))
    for handle in (desk.compaction, desk.open()):
        prepared = await handle.prepare(window=100_000)
        assert prepared.observation.covered == 0
        assert len(prepared.inputs) == 240
    await desk.compaction.compact(window=WINDOW)
    assert desk.summarizer.requests[-1].previous is None or "Account" not in desk.summarizer.requests[1].text
    assert (await desk.prepare(100_000)).observation.covered > 0


async def test_messages_kept_as_content(desk: Desk) -> None:
    content = desk.laser.content("acme")
    scope = desk.laser.context(desk.session)
    await scope.append(ls.AgentTopic.Sessions, "line of a long log\n" * 10_000, content=content)
    await desk.say(assistant("noted"))
    prepared = await desk.compaction.prepare(window=1_000_000)
    kept = prepared.inputs[0].content
    assert kept is not None
    assert prepared.inputs[0].tokens >= 40_000
    assert await content.get(kept.ref) == b"line of a long log\n" * 10_000
    await desk.talk(40)
    await desk.compaction.compact(window=WINDOW)
    assert "190,000 bytes kept as content] line of a long log" in desk.summarizer.seen
    assert (await desk.compaction.prepare(window=WINDOW)).observation.covered > 2
