"""A strategy as the compaction of an active context."""

from __future__ import annotations

import json
import re

import anyio
import pytest

import laser as ls
from laser import models
from laser.ports.summarizer import Summary, SummaryRequest
from tests.session.talking import talk

pytestmark = pytest.mark.anyio


class Keeper:
    """Keeps the numbers of all that it is shown."""

    def __init__(self) -> None:
        self.requests: list[SummaryRequest] = []

    async def summarize(self, request: SummaryRequest) -> Summary:
        self.requests.append(request)
        found = re.findall(r"(?:question|answer) \d+", f"{request.previous or ''} {request.text}")
        return Summary("kept " + ", ".join(dict.fromkeys(found)))


async def long_talk(session: ls.Session, turns: int, start: int = 0) -> None:
    for number in range(start, start + turns):
        async with session.run([ls.NewEntry("user", f"question {number} {'word ' * 30}".encode())]) as run:
            async with await run.turn() as turn:
                made = [
                    ls.NewEntry("tool_call", b'{"q":1}', call_id=f"c{number}"),
                    ls.NewEntry("tool_result", b"found it " * 20, call_id=f"c{number}"),
                ]
                await turn.finish(made)
            async with await run.turn() as turn:
                await turn.finish([ls.NewEntry("assistant", f"answer {number}".encode())])


def kinds(state: ls.ActiveState) -> list[str]:
    return [one.kind for one in state.entries]


async def test_older_turns_become_one_summary(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    await session.active.add(0, ls.NewEntry("instruction", b"be brief", key="a"))
    await long_talk(session, 10)
    before = await session.active.read()
    keeper = Keeper()
    state = await session.compact(ls.strategy_compactor(keeper, keep_last=8))
    assert kinds(state) == ["instruction", "summary", "summary", *["user", "tool_call", "tool_result", "assistant"] * 2]
    assert state.entries[3:] == before.entries[-8:]
    summary, quotes = state.entries[1].text, state.entries[2].text
    assert all(f"question {number}," in summary and f"answer {number}" in summary for number in range(8))
    assert "\n> question 7 word" in quotes
    assert state.tokens is None or state.tokens < sum(len(one.text) for one in before.entries) // 4
    # Roles are as a summarizer knows them, and nothing that stays is summarised.
    assert keeper.requests[0].text.startswith("user: question 0 word")
    assert "be brief" not in keeper.requests[0].text
    assert "question 8" not in keeper.requests[0].text
    # The next one folds that one in.
    await long_talk(session, 10, 10)
    state = await session.compact(ls.strategy_compactor(keeper, keep_last=8))
    assert kinds(state).count("summary") == 2
    assert all(f"question {number}," in state.entries[1].text for number in range(18))
    assert "summary so far: (laser: summary of the conversation so far" in keeper.requests[-1].text
    # And the session goes on: what is summarised is sent as text.
    async with session.run([ls.NewEntry("user", b"and now?")]) as run, await run.turn() as turn:
        assert [one.kind for one in turn.context.entries][:3] == ["instruction", "summary", "summary"]
        await turn.finish([ls.NewEntry("assistant", b"done")])


async def test_lcm_gives_its_summaries(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    await long_talk(session, 30)
    state = await session.compact(ls.strategy_compactor(Keeper(), ls.Lcm(), window=3_000))
    summaries = [one for one in state.entries if one.kind == "summary"]
    assert len(summaries) > 1
    assert {one.entry.source for one in summaries} == {"compaction:lcm"}
    assert kinds(state)[len(summaries)] == "user"
    left = [one.text.split(" word")[0] for one in state.entries if one.kind == "user"]
    found = {name for one in summaries for name in re.findall(r"question \d+", one.text)}
    assert found | set(left) == {f"question {number}" for number in range(30)}
    assert not found & set(left)


async def test_what_has_to_stay(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    await session.active.add(
        0, ls.NewEntry("skill", b"pdf", key="pdf"), ls.NewEntry("catalog", b"v1", key="tools", tokens=1)
    )
    await long_talk(session, 3)
    async with session.run([ls.NewEntry("user", b"do it")]) as run, await run.turn() as turn:
        await turn.finish([ls.NewEntry("tool_call", b"{}", call_id="open")])
    await long_talk(session, 8, 3)
    state = await session.active.read()
    await session.active.add(state.revision, ls.NewEntry("user", b"unread"))
    state = await session.compact(ls.strategy_compactor(Keeper(), keep_last=0))
    texts = [one.text for one in state.entries]
    assert texts[:2] == ["pdf", "v1"]
    assert texts[-1] == "unread"
    assert "{}" in texts, "the call waits for its result"
    assert kinds(state).count("assistant") == 0
    assert sum("question 0" in text for text in texts) == 1


@pytest.mark.parametrize("api", models.API_KINDS)
async def test_native_answers_are_read(laser: ls.Laser, api: models.ApiKind) -> None:
    native = {
        "openai_responses": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "%"}]},
        "anthropic_messages": {"type": "text", "text": "%"},
        "chat_completions": {"role": "assistant", "content": "%"},
    }[api]
    session = await laser.sessions().start()
    for number in range(6):
        asked = ls.NewEntry("user", f"question {number} {'word ' * 30}".encode())
        async with session.run([asked]) as run, await run.turn() as turn:
            answer = json.dumps(native).replace("%", f"answer {number} {'word ' * 30}").encode()
            await turn.finish([ls.NewEntry("assistant", answer, api=api)])
    parts = models.encode_content(
        [models.TextPart("question 6"), models.ImagePart(data=b"x" * 500, media_type="image/png")]
    )
    seen = ls.NewEntry("user", parts, media_type=models.CONTENT_TYPE)
    async with session.run([seen]) as run, await run.turn() as turn:
        await turn.finish()
    await talk(session, 1, "last")
    keeper = Keeper()
    state = await session.compact(ls.strategy_compactor(keeper, keep_last=1))
    sent = keeper.requests[0].text
    assert all(f"assistant: answer {number} word" in sent for number in range(6))
    assert "user: question 6" in sent
    assert "eHh4" not in sent, "bytes of an image"
    assert kinds(state)[0] == "summary"


