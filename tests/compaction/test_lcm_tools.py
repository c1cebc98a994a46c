"""The tools ``lcm_list``, ``lcm_grep``, ``lcm_describe`` and ``lcm_expand``."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

import laser as ls
from laser.compaction.registry import StrategyRegistry
from laser.limits import MAX_LCM_PAGE, MAX_LCM_PAGE_BYTES, MAX_LCM_QUERY_BYTES
from laser.testing.compaction_cases.base import Desk, assistant, user

pytestmark = pytest.mark.anyio

WINDOW = 4_000


@pytest.fixture
async def desk(memory_laser: ls.Laser) -> Desk:
    desk = Desk(memory_laser, ls.new_conversation_id(), StrategyRegistry())
    await desk.talk(80)
    await desk.compaction.compact("lcm", window=WINDOW)
    return desk


def places(fold: ls.FoldInfo) -> list[int]:
    return [place for first, last in fold.spans for place in range(first, last + 1)]


async def test_every_node_is_listed_page_by_page(desk: Desk) -> None:
    lcm = desk.compaction.lcm
    whole = (await lcm.list(limit=MAX_LCM_PAGE)).folds
    assert len(whole) > 10
    paged = []
    after = 0
    while True:
        page = await lcm.list(after=after, limit=3)
        assert len(page.folds) <= 3
        paged += page.folds
        if page.next is None:
            break
        after = page.next
    assert tuple(paged) == whole
    # Those that a request shows no more are among them.
    shown = (await desk.prepare(100_000)).observation.sections
    assert sum(section.inputs for section in shown if section.kind == "summary") < len(whole)
    assert {fold.level for fold in whole} >= {0, 1}
    for fold in whole:
        assert await lcm.describe(fold.number) == fold
        if fold.children:
            below = [other for other in whole if other.number in fold.children]
            assert {other.parent for other in below} == {fold.number}
            assert fold.rows == sum(other.rows for other in below)
            assert places(fold) == sorted(place for other in below for place in places(other))
            # Neighbours are one stretch: what stands for all does not list all.
            assert len(fold.spans) == 1


async def test_expand_gives_the_rows_of_a_node(desk: Desk) -> None:
    lcm = desk.compaction.lcm
    transcript = await desk.transcript()
    for fold in (await lcm.list(limit=MAX_LCM_PAGE)).folds:
        rows = []
        after = None
        while True:
            page = await lcm.expand(fold.number, after=after, limit=7)
            rows += page.rows
            after = page.next
            if after is None:
                break
        assert [row.seq for row in rows] == [seq for first, last in fold.spans for seq in range(first, last + 1)]
        assert len(rows) == fold.rows
        assert all(
            row.whole and row.text in transcript[row.seq].text.replace('\\"', '"') for row in rows if row.role == "user"
        )


async def test_expand_goes_on_in_a_long_row(desk: Desk) -> None:
    long = "".join(f"é{number}," for number in range(20_000))
    await desk.say(user("short"), assistant(long), assistant("after"))
    lcm = desk.compaction.lcm
    after: str | None = "row:319"
    parts: list[Any] = []
    while True:
        page = await lcm.expand(after=after)
        assert sum(len(row.text.encode()) for row in page.rows) <= MAX_LCM_PAGE_BYTES + 64
        parts += page.rows
        after = page.next
        if after is None:
            break
    assert [part.seq for part in parts[:2]] == [320, 321]
    assert "".join(part.text for part in parts if part.seq == 321) == long
    assert [part.text for part in parts if part.seq == 322] == ["after"]
    assert len({part.start for part in parts if part.seq == 321}) > 2
    assert not any(part.whole for part in parts if part.seq == 321)


async def test_grep_finds_rows_and_summaries(desk: Desk) -> None:
    lcm = desk.compaction.lcm
    await desk.say(user("Straße und ÄPFEL"), assistant("zero\0byte and 100% _literal_ [x]"))
    page = await lcm.grep("QUESTION-7 ")
    assert [(hit.seq, hit.role) for hit in page.hits] == [(28, "user")]
    assert "question-7 w7x0" in page.hits[0].excerpt
    assert [hit.seq for hit in (await lcm.grep("äpfel")).hits] == [320]
    assert [hit.seq for hit in (await lcm.grep("STRASSE")).hits] == [320]
    for literal in ("100%", "_literal_", "[x]", "."):
        assert (await lcm.grep(literal)).hits, literal
    assert (await lcm.grep("x4  w7")).hits == ()
    # Nothing is found across two rows.
    assert (await lcm.grep("x19\nquestion")).hits == ()
    summaries = [hit.node for hit in (await lcm.grep("Account", limit=200)).hits]
    assert summaries == [fold.number for fold in (await lcm.list(limit=200)).folds]


async def test_grep_page_by_page(desk: Desk) -> None:
    lcm = desk.compaction.lcm
    whole = (await lcm.grep("c", limit=MAX_LCM_PAGE)).hits
    found = []
    after = None
    while True:
        page = await lcm.grep("c", after=after, limit=9)
        assert len(page.hits) <= 9
        found += page.hits
        after = page.next
        if after is None:
            break
    assert tuple(found[: len(whole)]) == whole
    assert len({(hit.seq, hit.node) for hit in found}) == len(found)
    assert [hit.seq for hit in found if hit.seq is not None] == sorted(hit.seq for hit in found if hit.seq is not None)
    assert found[-1].node is not None


async def test_grep_within_a_node(desk: Desk) -> None:
    lcm = desk.compaction.lcm
    folds = (await lcm.list(limit=200)).folds
    parent = next(fold for fold in folds if fold.children)
    hits = (await lcm.grep("question-", node=parent.number, limit=200)).hits
    assert hits
    assert all(any(first <= hit.seq <= last for first, last in parent.spans) for hit in hits if hit.seq is not None)
    nodes = {hit.node for hit in (await lcm.grep("Account", node=parent.number, limit=200)).hits}
    assert nodes == {parent.number, *parent.children}


async def test_they_work_under_other_strategies(desk: Desk) -> None:
    before = (await desk.compaction.lcm.list()).folds
    for name in ("rolling", None):
        await desk.compaction.switch(name)
        assert (await desk.compaction.lcm.list()).folds == before
        assert (await desk.compaction.lcm.grep("question-7 ")).hits
        assert (await desk.compaction.lcm.expand(before[0].number)).rows


async def test_image_bytes_stay_out(desk: Desk) -> None:
    data = base64.b64encode(b"GIF89a" + (20).to_bytes(2, "little") + (30).to_bytes(2, "little") + bytes(5_000)).decode()
    source = {"type": "base64", "media_type": "image/gif", "data": data}
    await desk.say(json.dumps({"role": "user", "content": [{"type": "image", "source": source}]}).encode())
    await desk.say(user(f"see data:image/gif;base64,{data} there"))
    page = await desk.compaction.lcm.expand(after="row:319")
    assert page.rows[0].text.startswith("[image image/gif 20x30 ")
    assert page.rows[1].text == "see [data left out] there"
    assert (await desk.compaction.lcm.grep(data[:40])).hits == ()


async def test_bad_arguments(desk: Desk) -> None:
    lcm = desk.compaction.lcm
    for limit in (0, -1, MAX_LCM_PAGE + 1, 1.5, True):
        for call in (lcm.list, lambda limit: lcm.grep("x", limit=limit), lcm.expand):
            with pytest.raises(ls.InvalidError) as caught:
                await call(limit=limit)  # type: ignore[operator]
            assert caught.value.argument == "limit"
    assert len((await lcm.list(limit=MAX_LCM_PAGE)).folds) > 1
    for node in (0, 10_000, -1):
        with pytest.raises(ls.NotFoundError):
            await lcm.describe(node)
        with pytest.raises(ls.NotFoundError):
            await lcm.expand(node)
    for after in ("", "x", "row:", "row:-1", "node:1", "row:1+", "row:" + "9" * 40, 3):
        with pytest.raises(ls.InvalidError) as caught:
            await lcm.expand(after=after)  # type: ignore[arg-type]
        assert caught.value.argument == "after"
    with pytest.raises(ls.InvalidError):
        await lcm.grep("")
    edge = "é" * (MAX_LCM_QUERY_BYTES // 2)
    assert (await lcm.grep(edge)).hits == ()
    with pytest.raises(ls.LimitError) as over:
        await lcm.grep(edge + "x")
    assert (over.value.size, over.value.limit) == (MAX_LCM_QUERY_BYTES + 1, MAX_LCM_QUERY_BYTES)


async def test_as_tools_for_a_model(desk: Desk) -> None:
    tools = {tool.name: tool for tool in desk.compaction.lcm.tools()}
    assert set(tools) == {"lcm_list", "lcm_grep", "lcm_describe", "lcm_expand"}
    listed = json.loads(await tools["lcm_list"].call({"limit": 2}))
    number = listed["folds"][0]["number"]
    assert json.loads(await tools["lcm_describe"].call({"node": number}))["text"].startswith("Account")
    assert json.loads(await tools["lcm_grep"].call({"text": "question-7 ", "node": None}))["hits"][0]["seq"] == 28
    assert json.loads(await tools["lcm_expand"].call({"node": number}))["rows"]
    for name, arguments in (
        ("lcm_grep", {}),
        ("lcm_grep", {"text": 7}),
        ("lcm_list", {"limit": "many"}),
        ("lcm_list", {"self": 1}),
        ("lcm_describe", {"node": 99_999}),
        ("lcm_describe", {"node": "1"}),
        ("lcm_expand", {"after": "../x"}),
    ):
        assert "error" in json.loads(await tools[name].call(arguments)), (name, arguments)
    for tool in tools.values():
        assert tool.parameters["additionalProperties"] is False
        assert set(tool.parameters["required"]) <= set(tool.parameters["properties"])
