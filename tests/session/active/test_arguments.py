"""Bad arguments are refused before anything is written, and what others wrote does no harm."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

import laser as ls
from laser.models import CONTENT_TYPE, ModelSelection
from laser.session.active.events import ACTIVE_TOPIC, RunStarted, TurnFinished, TurnStarted, encode_active
from laser.session.active.fold import ActiveFold, Saved

pytestmark = pytest.mark.anyio

TEXT = ls.NewEntry("user", b"hi")
Call = Callable[[ls.Session, Any], Awaitable[object]]


async def _finish(session: ls.Session, value: Any) -> None:
    async with session.run() as run, await run.turn() as turn:
        await turn.finish(value)


async def _fail(session: ls.Session, value: Any) -> None:
    async with session.run() as run, await run.turn() as turn:
        await turn.fail(value)


async def _count(session: ls.Session, value: Any) -> None:
    async with session.run() as run, await run.turn() as turn:
        await turn.finish([], {"input_tokens": value})


async def _model(session: ls.Session, value: Any) -> None:
    async with session.run([TEXT]) as run, await run.turn() as turn:
        await turn.request(value)


async def _options(session: ls.Session, value: Any) -> None:
    async with session.run([TEXT]) as run, await run.turn() as turn:
        await turn.request(ModelSelection("p", "chat_completions", "m"), value)


async def _keep(session: ls.Session, value: Any) -> None:
    async with ls.Laser.connect("memory:") as laser:
        await session.keep(laser.content("tenant"), value)


async def _begin(session: ls.Session, value: Any) -> None:
    session.run(value)


async def _compact(session: ls.Session, value: Any) -> None:
    async def account(state: ls.ActiveState) -> ls.Account:
        return ls.Account(value, [ls.NewEntry("summary", b"short")])

    await session.compact(account)


CALLS: dict[str, tuple[Call, list[Any], str]] = {
    "run": (_begin, ["", b"", 0, TEXT, [TEXT, "hi"]], "inputs"),
    "finish": (_finish, ["text", 7, TEXT, [None]], "outputs"),
    "fail": (_fail, [b"text", {1}, [1]], "outputs"),
    "model": (_model, [None, "gpt-5"], "model"),
    "options": (_options, [{}, 3], "options"),
    "usage": (_count, [-1, 1.5, True, 2**63], "usage"),
    "finish_run": (lambda session, value: session.active.finish_run(value), [None, 7, "", "x" * 256, "a\nb"], "run"),
    "fail_compaction": (lambda session, value: session.active.fail_compaction(value), [None, 7, ""], "request"),
    "refresh": (
        lambda session, value: session.active.refresh("files", value),
        [7, "text", [ls.NewEntry("skill", b"a", key="k"), ls.NewEntry("skill", b"b", key="k")]],
        "entries",
    ),
    "removed": (_compact, [["1"], [0], [True], [2**63], [1.0]], "compactor"),
    "interim": (
        lambda session, value: session.active.steer(ls.NewEntry("tool_result", b"x", call_id="c", interim=value)),
        ["yes", None, 1],
        "entry",
    ),
    "bytes": (
        lambda session, value: session.active.steer(value),
        [
            ls.NewEntry("user", b"a\xff"),
            ls.NewEntry("tool_result", b"\x89PNG", call_id="c"),
            ls.NewEntry("user", b"a\xff", media_type="text/markdown"),
            ls.NewEntry("user", b"{}", media_type=CONTENT_TYPE),
        ],
        "entry: payload is not",
    ),
    "keep": (lambda session, value: session.keep(value), [None, 7, "tenant", ls.Content], "content"),
    "keep_refs": (_keep, [None, 7, b"ref", [], "ref"], "refs"),
    "fork": (lambda session, value: session.fork(content=value), [7, "tenant", ls.Content], "content"),
    "clone": (lambda session, value: session.clone(content=value), [7, "tenant", ls.Content], "content"),
    "read_run": (lambda session, value: session.read_run(value), [None, [], {}, 7, b"run"], "run"),
    "origin_of": (lambda session, value: session.origin_of(value), [None, "0:1"], "message"),
}


@pytest.mark.parametrize("name", CALLS)
async def test_bad_arguments_are_not_written(memory_laser: ls.Laser, name: str) -> None:
    session = await memory_laser.sessions().start()
    call, values, argument = CALLS[name]
    for value in values:
        with pytest.raises(ls.InvalidError) as caught:
            await call(session, value)
        assert str(caught.value).startswith(argument), value
    if name not in ("finish", "fail", "model", "options", "usage", "removed"):
        with pytest.raises(ls.NotFoundError):
            await memory_laser.topic(ACTIVE_TOPIC)
    assert (await session.active.read()).is_idle


async def test_a_run_is_begun_once(memory_laser: ls.Laser) -> None:
    session = await memory_laser.sessions().start()
    other = session.run()
    async with session.run([TEXT]) as run:
        with pytest.raises(ls.BusyError):
            await other.start()
    with pytest.raises(ls.ClosedError, match="was begun already"):
        async with run:
            raise AssertionError("it began again")
    async with other:
        pass
    state = await session.active.read()
    assert state.is_idle
    assert state.runs == 2


def test_counts_of_others_do_not_grow_beyond_what_can_be_saved() -> None:
    fold = ActiveFold()
    fold.apply(RunStarted("r"))
    for number in range(3):
        fold.apply(TurnStarted("r", str(number)))
        fold.apply(TurnFinished("r", str(number), (), {"input_tokens": 2**63 - 1, "output_tokens": number}))
    saved = msgspec.json.decode(msgspec.json.encode(fold.save()), type=Saved)
    assert saved.run is not None
    assert saved.run.usage == {"input_tokens": 2**63 - 1, "output_tokens": 3}
    assert encode_active(TurnFinished("r", "t", (), dict(saved.run.usage)))
