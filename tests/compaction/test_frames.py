"""Pictures of text: legible to the last character, the same bytes for the same words, as many as a budget allows."""

from __future__ import annotations

import builtins
import io
import random
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import laser as ls
from laser.compaction.images import read_dimensions
from laser.compaction.sizes import message_cost
from laser.compaction.snapcompact.drawing import FrameCache, draw
from laser.compaction.snapcompact.font import glyphs, to_cells, to_text
from laser.compaction.snapcompact.frames import Shape, frame_budget, lay_out, payload_of, shape_for
from laser.limits import MAX_FRAMES, MAX_INLINE_FRAMES, MAX_KEPT_FRAMES
from tests.compaction.reading import alike, read_picture

WIDE = Shape(196, 56, "image")


def words(count: int, seed: int = 1) -> str:
    """Characters of ASCII and Latin-1, all of them often."""
    letters = [chr(code) for code in (*range(0x20, 0x7F), *range(0xA1, 0x100)) if code != 0xAD]
    return "".join(random.Random(seed).choices(letters, k=count - 1)) + "."


# ------------------------------------------------------------------------------------------------------ legible


def test_a_full_picture_is_read_back_to_the_last_character() -> None:
    cells = words(WIDE.cells)
    picture = draw(cells, WIDE.columns)
    assert read_dimensions(picture) == (1_568, 728)
    assert read_picture(picture) == cells


def test_a_real_text_is_read_back() -> None:
    text = "def f(x):\n\treturn f'{x!r}' # ¶ über → café\r\n" * 80 + "中文 😀 Привет, мир! Ωμέγα \\u00e9 \\n"
    read = read_picture(draw(to_cells(text), 192))
    assert read == alike(to_cells(text))
    ascii_part = read.split("\\u4e2d")[0]
    assert to_text(ascii_part) == text.split("中")[0]
    assert "\\u4e2d\\u6587 \\U0001f600" in read


def test_every_character_of_the_font_is_drawn() -> None:
    table = glyphs()
    assert len(table) > 3_000
    assert {chr(code) for code in range(0x20, 0x7F)} <= set(table)
    assert {chr(code) for code in range(0xA1, 0x100) if code != 0xAD} <= set(table)
    cells = "".join(sorted(table))
    read = read_picture(draw(cells, 100))
    wrong = [(drawn, seen) for drawn, seen in zip(cells, read, strict=True) if drawn != seen]
    # Only letters of different scripts look alike, such as the Latin and the Greek A.
    assert all(unicodedata.category(char)[0] == "L" for pair in wrong for char in pair[:1])
    assert all(table[drawn] == table[seen] for drawn, seen in wrong)
    assert {chr(code) for code in range(0x100)}.isdisjoint({drawn for drawn, _ in wrong})


def test_what_is_seen() -> None:
    picture = draw("A", 1)
    image = Image.open(io.BytesIO(picture))
    assert image.size == (8, 13)
    assert image.mode == "1"
    seen = ["".join(" #"[image.getpixel((x, y)) == 0] for x in range(8)).rstrip() for y in range(13)]
    assert seen[2:11] == ["   ##", "  #  #", *[" #    #"] * 3, " ######", *[" #    #"] * 3]


# ------------------------------------------------------------------------------------------------------ nothing lost

