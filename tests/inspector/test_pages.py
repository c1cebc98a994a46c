"""The pages of ``laser inspect``: what they show, in which pages, and that looking writes nothing."""

from __future__ import annotations

import io
import json
import re

import pytest
from PIL import Image

import laser as ls
import laser.prompt as lp
from laser.inspector.style import COLOURS
from laser.testing.compaction_cases.base import Desk
from tests.inspector.making import HOSTILE, TOKEN, browse, fill, links, words

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine_url", ["memory", "embedded"], indirect=True)]


async def test_sessions(laser: ls.Laser) -> None:
    filled = await fill(laser, turns=6)
    async with browse(laser) as client:
        text = (await client.get(f"/{TOKEN}/")).text
        assert f"sessions of stream {laser.stream}" in words(text)
        listed = [one.rsplit("/", 1)[1] for one in links(text, "/s/")]
        assert listed == [filled.plain, filled.child, filled.main]
        failed = (await client.get(f"/{TOKEN}/", params={"state": "failed"})).text
        assert [one.rsplit("/", 1)[1] for one in links(failed, "/s/")] == [filled.child]
        one = (await client.get(f"/{TOKEN}/", params={"limit": "1"})).text
        assert [one.rsplit("/", 1)[1] for one in links(one, "/s/")] == [filled.plain]
        assert "There may be older ones" in one
        for query in ({"state": "<b>"}, {"limit": "x"}, {"limit": "0"}, {"limit": "9" * 40}, {"limit": "٣"}):
            refused = await client.get(f"/{TOKEN}/", params=query)
            assert refused.status_code == 400
            assert next(iter(query)) in words(refused.text)


async def test_one_session(laser: ls.Laser) -> None:
    filled = await fill(laser, turns=6)
    async with browse(laser) as client:
        main = (await client.get(f"/{TOKEN}/s/{filled.main}")).text
        assert "input_tokens 1,234" in words(main)
        assert f"/{TOKEN}/s/{filled.child}" in links(main)
        child = (await client.get(f"/{TOKEN}/s/{filled.child.lower()}")).text
        assert f"/{TOKEN}/s/{filled.main}" in links(child)
        assert HOSTILE[4] in words(child)
        # Every link of every page leads somewhere.
        seen, waiting = set(), [f"/{TOKEN}/"]
        while waiting:
            address = waiting.pop()
            if address in seen:
                continue
            seen.add(address)
            answer = await client.get(address)
            assert answer.status_code == 200 or (address.endswith("/open") and answer.status_code == 404), address
            if "html" in answer.headers["content-type"] and len(seen) < 150:
                waiting += [link.partition("#")[0] for link in links(answer.text)]
        assert len(seen) > 30


async def test_open(laser: ls.Laser) -> None:
    """By id or by key; what is no session can still have compactions and prompts."""
    key = ls.derive_conversation_id("ticket 1/ä?")
    await laser.context(key).append(ls.AgentTopic.Sessions, b"x")
    async with browse(laser) as client:
        moved = await client.get(f"/{TOKEN}/open", params={"id": " @ticket 1/ä? "})
        assert (moved.status_code, moved.headers["location"]) == (303, f"/{TOKEN}/s/{key}")
        assert "sessions().start()" in words((await client.get(moved.headers["location"])).text)
        assert "1, of which summaries stand for 0" in words((await client.get(f"/{TOKEN}/s/{key}/compaction")).text)
        assert "No prompts" in (await client.get(f"/{TOKEN}/s/{key}/prompts")).text
        assert (await client.get(f"/{TOKEN}/s/{key}/transcript")).status_code == 404
        for path in ("open?id=nothing", "open", "s/nothing", f"s/{key}/nothing", f"s/{key}/lcm/1", "s//", "%00"):
            answer = await client.get(f"/{TOKEN}/{path}")
            assert answer.status_code == 404, path
            assert answer.headers["content-type"].startswith("text/html")


async def test_transcript_pages(laser: ls.Laser) -> None:
    """Older pages and newer ones are exclusive: every message once, whatever is appended meanwhile."""
    session = await laser.sessions().start()
    scope = session.scope()

    async def say(first: int, last: int) -> None:
        for number in range(first, last):
            await scope.append(ls.AgentTopic.Sessions, json.dumps({"role": "user", "content": f"<m{number}>"}))

    def shown(text: str) -> list[int]:
        return [int(number) for number in re.findall(r"<m(\d+)>", words(text))]

    await say(0, 23)
    start = f"/{TOKEN}/s/{session.id}/transcript"
    async with browse(laser) as client:
        newest = (await client.get(start, params={"limit": 10})).text
        assert shown(newest) == list(range(13, 23))
        since = links(newest, "after=")[0]
        await say(23, 30)
        older = (await client.get(links(newest, "before=")[0])).text
        assert shown(older) == list(range(3, 13))
        assert shown((await client.get(links(older, "whole=1")[0])).text) == list(range(3, 13))
        oldest = (await client.get(links(older, "before=")[0])).text
        assert shown(oldest) == [0, 1, 2]
        # Only the link to the same page with whole texts is left.
        assert all("whole=1" in one for one in links(oldest, "before="))
        assert len(links(older, "whole=1")) == 2
        newer = (await client.get(since)).text
        assert shown(newer) == list(range(23, 30))
        assert links(newer, "limit=10")
        after = (await client.get(links(newer, "after=")[0])).text
        assert (shown(after), "Nothing new." in after) == ([], True)
        for query in (
            {"before": "x"}, {"after": "e30="}, {"before": "eJwDAAAAAAE="}, {"limit": "1001"},
            {"after": "\x00"}, {"before": links(newest, "before=")[0].partition("before=")[2][:40]},
        ):  # fmt: skip
            assert (await client.get(start, params=query)).status_code == 400, query
        other = await laser.sessions().start()
        foreign = links(newest, "before=")[0].replace(session.id, other.id)
        assert (await client.get(foreign)).status_code == 400


