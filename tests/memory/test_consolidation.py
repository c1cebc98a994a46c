"""Consolidation keeps the newest, and loses nothing when a summary does not come about."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

import laser as ls
from tests.memory.making import C1, C2, texts

pytestmark = pytest.mark.anyio


async def _filled(laser: ls.Laser) -> ls.Memory:
    memory = laser.memory("n")
    for number in range(1, 7):
        await memory.remember(f"{number}", kind="message" if number % 2 == 0 else "fact")
    return memory


def joined(bodies: list[bytes]) -> bytes:
    return b"+".join(bodies)


async def test_the_newest_stay(laser: ls.Laser) -> None:
    memory = await _filled(laser)
    report = await memory.consolidate(4)
    assert (report.summarized, report.pruned, report.summary_id) == (0, 2, None)
    for folded in (False, True):
        assert texts(await memory.recall(folded=folded)) == ["6", "5", "4", "3"]
    assert (await memory.consolidate(4)).pruned == 0
    assert (await memory.consolidate(0)).pruned == 4
    assert await memory.recall() == []


@pytest.mark.parametrize(
    ("prune", "pruned", "left"), [(False, 2, ["6+4+2", "6", "5", "4", "3"]), (True, 3, ["6+4+2", "5", "3", "1"])]
)
async def test_with_a_summary(laser: ls.Laser, prune: bool, pruned: int, left: list[str]) -> None:
    memory = await _filled(laser)
    report = await memory.consolidate(4, summarizer=joined, prune_summarized=prune)
    assert (report.summarized, report.pruned) == (3, pruned)
    for folded in (False, True):
        found = await memory.recall(folded=folded)
        assert texts(found) == left
        assert (found[0].id, found[0].kind) == (report.summary_id, "summary")
    # A summary is durable: the next pass leaves it.
    await memory.consolidate(0)
    assert texts(await memory.recall()) == ["6+4+2"]


async def test_what_stays_anyway(laser: ls.Laser) -> None:
    memory = laser.memory("n")
    await memory.remember("for good", durable=True, kind="message")
    await memory.facts(customer="c").set("k", "v")
    await memory.remember("gone", kind="message")
    report = await memory.consolidate(0, summarizer=joined, prune_summarized=True)
    assert (report.summarized, report.pruned) == (1, 1)
    assert sorted(texts(await memory.recall())) == ["for good", "gone", "k: v"]
    assert report.summary_id is not None
    assert (await memory.recall())[0].id == report.summary_id


async def test_without_messages_nobody_is_asked(laser: ls.Laser) -> None:
    memory = laser.memory("n")
    await memory.remember("a fact")

    def never(bodies: list[bytes]) -> bytes:
        raise AssertionError

    report = await memory.consolidate(0, summarizer=never, prune_summarized=True)
    assert (report.summarized, report.pruned) == (0, 1)


class Failed(Exception):
    """What a summarizer raises."""


async def _raises(bodies: list[bytes]) -> bytes:
    raise Failed


FAILURES: dict[str, tuple[Any, type[Exception]]] = {
    "raises": (_raises, Failed),
    "empty": (lambda bodies: b"", ls.InvalidError),
    "blank": (lambda bodies: " \n", ls.InvalidError),
    "no text": (lambda bodies: None, ls.InvalidError),
    "too long": (lambda bodies: b"x" * 2_000_000, ls.LimitError),
}


@pytest.mark.parametrize(("summarizer", "error"), FAILURES.values(), ids=FAILURES.keys())
async def test_a_summary_that_fails_costs_nothing(
    memory_laser: ls.Laser, summarizer: Any, error: type[Exception]
) -> None:
    memory = await _filled(memory_laser)
    before = await memory.recall()
    with pytest.raises(error):
        await memory.consolidate(0, summarizer=summarizer, prune_summarized=True)
    for folded in (False, True):
        assert await memory.recall(folded=folded) == before


async def test_a_summary_that_is_cancelled_costs_nothing(memory_laser: ls.Laser) -> None:
    memory = await _filled(memory_laser)
    before = await memory.recall()
    with anyio.move_on_after(0.05) as scope:
        await memory.consolidate(0, summarizer=lambda _: anyio.sleep_forever(), prune_summarized=True)
    assert scope.cancelled_caught
    assert await memory.recall() == before


async def test_one_scope_of_many(laser: ls.Laser) -> None:
    memory = laser.memory("n")
    for number in range(4):
        await memory.remember(f"{number}", conversation=(C1, C2)[number % 2], kind="message")
    await laser.context(C1).memory(memory).consolidate(0, summarizer=joined, prune_summarized=True)
    assert texts(await memory.recall(conversation=C1)) == ["2+0"]
    assert texts(await memory.recall(conversation=C2)) == ["3", "1"]


async def test_copies_in_other_conversations_go_too(laser: ls.Laser) -> None:
    memory = laser.memory("n")
    for where in (C1, C2, None):
        await memory.remember("same", dedup=True, conversation=where, kind="message")
    await memory.remember("newer", kind="message")
    assert (await memory.consolidate(1)).pruned == 1
    for folded in (False, True):
        for where in (None, C1, C2):
            found = texts(await memory.recall(conversation=where, folded=folded))
            assert found == (["newer"] if where is None else [])


@pytest.mark.parametrize("newest", [0, 3])
async def test_more_than_one_look_gives(laser: ls.Laser, monkeypatch: pytest.MonkeyPatch, newest: int) -> None:
    """However many there are: what is older than a look's worth goes too, and goes into the summary."""
    monkeypatch.setattr("laser.memory.consolidation.MAX_MEMORY_RESULTS", 2)
    memory = laser.memory("n")
    for number in range(9):
        await memory.remember(f"{number}", kind="message", conversation=(C1, C2)[number % 2])
    report = await memory.consolidate(newest, summarizer=joined)
    assert (report.summarized, report.pruned) == (9, 9 - newest)
    left = texts(await memory.recall(strategy="recent"))
    assert left == ["8+7+6+5+4+3+2+1+0", *"876"[:newest]]