async def test_what_fails_leaves_everything(laser: ls.Laser) -> None:
    class Down:
        async def summarize(self, request: SummaryRequest) -> Summary:
            raise RuntimeError("down")

    class Long:
        async def summarize(self, request: SummaryRequest) -> Summary:
            return Summary("word " * 3_000)

    session = await laser.sessions().start()
    await long_talk(session, 10)
    before = await session.active.read()
    for summarizer, error in ((Down(), ls.SummaryError), (Long(), ls.SummaryError)):
        with pytest.raises(error):
            await session.compact(ls.strategy_compactor(summarizer, keep_last=8))
        assert (await session.active.read()).entries == before.entries
    with pytest.raises(ls.BudgetError, match="window"):
        await session.compact(ls.strategy_compactor(Keeper(), window=100, reserve=100))
    with pytest.raises(ls.InvalidError, match="pictures"):
        await session.compact(ls.strategy_compactor(Keeper(), ls.Snapcompact(), keep_last=8))
    assert (await session.active.read()).entries == before.entries
    with anyio.move_on_after(0.05):

        class Never:
            async def summarize(self, request: SummaryRequest) -> Summary:
                await anyio.sleep_forever()
                raise AssertionError

        await session.compact(ls.strategy_compactor(Never(), keep_last=8))
    state = await session.active.read()
    assert (state.entries, state.pending) == (before.entries, None)
    # Nothing that may be folded: nothing is asked, and nothing changes.
    keeper = Keeper()
    assert (await session.compact(ls.strategy_compactor(keeper, keep_last=1_000))).entries == before.entries
    assert keeper.requests == []


def test_refused_arguments() -> None:
    for arguments in ({"window": 0}, {"keep_last": -1}, {"reserve": -1}, {"timeout": 0}, {"summary_tokens": 0}):
        with pytest.raises(ls.InvalidError):
            ls.strategy_compactor(Keeper(), **arguments)  # type: ignore[arg-type]
    with pytest.raises(ls.InvalidError, match="summarizer"):
        ls.strategy_compactor(None)  # type: ignore[arg-type]
    with pytest.raises(ls.InvalidError, match="strategy"):
        ls.strategy_compactor(Keeper(), "rolling")  # type: ignore[arg-type]
