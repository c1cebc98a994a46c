"""The kept corpus through every decoder, and a decoder that breaks its contract is seen."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest

from laser.errors import CodecError
from laser.wire.blocks import decode_block
from tests.fuzz.peak import reset_peak
from tests.fuzz.running import CORPUS, fuzz, missing
from tests.fuzz.targets import MAX_MEMORY_BYTES, TARGETS, Target, attempt

_INPUTS = sorted(path for path in CORPUS.rglob("*") if path.is_file())


def test_every_target_has_a_corpus() -> None:
    assert {path.parent.name for path in _INPUTS} == set(TARGETS)


@pytest.mark.parametrize("path", _INPUTS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_value_or_a_typed_error(path: Path) -> None:
    data = path.read_bytes()
    target = TARGETS[path.parent.name]
    attempt(target, data)
    # Tracing takes several times as long, so its time says nothing.
    tracemalloc.start()
    try:
        with suppress(*target.errors):
            target.decode(data)
        assert tracemalloc.get_traced_memory()[1] < MAX_MEMORY_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_of_one_decoder_through_the_others(name: str) -> None:
    for path in _INPUTS:
        attempt(TARGETS[name], path.read_bytes())


def _loops(data: bytes) -> object:
    return sum(range(20_000_000)) if data.startswith(b"loop") else None


@pytest.mark.parametrize(
    ("target", "data", "error"),
    [
        (Target(decode_block), b"\x02", CodecError),
        (Target(lambda data: data.decode(), (CodecError,)), b"\xff", UnicodeDecodeError),
        (Target(_loops), b"loop", AssertionError),
    ],
    ids=["an error that the contract does not name", "an error of another kind", "too long"],
)
def test_a_broken_decoder_is_seen(target: Target, data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        attempt(target, data)


@pytest.mark.parametrize("held", [0, 300 << 20])
def test_a_decoder_that_takes_too_much_memory_is_seen(held: int) -> None:
    """Whatever the process, or the one that started it, held before."""
    if not reset_peak():
        pytest.skip("this system does not let a process begin its peak of memory anew")
    assert len(b"x" * held) == held
    with pytest.raises(AssertionError, match="bytes of memory"):
        attempt(Target(lambda data: b"x" * (100 << 20)), b"grow")


@pytest.mark.parametrize("name", ["raw_page", "record"])
def test_fuzzing_works(name: str) -> None:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    done = fuzz(name, runs=3_000)
    assert done.broken == ""
    assert done.inputs >= 3_000
