"""References to content on the log."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laser.errors import CodecError, InvalidError
from laser.model.content import ContentEntry, ContentRef
from laser.wire.blocks import STRING, Header, encode_block
from laser.wire.content import MAX_ENTRY_BYTES, decode_entry, encode_entry
from laser.wire.frames import CONTENT_FRAME, EMPTY_FRAME, is_reference, unframe
from tests.properties import decodes, examples

DIGEST = "0123456789abcdef" * 4
GOLDEN = (
    b'{"v":1,"digest":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","media_type":"text/plain",'
    b'"size":5,"kind":"message","source":"append","entry_id":"01M8P2H6GS2AJ33AGTW0R65B8E","provider_kind":"a.b",'
    b'"tokens":2,"preview":"hello","origin":"user:ann","made_from":{"digest":'
    b'"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","media_type":"audio/wav"}}'
)
ENTRY = ContentEntry(
    ContentRef(DIGEST, "text/plain", "a.b"),
    5,
    2,
    "message",
    "append",
    "01M8P2H6GS2AJ33AGTW0R65B8E",
    "hello",
    "user:ann",
    ContentRef(DIGEST, "audio/wav"),
)

TEXT = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=60)
REFS = st.builds(
    ContentRef,
    st.binary(min_size=32, max_size=32).map(bytes.hex),
    st.sampled_from(["a/b", "text/plain; charset=utf-8", 'x/y;z="q q"']),
    st.none() | TEXT,
)
ENTRIES = st.builds(
    ContentEntry,
    REFS,
    st.integers(0, 2**53 - 1),
    st.none() | st.integers(0, 2**53 - 1),
    TEXT,
    TEXT,
    TEXT,
    st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
    st.none() | TEXT,
    st.none() | REFS,
)


def test_golden() -> None:
    """Readable for ever."""
    assert decode_entry(GOLDEN) == ENTRY
    assert encode_entry(ENTRY) == GOLDEN


@examples(200)
@given(ENTRIES)
def test_what_is_encoded_is_decoded(entry: ContentEntry) -> None:
    data = encode_entry(entry)
    assert len(data) <= MAX_ENTRY_BYTES
    assert decode_entry(data) == entry


@examples(300)
@given(st.binary(max_size=200), st.integers(0, len(GOLDEN)))
def test_hostile_bytes(noise: bytes, at: int) -> None:
    for data in (noise, GOLDEN[:at] + noise + GOLDEN[at:], GOLDEN[:at]):
        decodes(lambda data=data: decode_entry(data), CodecError)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"v":1', b'"v":2'),
        (b'"v":1,', b""),
        (b'"v":1', b'"v":true'),
        (b'"size":5', b'"size":-1'),
        (b'"size":5', b'"size":5.5'),
        (b'"size":5', b'"size":9007199254740992'),
        (DIGEST.encode(), DIGEST.upper().encode()),
        (DIGEST.encode(), DIGEST[:-1].encode()),
        (b"text/plain", b"text"),
        (b'"kind":"message"', b'"kind":""'),
        (b'"kind":"message"', b'"kind":"a\\u0000"'),
        (b'"preview":"hello"', b'"preview":"%b"' % (b"x" * 1_025)),
        (b'"preview":"hello"', b'"preview":"\\ud800"'),
        (b'"origin":"user:ann"', b'"surprise":1'),
    ],
)
def test_what_is_not_a_reference(old: bytes, new: bytes) -> None:
    assert old in GOLDEN
    with pytest.raises(CodecError, match=r"^content reference: "):
        decode_entry(GOLDEN.replace(old, new))


def test_a_long_one_is_not_looked_at() -> None:
    with pytest.raises(CodecError, match=f"has {MAX_ENTRY_BYTES + 1} bytes"):
        decode_entry(b"x" * (MAX_ENTRY_BYTES + 1))


def test_frames() -> None:
    block = encode_block([CONTENT_FRAME])
    assert is_reference(block)
    assert unframe(block, b"payload") == b"payload"
    assert not is_reference(encode_block([EMPTY_FRAME]))
    assert not is_reference(encode_block([Header(b"x", STRING, b"laser.frame")]))
    assert not is_reference(b"")


def test_references_are_values() -> None:
    assert ENTRY.refs == (ENTRY.ref, ENTRY.provenance_ref)
    assert msgspec.structs.replace(ENTRY, provenance_ref=None).refs == (ENTRY.ref,)
    assert len({ENTRY.ref, ContentRef(DIGEST, "text/plain", "a.b")}) == 1
    for number in (-1, 1.5, True, 2**53):
        with pytest.raises(InvalidError):
            msgspec.structs.replace(ENTRY, size=number)
