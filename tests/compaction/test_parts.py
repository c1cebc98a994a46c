"""Units, sizes, images and words: the pure parts."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from laser.compaction.images import FILE_TOKENS, IMAGE_TOKENS, image_facts, read_dimensions
from laser.compaction.lcm.searching import TextIndex
from laser.compaction.planning import plan_eviction, plan_stubs
from laser.compaction.rows import Row, make_row
from laser.compaction.sizes import message_cost, text_cost
from laser.compaction.text import clip, payload_text, user_text
from laser.compaction.transcript import History
from laser.compaction.units import UnitFold, units_of
from laser.model.transcript import SourceRef
from laser.testing.compaction_cases.base import assistant, call, result, system, user
from laser.testing.strategies import chat_histories, payloads


def rows_of(*messages: bytes) -> tuple[Row, ...]:
    return tuple(make_row(SourceRef("s", place * 3), payload, message_cost) for place, payload in enumerate(messages))


def spans(*messages: bytes) -> list[tuple[int, int, int, bool]]:
    return [(unit.start, unit.stop, unit.last, unit.open) for unit in units_of(rows_of(*messages))]


def test_units_begin_with_words_of_the_user() -> None:
    assert spans() == []
    assert spans(user("a")) == [(0, 1, 0, False)]
    assert spans(system("s"), assistant("hi"), user("a"), assistant("b"), user("c")) == [
        (0, 4, 0, False),
        (4, 5, 1, False),
    ]
    assert spans(assistant("only"), call("1"), result("1", "x")) == [(0, 3, 0, False)]
    back = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n", "input": {}}]}
    anthropic = [json.dumps(value).encode() for value in (use, back)]
    assert spans(user("a"), *anthropic, user("b")) == [(0, 3, 0, False), (3, 4, 1, False)]


def test_plain_texts_are_units_and_other_items_are_not() -> None:
    assert spans(b"hello", b"how are you?", b"fine") == [(0, 1, 0, False), (1, 2, 1, False), (2, 3, 2, False)]
    assert spans(user("a"), b"plain", assistant("b")) == [(0, 1, 0, False), (1, 3, 1, False)]
    reasoning = b'{"type":"reasoning","summary":[],"encrypted_content":"x"}'
    assert spans(user("a"), reasoning, call("1"), result("1", "x")) == [(0, 4, 0, False)]


def test_pairs_across_units_make_partners_and_open_calls_stay_open() -> None:
    assert spans(user("a"), call("1"), user("b"), result("1", "x"), user("c")) == [
        (0, 2, 1, False),
        (2, 4, 1, False),
        (4, 5, 2, False),
    ]
    assert spans(user("a"), call("1"), user("b")) == [(0, 2, 0, True), (2, 3, 1, False)]
    interim = result("1", "soon", status="pending")
    assert spans(user("a"), call("1"), interim, user("b")) == [(0, 3, 0, True), (3, 4, 1, False)]
    assert spans(user("a"), call("1"), interim, user("b"), result("1", "x")) == [(0, 3, 1, False), (3, 5, 1, False)]
    # An id that was used again: a result belongs to the nearest call before it.
    assert [unit[3] for unit in spans(user("a"), call("1"), user("b"), call("1"), result("1", "x"))] == [True, False]


@given(chat_histories(24), st.integers(0, 400))
def test_a_plan_never_splits_a_pair(history: list[dict[str, Any]], tail: int) -> None:
    rows = rows_of(*(json.dumps(message).encode() for message in history))
    found = History(rows, units_of(rows), ())
    plan = plan_eviction(found, bytes(len(rows)), tail)
    gone = {place for number in plan.evicted for place in range(found.units[number].start, found.units[number].stop)}
    gone -= {place for place, row in enumerate(rows) if row.pinned}
    waiting: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        for name in row.results:
            if waiting.get(name):
                assert (waiting[name].pop() in gone) == (place in gone)
        for name in row.calls:
            waiting.setdefault(name, []).append(place)
    assert not {place for places in waiting.values() for place in places} & gone
    assert [unit.start for unit in found.units[1:]] == [unit.stop for unit in found.units[:-1]]
    if found.units:
        assert len(found.units) - 1 not in plan.evicted
        assert plan.tail == tuple(row for place, row in enumerate(rows) if place not in gone and not row.pinned)


def test_as_many_messages_stay_as_were_asked_for() -> None:
    turn = (user("a"), call("1"), result("1", "x"), assistant("b"))
    rows = rows_of(*turn, *turn, *turn, user("c"))
    history = History(rows, units_of(rows), ())

    def left(keep_last: int) -> int:
        plan = plan_eviction(history, bytes(len(rows)), 0, (), keep_last)
        assert plan.boundary == len(rows) - len(plan.tail)
        return len(plan.tail)

    assert [left(count) for count in (0, 1, 2, 5, 6, 9, 10, 100)] == [1, 1, 5, 5, 9, 9, 13, 13]
    # Whatever they cost.
    assert len(plan_eviction(history, bytes(len(rows)), 10_000, (), 1).tail) == 1
    # What another summary stands for is not in the tail.
    assert plan_eviction(history, bytes(len(rows)), 0, {1}, 100).boundary == 8


def test_the_largest_results_are_left_out_first_and_the_newest_last() -> None:
    rows = rows_of(
        user("a"),
        call("1"),
        result("1", "x" * 4_000),
        call("2"),
        result("2", "y" * 8_000),
        call("3"),
        result("3", "z" * 9_000),
    )
    assert plan_stubs(rows, (), 10_000, message_cost) == ()
    assert plan_stubs(rows, (), 4_000, message_cost) == (12,)
    assert plan_stubs(rows, (), 2_600, message_cost) == (6, 12)
    assert plan_stubs(rows, (), 100, message_cost) == (6, 12, 18)
    # What is left out stays left out.
    assert plan_stubs(rows, (6,), 10_000, message_cost) == (6,)


TEXTS = {
    "你好世界" * 25: 100,
    "今日はとても良い天気ですね" * 8: 100,
    "안녕하세요 세계" * 10: 60,
    "🔥🎉💯": 8,
    "👨‍👩‍👧‍👦": 17,
    "Привет, как дела?": 9,
    "plain English words in a row": 6,
}
"""Texts with what a tokenizer of the older kind counts at most, by hand of its published table."""


@pytest.mark.parametrize("text", TEXTS)
def test_estimates_are_not_below_a_tokenizer(text: str) -> None:
    assert text_cost(text.encode()) >= TEXTS[text]


def test_arguments_and_ids_count_and_blanks_do_not_matter() -> None:
    assert message_cost(call("c", "x" * 40_000)) > 10_000
    assert text_cost(("あ" * 200).encode()) >= 200


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + bytes(50)


def jpeg(width: int, height: int) -> bytes:
    thumb = b"\xff\xe1" + struct.pack(">H", 5_002) + bytes(5_000)
    frame = b"\xff\xc2" + struct.pack(">HBHHB", 17, 8, height, width, 3) + bytes(9)
    return b"\xff\xd8\xff\xff\xe0" + struct.pack(">H", 16) + bytes(14) + thumb + frame


def webp(kind: bytes, width: int, height: int) -> bytes:
    if kind == b"VP8X":
        body = bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    elif kind == b"VP8L":
        body = b"\x2f" + (width - 1 | height - 1 << 14).to_bytes(4, "little")
    else:
        body = b"\x30\x01\0\x9d\x01\x2a" + struct.pack("<HH", width, height)
    return b"RIFF" + bytes(4) + b"WEBP" + kind + struct.pack("<I", len(body)) + body + bytes(9)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (png(640, 480), (640, 480)),
        (jpeg(1_024, 33), (1_024, 33)),
        (b"GIF89a" + struct.pack("<HH", 12, 34), (12, 34)),
        (webp(b"VP8 ", 300, 200), (300, 200)),
        (webp(b"VP8L", 300, 200), (300, 200)),
        (webp(b"VP8X", 30_000, 2), (30_000, 2)),
        (b"", (0, 0)),
        (b"%PDF-1.7", (0, 0)),
        (png(640, 480)[:18], (0, 0)),
        (jpeg(9, 9)[:300], (0, 0)),
        (b"\xff\xd8" + b"\xff" * 500, (0, 0)),
    ],
)
def test_dimensions(data: bytes, expected: tuple[int, int]) -> None:
    assert read_dimensions(data) == expected
    text = base64.b64encode(data + bytes(300_000)).decode()
    facts = image_facts(f"data:image/x;base64,{text}", "")
    assert (facts.width, facts.height) == expected or data == jpeg(9, 9)[:300] or len(data) == 18
    assert 0 < facts.tokens <= 2 * IMAGE_TOKENS


@given(
    st.binary(max_size=200), st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8", b"GIF89a", b"RIFF1234WEBPVP8L", b""])
)
def test_no_bytes_are_too_odd(data: bytes, head: bytes) -> None:
    width, height = read_dimensions(head + data)
    assert width >= 0
    assert height >= 0


@given(payloads())
@example(b'{"a":null,"a":null,"a":{"b":null,"b":null,"b":null},"a":{"b":null,"b":null,"image":null}}')
def test_any_payload_has_words_and_a_size(payload: bytes) -> None:
    assert isinstance(payload_text(payload), str)
    assert isinstance(user_text(payload), str)
    assert message_cost(payload) >= len(payload) // 4
    payload_text(payload).encode("utf-8", "replace")


def test_files_cost_the_same_however_long() -> None:
    data = base64.b64encode(bytes(2_000_000)).decode()
    for part in (
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": data}},
        {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{data}"}},
        {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}},
    ):
        payload = json.dumps({"role": "user", "content": [part]}).encode()
        assert FILE_TOKENS <= message_cost(payload) < FILE_TOKENS + 100
        assert data[:30] not in payload_text(payload)


def test_words_of_every_shape() -> None:
    assert payload_text(call("x", '{"q": 1}')) == '-> look({"q": 1})'
    assert payload_text(b'{"type":"function_call","name":"f","arguments":"{}","call_id":"c"}') == "-> f({})"
    assert payload_text(b'{"type":"function_call_output","call_id":"c","output":"done"}') == "done"
    assert payload_text(b'{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]}') == "hm"
    parts = [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "b"}, {"type": "refusal", "refusal": "c"}]
    assert payload_text(json.dumps({"role": "assistant", "content": parts}).encode()) == "a\nb\nc"
    mixed = [{"type": "tool_result", "tool_use_id": "t", "content": "secret"}, {"type": "text", "text": "mine"}]
    payload = json.dumps({"role": "user", "content": mixed}).encode()
    assert payload_text(payload) == "secret\nmine"
    assert user_text(payload) == "mine"
    assert payload_text("grüße".encode()) == "grüße"
    assert payload_text(b'{"a": 1}') == '{"a": 1}'
    assert clip("abcdef", 6) == "abcdef"
    assert clip("a" * 100, 10).startswith("aaaaaaa [… 90 characters left out …] aa")


def test_search_follows_rows_that_come_and_go() -> None:
    rows = rows_of(*(user(f"word {number} end") for number in range(5_000)))
    index = TextIndex()
    assert list(index.find(rows[:10], "word 9", 0, 10)) == [9]
    assert list(index.find(rows, "WORD 4999", 0, 5_000)) == [4_999]
    assert len(list(index.find(rows, "word", 0, 5_000))) == 5_000
    assert list(index.find(rows, "word", 2_040, 2_060)) == list(range(2_040, 2_060))
    assert list(index.find(rows[100:], "word 100 ", 0, 4_900)) == [0]
    assert list(index.find(rows[100:200], "word 150", 0, 100)) == [50]
    assert list(index.find((), "word", 0, 0)) == []


@given(chat_histories(24))
def test_units_of_a_growing_transcript_are_those_of_the_whole(history: list[dict[str, Any]]) -> None:
    rows = rows_of(*(json.dumps(message).encode() for message in history))
    fold = UnitFold()
    for count, row in enumerate(rows, 1):
        fold.take(row)
        assert fold.units() == units_of(rows[:count])
