"""Random uses of content do what a model in plain sets does."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from tests.properties import examples

DATA = st.integers(0, 7)
HOLDERS = st.sampled_from(["a", "a/1", "b"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), DATA),
        st.tuples(st.just("name"), DATA, st.sets(DATA, max_size=3)),
        st.tuples(st.just("hold"), HOLDERS, st.sets(DATA, min_size=1, max_size=3)),
        st.tuples(st.just("release"), HOLDERS, st.none() | st.sets(DATA, min_size=1, max_size=2)),
        st.tuples(st.just("below")),
        st.tuples(st.just("collect")),
        st.tuples(st.just("reopen")),
    ),
    max_size=25,
)


def data(number: int) -> bytes:
    """Odd ones are too large for the catalog."""
    return b"%d" % number * (70_000 if number % 2 else 3)


class Model:
    """What must be there. A content names only those of higher numbers: no circles."""

    def __init__(self) -> None:
        self.children: dict[int, set[int]] = {}
        self.holds: dict[str, set[int]] = {}

    def collect(self) -> int:
        kept: set[int] = set()
        waiting = [number for held in self.holds.values() for number in held]
        while waiting:
            number = waiting.pop()
            if number not in kept:
                kept.add(number)
                waiting += self.children[number]
        gone = len(self.children) - len(kept)
        self.children = {number: named for number, named in self.children.items() if number in kept}
        return gone


async def play(url: str, steps: list[tuple[object, ...]], refs: dict[int, ls.ContentRef]) -> None:
    model = Model()
    laser = await ls.Laser.connect(url)
    content = laser.content("t")
    for step in steps:
        match step:
            case ("put", int(number)):
                assert await content.put(data(number)) == refs[number]
                model.children.setdefault(number, set())
            case ("name", int(number), set(named)):
                below = {child for child in named if child > number}
                call = content.put(data(number), children=[refs[child] for child in below])
                if await allowed(call, below <= model.children.keys()):
                    model.children.setdefault(number, set()).update(below)
            case ("hold", str(holder), set(numbers)):
                call = content.hold(holder, [refs[number] for number in numbers])
                if await allowed(call, numbers <= model.children.keys()):
                    model.holds.setdefault(holder, set()).update(numbers)
            case ("release", str(holder), numbers):
                held = model.holds.get(holder, set())
                gone = set(held) if numbers is None else held & numbers  # type: ignore[operator]
                chosen = None if numbers is None else [refs[number] for number in numbers]  # type: ignore[union-attr]
                assert await content.release(holder, chosen) == len(gone)
                held -= gone
            case ("below",):
                assert await content.release_below("a/") == len(model.holds.pop("a/1", ()))
            case ("collect",):
                report = await content.collect(grace=0)
                assert (report.removed, report.complete) == (model.collect(), True)
            case ("reopen",) if url != "memory:":
                await laser.aclose()
                laser = await ls.Laser.connect(url)
                content = laser.content("t")
    for number, ref in refs.items():
        if number in model.children:
            assert (await content.get(ref) == data(number)) is True
            head = await content.head(ref)
            assert head.holders == sum(number in held for held in model.holds.values())
            assert head.parents == sum(number in named for named in model.children.values())
            assert head.children == len(model.children[number])
        else:
            assert not await allowed(content.head(ref), False)
    await laser.aclose()


async def allowed(call: object, expected: bool) -> bool:
    """Whether a call went through, which must be as expected."""
    try:
        await call  # type: ignore[misc]
    except ls.NotFoundError:
        assert not expected
        return False
    assert expected
    return True


def _refs() -> dict[int, ls.ContentRef]:
    async def put() -> dict[int, ls.ContentRef]:
        async with ls.Laser.connect("memory:") as laser:
            return {number: await laser.content("t").put(data(number)) for number in range(8)}

    return anyio.run(put)


REFS = _refs()


@examples(120)
@given(STEPS)
def test_in_memory(steps: list[tuple[object, ...]]) -> None:
    anyio.run(play, "memory:", steps, REFS)


@examples(15)
@given(STEPS)
def test_in_a_directory(steps: list[tuple[object, ...]]) -> None:
    with TemporaryDirectory() as directory:
        anyio.run(play, f"embedded:{Path(directory) / 'data'}", steps, REFS)