HOSTILE = [
    "",
    "\0\x01\x1b[31m\x7f\x85\u2028\u2029",
    "x" * 100_000,
    "\n" * 5_000,
    "中文字符 日本語 한국어 ไทย עברית العربية हिन्दी",
    "😀👩‍👩‍👧‍👦🏴\U000e0067 e\u0301 \u202e gnihton \u2066",
    "\ud800 alone \udfff, and \U0010ffff",
    "\\u0041 \\\\u0041 \\u00 \\U0001f600 \\U0001f60 \\uD83D \\u",
    "↵ → ␍ ¶ are themselves",
    "no\u00a0break, soft\u00adhyphen, en\u2002space, \ufeff",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_drawn_and_comes_back(text: str) -> None:
    cells = to_cells(text)
    assert to_text(cells) == text
    assert set(cells) <= set(glyphs())
    shown = cells[:9_000]
    if shown:
        assert read_picture(draw(shown, 196)) == alike(shown).rstrip(" ")


@given(st.text(st.characters(), max_size=60))
def test_any_text_comes_back(text: str) -> None:
    assert to_text(to_cells(text)) == text
    assert set(to_cells(text)) <= set(glyphs())


@given(st.text(st.sampled_from("\\uU0041f↵\n中"), max_size=30))
def test_what_looks_like_an_escape_comes_back(text: str) -> None:
    assert to_text(to_cells(text)) == text


def test_cells_of_texts_one_after_another_are_the_cells_of_both() -> None:
    # So that pages are drawn each for itself.
    for first in HOSTILE:
        assert to_cells(first + "\nnext") == to_cells(first) + to_cells("\nnext")


# ------------------------------------------------------------------------------------------------------ how many


@pytest.mark.parametrize(
    ("provider", "room", "max_frames", "expected"),
    [
        ("anthropic", None, None, MAX_INLINE_FRAMES),
        ("amazon-bedrock", None, None, MAX_INLINE_FRAMES),
        ("openrouter", None, None, MAX_INLINE_FRAMES),
        ("openai", None, None, MAX_INLINE_FRAMES),
        ("openai_responses", None, None, MAX_INLINE_FRAMES),
        ("google-vertex", None, None, MAX_INLINE_FRAMES),
        ("umans", None, None, 10),
        ("somebody", None, None, 5),
        (None, None, None, 5),
        ("", None, None, 5),
        # The share of the window.
        ("anthropic", 40_000, None, 26),
        ("anthropic", 1_500 * 3, None, 3),
        ("somebody", 40_000, None, 5),
        ("anthropic", 1, None, 1),
        # A setting of one's own goes before what is known of the provider, and before nothing else.
        (None, None, 12, 12),
        ("anthropic", None, 2, 2),
        ("anthropic", None, MAX_FRAMES, MAX_INLINE_FRAMES),
        ("anthropic", 3_000, 12, 2),
        (None, None, 1, 1),
    ],
)
def test_the_budget(provider: str | None, room: int | None, max_frames: int | None, expected: int) -> None:
    assert frame_budget(provider, room, max_frames, 1_500) == expected


def test_shapes() -> None:
    assert shape_for("anthropic", None) == Shape(196, 56, "image")
    assert shape_for("Bedrock", 200_000).part == "image"
    assert shape_for("openai", None) == Shape(192, 59, "image_url")
    assert shape_for("openai_responses", None).part == "input_image"
    assert shape_for(None, None) == Shape(196, 56, "image_url")
    # A small window gets smaller pictures, so that there are some.
    small = shape_for("anthropic", 800)
    assert small.columns == 196
    assert 4 <= small.lines < 10
    assert small.tokens * 4 <= 800
    assert shape_for("anthropic", 10).lines == 4


@pytest.mark.parametrize("part", ["image", "image_url", "input_image"])
def test_a_picture_costs_what_it_was_planned_with(part: Any) -> None:
    shape = Shape(196, 56, part)
    for count in (1, 195, 196, 197, 5_000, shape.cells):
        (frame,) = lay_out(words(count), shape, 5)
        payload = payload_of(frame.caption, draw(frame.cells, shape.columns), shape)
        assert message_cost(payload) == frame.tokens
    # Half of what the words cost as text.
    assert shape.tokens * 4 < shape.cells * 0.6


def test_frames_between_the_first_and_the_newest_are_dropped() -> None:
    shape = Shape(10, 2, "image")
    cells = words(20 * 7 + 5)
    whole = lay_out(cells, shape, 8)
    assert "".join(frame.cells for frame in whole) == cells
    assert "left out" not in "".join(frame.caption for frame in whole)
    for budget in range(2, 8):
        kept = lay_out(cells, shape, budget)
        assert len(kept) == budget
        assert [frame.cells for frame in kept] == [whole[0].cells, *(one.cells for one in whole[9 - budget :])]
        gone = len(cells) - sum(len(frame.cells) for frame in kept)
        assert f"; {gone} characters between this picture and the next are left out;" in kept[0].caption
        assert [one.caption for one in kept[1:]] == [one.caption for one in whole[9 - budget :]]
    (last,) = lay_out(cells, shape, 1)
    assert last.cells == whole[-1].cells
    assert "; 140 characters before this picture are left out;" in last.caption
    assert lay_out("", shape, 3) == []


def test_full_frames_stay_when_the_archive_grows() -> None:
    shape = Shape(20, 3, "image")
    cells = words(700)
    for size in range(1, 700, 37):
        before, after = lay_out(cells[:size], shape, 90), lay_out(cells, shape, 90)
        full = size // shape.cells
        assert before[:full] == after[:full]


# ------------------------------------------------------------------------------------------------------ drawing


def test_the_same_words_are_the_same_bytes() -> None:
    assert draw("some words", 30) == draw("some words", 30)
    assert draw("some words", 30) != draw("some words", 31)


def test_the_cache_is_bounded_and_gives_what_was_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = FrameCache()
    for number in range(MAX_KEPT_FRAMES + 5):
        cache.draw(f"frame {number}", 20)
    assert len(cache) == MAX_KEPT_FRAMES
    assert cache.find("frame 4", 20) is None
    assert cache.find(f"frame {MAX_KEPT_FRAMES}", 21) is None
    assert cache.find(f"frame {MAX_KEPT_FRAMES}", 20) == draw(f"frame {MAX_KEPT_FRAMES}", 20)
    # The one that was asked for longest ago goes first.
    assert cache.draw("frame 5", 20)
    cache.draw("one more", 20)
    assert cache.find("frame 5", 20) is not None
    assert cache.find("frame 6", 20) is None


def test_without_pillow_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **named: Any) -> Any:
        if name.startswith("PIL"):
            raise ImportError(name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ls.ConfigError, match=r"pip install 'laser-context\[snapcompact\]'"):
        draw("a", 1)
