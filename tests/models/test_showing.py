"""What a person may see of native items, read again from the bytes that were kept."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from laser.models import (
    API_KINDS,
    CONTENT_TYPE,
    ApiKind,
    ImagePart,
    TextPart,
    encode_content,
    parse_reply,
    visible_text,
)
from tests.models import answers
from tests.properties import examples


@pytest.mark.parametrize("api_kind", API_KINDS)
def test_the_same_as_when_it_was_read(api_kind: ApiKind) -> None:
    reply = parse_reply(api_kind, json.dumps(answers.ANSWERS[api_kind]).encode())
    kinds = {item.kind for item in reply.items}
    assert {"message", "reasoning", "tool_call"} <= kinds
    for item in reply.items:
        shown = visible_text(api_kind, item.payload)
        assert shown == item.text
        assert bool(shown) == (item.kind == "message" or (item.kind == "reasoning" and bool(item.text)))
    words = "".join(visible_text(api_kind, item.payload) for item in reply.items if item.kind == "message")
    assert words == reply.text


REFUSED: dict[ApiKind, Any] = {
    "openai_responses": {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
    "chat_completions": {"role": "assistant", "content": None, "refusal": "No."},
}


@pytest.mark.parametrize("api_kind", REFUSED)
def test_why_it_was_refused(api_kind: ApiKind) -> None:
    assert visible_text(api_kind, json.dumps(REFUSED[api_kind]).encode()) == "No."


@pytest.mark.parametrize("api_kind", API_KINDS)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    ["type", "text", "content", "role", "refusal", "reasoning_details", "summary", "thinking"]
                ),
                inner,
            )
        ),
        max_leaves=12,
    )
)
@examples(60)
def test_any_json_has_some_text(api_kind: ApiKind, value: Any) -> None:
    assert isinstance(visible_text(api_kind, json.dumps(value).encode()), str)


def test_refusals() -> None:
    for payload in (b"", b"{", b"\xff", b"[" * 10_000):
        with pytest.raises(ls.CodecError):
            visible_text("openai_responses", payload)
    with pytest.raises(ls.InvalidError, match="api_kind"):
        visible_text("telepathy", b"{}")  # type: ignore[arg-type]
    with pytest.raises(ls.InvalidError, match="payload"):
        visible_text("openai_responses", "{}")  # type: ignore[arg-type]


def test_entries() -> None:
    assert ls.NewEntry("user", "grüß".encode()).visible() == "grüß"
    assert (
        ls.NewEntry("assistant", orjson.dumps(answers.CITED), api="openai_responses").visible()
        == answers.CITED["content"][0]["text"]
    )
    parts = encode_content([TextPart("look"), ImagePart(url="https://example.org/a.png"), TextPart("at this")])
    assert ls.NewEntry("user", parts, media_type=CONTENT_TYPE).visible() == "look\nat this"
    ref = ls.ContentRef("0" * 64, "text/plain")
    assert ls.NewEntry("user", ref=ref).visible() == ""
    with pytest.raises(ls.CodecError):
        ls.NewEntry("assistant", b"plain", api="chat_completions").visible()