async def test_long_texts(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    await session.scope().append(ls.AgentTopic.Sessions, json.dumps({"role": "user", "content": "ab" * 5_000 + "END"}))
    async with browse(laser) as client:
        cut = (await client.get(f"/{TOKEN}/s/{session.id}/transcript")).text
        assert "6,003 more characters" in cut
        assert "END" not in cut
        assert "END" in (await client.get(links(cut, "whole=1")[0])).text


async def test_context(laser: ls.Laser) -> None:
    """Estimates by category, and apart from them what the provider counted."""
    filled = await fill(laser, turns=6)
    async with browse(laser) as client:
        text = re.sub(r"\s*\n\s*", "|", words((await client.get(f"/{TOKEN}/s/{filled.main}/context")).text))
    estimated, _, measured = text.partition("tokens that the provider counted")
    assert "|instruction|1|4|" in estimated
    assert "|user|1|90|" in estimated
    assert "|assistant|1|?|1|" in estimated
    assert "|all|3|?|" in estimated
    assert "1,234" not in estimated
    assert "|input_tokens|1,234|" in measured
    assert "Be brief. <b>" in measured
    assert "key rules" in measured


async def test_compaction(laser: ls.Laser) -> None:
    filled = await fill(laser)
    base = f"/{TOKEN}/s/{filled.main}"
    async with browse(laser) as client:
        text = (await client.get(f"{base}/compaction")).text
        assert "no window is known: nothing is compacted by itself" in words(text)
        assert "switched" in words(text)
        nodes = links(text, "/lcm/")
        assert len(nodes) == len(set(nodes)) == filled.nodes > 10
        assert re.search(r'<li class="d[1-9]">', text)
        known = (await client.get(f"{base}/compaction", params={"window": "4000", "provider": "<i>"})).text
        assert "3,600" in words(known)
        assert 'value="4000"' in known
        # From a summary to the messages that it stands for, and to what it was made of.
        folds = await laser.compaction(filled.main).lcm.list(limit=200)
        parent = max(folds.folds, key=lambda fold: fold.rows)
        assert parent.children
        assert parent.rows > 20
        page = (await client.get(f"{base}/lcm/{parent.number}", params={"limit": 9})).text
        assert {f"{base}/lcm/{child}" for child in parent.children} <= set(links(page, "/lcm/"))
        seen: list[str] = re.findall(r"row (\d+)", page)
        for _ in range(10):
            if not (more := links(page, "after=")):
                break
            page = (await client.get(more[0])).text
            seen += re.findall(r"row (\d+)", page)
        wanted = [seq for first, last in parent.spans for seq in range(first, last + 1)]
        assert [int(seq) for seq in seen] == wanted
        assert (await client.get(f"{base}/lcm/999")).status_code == 404
        assert (await client.get(f"{base}/lcm/1", params={"after": "<b>"})).status_code == 400
        assert (await client.get(f"{base}/compaction", params={"window": "-1"})).status_code == 400


async def test_strategy_of_somebody_else(laser: ls.Laser) -> None:
    """A strategy that only the program has: what the log holds is shown all the same."""

    class Own(ls.Rolling):
        name = "own <s>"

    session = await laser.sessions().start()
    desk = Desk(laser, session.id, ls.StrategyRegistry([Own()], default=Own.name))
    await desk.talk(30)
    await desk.compaction.compact("own <s>", window=4_000)
    await desk.compaction.switch(None)
    await desk.compaction.switch("own <s>")
    async with browse(laser) as client:
        for path in ("compaction", "frames"):
            answer = await client.get(f"/{TOKEN}/s/{session.id}/{path}")
            assert answer.status_code == 200
            assert "strategy 'own <s>' is not here" in words(answer.text)
            assert path == "frames" or "saved" in words(answer.text)


async def test_frames(laser: ls.Laser) -> None:
    filled = await fill(laser)
    base = f"/{TOKEN}/s/{filled.plain}/frames"
    async with browse(laser) as client:
        for provider in (None, "anthropic", "openai-responses"):
            query = {"window": "16000"} | ({} if provider is None else {"provider": provider})
            text = (await client.get(base, params=query)).text
            pictures = list(dict.fromkeys(links(text, ".png")))
            shown = await laser.compaction(filled.plain).preview(window=16_000, provider=provider)
            assert len(pictures) == sum(one.kind == "frame" for one in shown.inputs) > 0
            assert "archive of the older conversation" in words(text)
            for address in pictures:
                answer = await client.get(address)
                assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
                with Image.open(io.BytesIO(answer.content)) as picture:
                    assert picture.width > 1_000
        assert (await client.get(f"{base}/99.png")).status_code == 404
        assert (await client.get(f"/{TOKEN}/s/{filled.main}/frames/0.png")).status_code == 404
        assert "no pictures; the strategy is lcm" in (await client.get(f"/{TOKEN}/s/{filled.main}/frames")).text


async def test_prompts(laser: ls.Laser) -> None:
    filled = await fill(laser, turns=6)
    traces = await lp.read_traces(laser.context(filled.main), 200)
    async with browse(laser) as client:
        text = (await client.get(f"/{TOKEN}/s/{filled.main}/prompts")).text
        assert "prompts of 2 turns" in text
        drawing = text[text.index("<svg") : text.index("</svg>")]
        bars = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="[\d.]+" height="([\d.]+)" class="k(\d+)"', drawing)
        assert len(bars) == sum(len(trace.categories) for trace in traces)
        # A bar is as high as its tokens; those of a turn stand on each other.
        heights = [float(height) for _, _, height, _ in bars]
        counts = [one.tokens for trace in traces for one in trace.categories]
        assert heights == pytest.approx([count * sum(heights) / sum(counts) for count in counts], abs=0.2)
        ends: dict[str, float] = {}
        for left, top, height, _ in bars:
            assert float(top) + float(height) == pytest.approx(ends.get(left, 272.0), abs=0.15)
            ends[left] = float(top)
        assert len(ends) == 2
        assert all(0 <= int(colour) < COLOURS for *_, colour in bars)
        assert drawing.count('class="broke"') == 1
        assert drawing.count('class="measured"') == drawing.count('class="cached"') == 1
        assert "in 2,000, out 20, cache read 1,000, cache write 0" in words(text)
        assert "identity" in words(text)
        one = (await client.get(f"/{TOKEN}/s/{filled.main}/prompts", params={"last": "1"})).text
        assert "prompts of 1 turns" in one


async def test_looking_writes_nothing(laser: ls.Laser) -> None:
    filled = await fill(laser, turns=10)
    # A fork's past is summarised; its own context begins without that until somebody works with it.
    fork = await (await laser.sessions().open(filled.main)).fork()
    before = {topic.name: topic.records for topic in await laser.topics()}
    async with browse(laser) as client:
        for path in ("", "/transcript", "/context", "/compaction", "/frames", "/prompts"):
            assert (await client.get(f"/{TOKEN}/s/{fork.id}{path}")).status_code == 200
        for path in ("", "/transcript", "/context", "/compaction", "/frames", "/prompts", "/lcm/1"):
            # So small a window would be compacted at once by a program that is about to call the model.
            answer = await client.get(f"/{TOKEN}/s/{filled.main}{path}", params={"window": "500"})
            assert answer.status_code == 200
    assert {topic.name: topic.records for topic in await laser.topics()} == before
    compaction = laser.compaction(filled.main)
    seen = await compaction.preview(window=500)
    assert seen.observation == await compaction.observe(window=500)
    assert sum(one.tokens for one in seen.inputs) == seen.observation.tokens > 500
    assert {topic.name: topic.records for topic in await laser.topics()} == before


async def test_what_the_session_compactor_did(laser: ls.Laser) -> None:
    session = await laser.sessions().start("compacted")
    desk = Desk(laser, session.id, ls.StrategyRegistry())
    await desk.talk(30)
    await lp.SessionCompactor(laser, ls.ExtractiveSummarizer()).compact(session)
    model = lp.ModelSelection("openai", "openai_responses", "gpt-<5>")

    async def native(messages: object, model: lp.ModelSelection) -> bytes:
        return b'[{"type":"compaction","encrypted_content":"secret"}]'

    async with browse(laser) as client:
        before = words((await client.get(f"/{TOKEN}/s/{session.id}/compaction")).text)
        assert "history (1)" in before
        assert "of which summaries stand for 100" in before
        assert "opaque state" not in before
        settings = lp.CompactionSettings(mode="native")
        await lp.SessionCompactor(laser, settings=settings, native=native).compact(session, model)
        text = (await client.get(f"/{TOKEN}/s/{session.id}/compaction")).text
        assert "opaque state of a provider" in words(text)
        assert "openai, openai_responses, gpt-<5>" in words(text)
        assert "100 messages, the last one at" in words(text)
        assert "secret" not in text
