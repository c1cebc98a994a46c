"""Conversation ids: what is one, and sources of new ones under bad clocks, threads and forks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from laser.model.ids import UlidSource, new_record_id, parse_conversation_id, ulid_bytes, ulid_text
from tests.properties import examples

ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


@pytest.mark.parametrize("text", [ID, ID.lower(), ID.swapcase(), "01arZ3NDEKTSV4RRFFQ69G5FAV"])
def test_case_does_not_matter_on_input(text: str) -> None:
    assert parse_conversation_id(text) == ID


@pytest.mark.parametrize("alias", [*"ILOUilou"])
@pytest.mark.parametrize("place", [1, 12, 25])
def test_letters_that_look_like_digits_are_refused(alias: str, place: int) -> None:
    with pytest.raises(ls.IdError):
        parse_conversation_id(ID[:place] + alias + ID[place + 1 :])


@pytest.mark.parametrize("first", [*"89ABCDEFGHJKMNPQRSTVWXYZ"])
def test_a_first_character_above_7_needs_more_than_128_bits(first: str) -> None:
    # The peer wraps these silently: 81ARZ… becomes 01ARZ…, two ids in one conversation.
    with pytest.raises(ls.IdError):
        parse_conversation_id(first + ID[1:])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        ID[:-1],
        ID + "0",
        ID + " ",
        " " + ID[1:],
        ID[:-1] + "\n",
        ID[:-1] + "-",
        "ı" * 26,
        "０" * 26,
        "0" * 10_000,
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ls.IdError) as caught:
        parse_conversation_id(text)
    assert caught.value.argument == "conversation_id"
    assert "new_conversation_id" in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("value", [None, 5, ID.encode(), [ID], object()])
def test_other_types_are_refused(value: object) -> None:
    with pytest.raises(ls.IdError):
        parse_conversation_id(value)  # type: ignore[arg-type]


@given(st.integers(0, 2**128 - 1))
@examples(200)
def test_text_and_bytes_hold_the_same_number(value: int) -> None:
    text = ulid_text(value)
    assert parse_conversation_id(text) == text
    assert int.from_bytes(ulid_bytes(text), "big") == value


def test_new_ids_are_ids_and_ascend() -> None:
    ids = [ls.new_conversation_id() for _ in range(1_000)]
    assert all(parse_conversation_id(one) == one for one in ids)
    assert ids == sorted(set(ids))
    assert 0 < new_record_id() < 2**128


@pytest.mark.parametrize("seed", [None, 5, b"x", "\ud800"])
def test_seeds_that_are_no_text_are_refused(seed: object) -> None:
    with pytest.raises(ls.IdError) as caught:
        ls.derive_conversation_id(seed)  # type: ignore[arg-type]
    assert caught.value.argument == "seed"


def test_c4_ids_ascend_when_the_clock_steps_back() -> None:
    times = iter([2_000, 2_000, 1_000, 1_000, 1_500, 2_001, 0, 5_000])
    source = UlidSource(clock=lambda: next(times))
    made = [source.next() for _ in range(8)]
    assert made == sorted(set(made))
    assert made[-1] >> 80 == 5_000


def test_c6_ids_ascend_while_the_clock_stands_still() -> None:
    source = UlidSource(clock=lambda: 7, entropy=lambda count: b"\xff" * count)
    made = [source.next() for _ in range(100)]
    assert made == sorted(set(made))


def test_c4_ids_ascend_across_threads_with_the_clock_read_inside_the_lock() -> None:
    ticks = iter(range(10**9))
    source = UlidSource(clock=lambda: 10**6 - next(ticks) // 10)
    made: list[list[int]] = [[] for _ in range(4)]

    def mint(mine: list[int]) -> None:
        mine.extend(source.next() for _ in range(500))

    threads = [threading.Thread(target=mint, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in made)
    assert len({one for mine in made for one in mine}) == 2_000


def test_c8_derived_ids_do_not_hang_on_the_hash_seed() -> None:
    code = "import laser as ls; print(ls.derive_conversation_id('ключ'))"
    made = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout.strip()
        for seed in ("0", "1", "4242")
    }
    assert made == {ls.derive_conversation_id("ключ")}


_FORKS = """
import os, signal, sys, threading, warnings
warnings.simplefilter("ignore")
import laser as ls
from laser.model.ids import new_record_id

done = threading.Event()
def mint():
    while not done.is_set():
        new_record_id()
threads = [threading.Thread(target=mint) for _ in range(3)]
for thread in threads: thread.start()
seen = []
for _ in range(60):
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(60)
        os.write(writer, b"".join(new_record_id().to_bytes(16, "big") for _ in range(3)))
        os._exit(0)
    os.close(writer)
    data = os.read(reader, 48)
    os.close(reader)
    os.waitpid(child, 0)
    seen += [data[at : at + 16] for at in (0, 16, 32)] + [new_record_id().to_bytes(16, "big") for _ in range(3)]
done.set()
for thread in threads: thread.join()
print(len(seen), len(set(seen)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forked_children_make_ids_of_their_own_even_forked_in_the_middle_of_one() -> None:
    # A lock that another thread holds at the fork stays locked in the child for good.
    done = subprocess.run([sys.executable, "-c", _FORKS], capture_output=True, text=True, timeout=250, check=True)
    assert done.stdout.split() == ["360", "360"], done.stderr
