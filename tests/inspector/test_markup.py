"""Hostile text stays text, in every place of every page."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from laser.errors import InvalidError
from laser.inspector.cursors import pack, unpack
from laser.inspector.markup import Markup, tag, visible
from tests.inspector.making import ALL, HOSTILE, TOKEN, VISIBLE, browse, fill, words

PATHS = ("", "/transcript", "/context", "/compaction", "/lcm/1", "/frames", "/prompts")


class Elements(HTMLParser):
    """Elements and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.data: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.data.append(data)


@pytest.mark.anyio
@pytest.mark.parametrize("engine_url", ["memory", "embedded"], indirect=True)
async def test_hostile_texts(laser: ls.Laser) -> None:
    """No element, attribute or control character of the log's texts gets into a page; the texts do."""
    filled = await fill(laser)
    shown: list[str] = []
    async with browse(laser) as client:
        addresses = [f"/{TOKEN}/", f"/{TOKEN}/s/{filled.child}", f"/{TOKEN}/?state=%3Cscript%3E%22'%3E"]
        addresses += [f"/{TOKEN}/s/{filled.main}{path}" for path in PATHS]
        addresses += [f"/{TOKEN}/s/{filled.main}/compaction?window=4000&provider=%22%3E%3Cscript%3E%00"]
        addresses += [f"/{TOKEN}/s/{'%3Cscript%3E' * 3}", f"/{TOKEN}/open?id=%3Cscript%3E%E2%80%AE"]
        for address in addresses:
            text = (await client.get(address)).text
            page = Elements(text)
            assert not {"script", "style", "iframe", "object", "textarea"} & set(page.names), address
            assert page.names.count("svg") == 0 or "prompts" in address
            assert page.names.count("img") == 0
            for name, value in page.attributes:
                assert not name.startswith("on"), address
                assert name != "style"
                assert name not in ("href", "src", "action") or value.startswith(f"/{TOKEN}/"), (address, value)
            assert text == visible(text), address
            shown.append(words(text))
    transcript = shown[4]
    for hostile in (*HOSTILE[:5], HOSTILE[8], VISIBLE):
        assert hostile in transcript
    assert HOSTILE[0] in shown[0]
    assert HOSTILE[1] in shown[0]
    assert "\\u001b[31mred" in shown[1]


@given(st.text(), st.text())
def test_any_text(body: str, value: str) -> None:
    page = Elements(tag("p", body, title=value))
    assert page.names == ["p"]
    assert page.attributes == [("title", visible(value))]
    assert "".join(page.data) == visible(body)


@given(st.text())
def test_what_is_made_of_markup_is_text_again(text: str) -> None:
    made = tag("b", "x")
    assert tag("p", made) == "<p><b>x</b></p>"
    assert tag("p", f"{made}{text}").startswith("<p>&lt;b&gt;")
    assert tag("p", made + text).startswith("<p>&lt;b&gt;")
    assert type(tag("p", [made, (None, 1, False)])) is Markup


@pytest.mark.parametrize(
    "address",
    ["javascript:alert(1)", "//evil.example/", "/\\evil.example", "http://evil.example", "data:,x", "", " /x"],
)
def test_addresses_stay_here(address: str) -> None:
    for name in ("href", "src", "action"):
        with pytest.raises(ValueError, match="address"):
            tag("a", **{name: address})


@pytest.mark.parametrize("name", ["a b", "a>", "", "1", "a\n", "onx=1 y"])
def test_names(name: str) -> None:
    with pytest.raises(ValueError, match="no name"):
        tag(name)
    with pytest.raises(ValueError, match="no name"):
        tag("p", **{name: 1})


def test_visible() -> None:
    assert visible("a\tb\nc é 日本 👩‍👧 مرحبا") == "a\tb\nc é 日本 👩‍👧 مرحبا"
    assert visible("\ud800\U000e0041\ufeff\r\x9b") == "\\xd800\\xe0041\\xfeff\\x0d\\x9b"
    assert VISIBLE in visible(ALL)


@given(st.text(st.characters(codec="utf-8")))
def test_cursors(text: str) -> None:
    packed = pack(text)
    assert packed is not None
    assert unpack(packed, "before") == text


def test_hostile_cursors() -> None:
    assert pack(None) is unpack(None, "before") is unpack("", "before") is None
    bomb = pack("0" * 5_000_000)
    assert bomb is not None
    assert len(bomb) < 10_000
    whole = pack('{"a":1}')
    assert whole is not None
    for text in (bomb, whole[:-8], "ä", "====", "\x00", "eJwDAAAAAAE"):
        with pytest.raises(InvalidError, match=r"^before: ") as refused:
            unpack(text, "before")
        assert refused.value.argument == "before"
