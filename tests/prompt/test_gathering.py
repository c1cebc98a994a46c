"""Providers: in parallel, each within its time; what fails is named."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

import laser as ls
import laser.prompt as lp
from laser import limits
from tests.prompt.making import IDENTITY, builder, says

pytestmark = pytest.mark.anyio


async def hang(turn: lp.TurnContext) -> str:
    await anyio.sleep_forever()
    raise AssertionError


async def fail(turn: lp.TurnContext) -> str:
    raise RuntimeError("the secret of a customer")


async def flood(turn: lp.TurnContext) -> str:
    return "x" * (limits.MAX_PROVIDER_CHARS + 1)


async def test_hanging_failing_and_flooding_in_one_build() -> None:
    bad = [
        lp.FunctionProvider("hangs", hang, timeout=0.2),
        lp.FunctionProvider("fails", fail),
        lp.FunctionProvider("floods", flood),
    ]
    began = time.monotonic()
    prompt = await builder(*bad, says("good", "as it should")).build(message="hello")
    assert time.monotonic() - began < 20
    assert "as it should" in prompt.system_volatile
    status = {report.name: report.status for report in prompt.trace.providers}
    assert {status[name] for name in ("hangs", "fails", "floods")} == {"late", "failed", "flooded"}
    assert (status["hangs"], status["fails"], status["good"]) == ("late", "failed", "ok")
    assert [warning.split()[0] for warning in prompt.trace.warnings] == ["hangs", "fails", "floods"]
    # The trace names the kind of failure, never its words.
    assert "secret" not in repr(prompt.trace)
    assert next(report for report in prompt.trace.providers if report.name == "fails").reason == "RuntimeError"


@pytest.mark.parametrize(("function", "said"), [(hang, "0.1 seconds"), (fail, "RuntimeError"), (flood, "characters")])
async def test_a_required_one_fails_the_turn_by_name(function: object, said: str) -> None:
    needed = lp.FunctionProvider("needed", function, required=True, timeout=0.1 if function is hang else 60)  # type: ignore[arg-type]
    slow = lp.FunctionProvider("slow", hang, timeout=60)
    began = time.monotonic()
    with pytest.raises(ls.ProviderError, match="needed") as caught:
        await builder(needed, slow).build(message="hello")
    assert time.monotonic() - began < 30
    assert caught.value.provider == "needed"
    assert said in str(caught.value)
    if function is fail:
        assert isinstance(caught.value.__cause__, RuntimeError)


async def test_providers_run_at_once() -> None:
    meeting = 0
    everybody = anyio.Event()

    async def meet(turn: lp.TurnContext) -> str:
        nonlocal meeting
        meeting += 1
        if meeting == 3:
            everybody.set()
        await everybody.wait()
        return "met"

    providers = [lp.FunctionProvider(f"p{number}", meet) for number in range(3)]
    prompt = await builder(*providers).build()
    assert [report.status for report in prompt.trace.providers if report.name.startswith("p")] == ["ok"] * 3


async def test_fragments_beyond_the_limit() -> None:
    async def many(turn: lp.TurnContext) -> Sequence[lp.Fragment]:
        return [lp.Fragment("many", "x", 50)] * count

    count = limits.MAX_PROVIDER_FRAGMENTS
    provider = lp.FunctionProvider("many", many)
    first = await builder(provider, tokens=100_000).build()
    count += 1
    second = await builder(provider, tokens=100_000).build()
    reports = [next(one for one in built.trace.providers if one.name == "many") for built in (first, second)]
    assert [report.status for report in reports] == ["ok", "flooded"]


async def test_characters_at_the_limit() -> None:
    provider = says("much", "x" * limits.MAX_PROVIDER_CHARS)
    prompt = await builder(provider, tokens=100_000).build()
    assert next(one for one in prompt.trace.providers if one.name == "much").status == "ok"
    assert prompt.trace.evicted[0].provider == "much"


async def test_the_double_gate() -> None:
    class Fussy(lp.BaseProvider):
        name = "fussy"

        def applies(self, turn: lp.TurnContext) -> bool:
            return turn.customer == "ann"

        async def provide(self, turn: lp.TurnContext) -> str:
            return "for ann"

    open_to_all = builder(Fussy())
    assert "for ann" in (await open_to_all.build(customer="ann")).system
    assert "for ann" not in (await open_to_all.build(customer="bob")).system
    closed = builder(Fussy(), providers=["identity"])
    prompt = await closed.build(customer="ann")
    assert "for ann" not in prompt.system
    assert prompt.system.startswith(IDENTITY)
    # The notice about fences goes with the fences, not with the list.
    assert lp.FENCE_NOTICE in prompt.system
    status = {report.name: report.status for report in prompt.trace.providers}
    assert status["fussy"] == "not_allowed"
    status = {report.name: report.status for report in (await open_to_all.build()).trace.providers}
    assert status["fussy"] == "not_applicable"


async def test_a_gate_that_fails() -> None:
    class Broken(lp.BaseProvider):
        name = "broken"

        def applies(self, turn: lp.TurnContext) -> bool:
            raise KeyError("x")

    assert (await builder(Broken()).build()).trace.warnings == ("broken failed and is left out",)

    class Needed(Broken):
        required = True

    with pytest.raises(ls.ProviderError, match="broken"):
        await builder(Needed()).build()


@pytest.mark.parametrize("given", [7, b"bytes", [1], [lp.Fragment("x", "y", 1, "no such layer")]])  # type: ignore[arg-type]
async def test_something_that_is_no_fragment(given: object) -> None:
    async def wrong(turn: lp.TurnContext) -> object:
        return given

    prompt = await builder(lp.FunctionProvider("wrong", wrong)).build()  # type: ignore[arg-type]
    assert next(one for one in prompt.trace.providers if one.name == "wrong").status == "failed"


@pytest.mark.parametrize(
    "providers", [[lp.Identity], ["text"], [says("a", "x"), says("a", "y")], [says("a", "x"), object()]]
)
def test_refused_providers(providers: list[object]) -> None:
    with pytest.raises(ls.InvalidError) as caught:
        lp.PromptBuilder(None, providers)  # type: ignore[arg-type]
    assert caught.value.argument == "providers"


async def test_refused_arguments() -> None:
    for call in (
        lambda: builder().build(message=7),  # type: ignore[arg-type]
        lambda: builder().build(tools={"a": 1}),  # type: ignore[arg-type]
        lambda: builder().build(ls.new_conversation_id()),
        lambda: builder(lp.History()).build(history=[{"role": object()}]),
        lambda: builder(lp.History()).build(history=[7]),  # type: ignore[list-item]
    ):
        with pytest.raises(ls.InvalidError):
            await call()
    with pytest.raises(ls.InvalidError, match="tokens"):
        lp.PromptBuilder(None, [], tokens=len)  # type: ignore[arg-type]
    for wrong in (1.5, -1, None):

        class Counter:
            name = "wrong"

            def count(self, text: str, given: Any = wrong) -> int:
                return given  # type: ignore[no-any-return]

            def __call__(self, message: ls.ContextMessage) -> int:
                return 0

        with pytest.raises(ls.InvalidError, match="whole number"):
            lp.PromptBuilder(None, [], tokens=Counter())


async def test_cancelling_a_build() -> None:
    with anyio.move_on_after(0.05) as scope:
        await builder(lp.FunctionProvider("hangs", hang, timeout=60)).build()
    assert scope.cancelled_caught
