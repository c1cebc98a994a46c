"""Waiting for the driver's answers: cancelled, late, failed, and in tools that look at what a task waits for."""

from __future__ import annotations

import asyncio
import gc

import anyio
import pytest

from laser.engines.iggy.answers import Answer, Expired, Watch

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def _answer(after: float = 60) -> tuple[asyncio.Future[str], Answer[str]]:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[str] = loop.create_future()
    return future, Answer(loop, future, loop.time() + after)


async def _wait(answer: Answer[str]) -> str:
    return await answer


async def test_an_answer_comes_out() -> None:
    future, answer = _answer()
    asyncio.get_running_loop().call_soon(future.set_result, "answer")
    assert await answer == "answer"
    assert await Answer(asyncio.get_running_loop(), future, 0.0) == "answer", "one that is there already"


async def test_an_error_comes_out_with_its_own_traceback() -> None:
    future, answer = _answer()
    asyncio.get_running_loop().call_soon(future.set_exception, RuntimeError("refused"))
    with pytest.raises(RuntimeError, match="refused"):
        await answer


async def test_a_cancelled_task_leaves_the_call_under_way() -> None:
    future, answer = _answer()
    with anyio.move_on_after(0.01) as scope:
        await answer
    assert scope.cancelled_caught
    assert not future.done()
    future.set_result("later")
    await asyncio.sleep(0)
    assert future.result() == "later"


async def test_a_task_can_be_cancelled_before_it_waits() -> None:
    future, answer = _answer()
    task = asyncio.ensure_future(_wait(answer))
    task.cancel("why")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not future.done()


async def test_the_error_of_a_call_that_nobody_waits_for_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    future, answer = _answer()
    task = asyncio.ensure_future(_wait(answer))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    future.set_exception(RuntimeError("refused"))
    await asyncio.sleep(0)
    del future, answer, task
    gc.collect()
    assert not caplog.records


async def test_the_answer_wins_over_a_cancellation_that_comes_with_it() -> None:
    future, answer = _answer()
    task = asyncio.ensure_future(_wait(answer))
    await asyncio.sleep(0)
    future.set_result("answer")
    assert not answer.cancel(), "it is too late to say that it was cancelled"
    assert await task == "answer"


async def test_a_late_answer_ends_the_wait() -> None:
    watch = Watch(asyncio.get_running_loop())
    (_, early), (future, late) = _answer(0.01), _answer()
    watch.add(early)
    watch.add(late)
    with anyio.fail_after(60), pytest.raises(Expired):
        await early
    assert not late.done()
    asyncio.get_running_loop().call_soon(future.set_result, "answer")
    assert await late == "answer"
    watch.remove(late)
    watch.remove(late)


async def test_tools_see_what_a_task_waits_for() -> None:
    future, answer = _answer()
    async with anyio.create_task_group() as group:
        group.start_soon(_wait, answer)
        await anyio.wait_all_tasks_blocked()
        assert not answer.done()
        future.set_result("answer")
