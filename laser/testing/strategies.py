"""Hypothesis strategies for what laser takes and stores. They need the package ``hypothesis`` (extra ``testing``).

::

    @given(payloads(), provenances())
    def test_mine(payload, provenance): ...
"""

from __future__ import annotations

import json
from typing import Any, Final, Literal

import msgspec
from hypothesis import strategies as st

from laser.model.ids import ulid_text
from laser.model.provenance import Provenance
from laser.wire.blocks import RAW, STRING, Header, encode_block
from laser.wire.provenance import encode_provenance

__all__ = [
    "Operation",
    "chat_histories",
    "conversation_ids",
    "header_blocks",
    "headers",
    "json_values",
    "mutations",
    "names",
    "operations",
    "payloads",
    "provenances",
    "texts",
]

_WIDTHS: Final = {3: 1, 4: 1, 5: 2, 6: 4, 7: 8, 8: 16, 9: 1, 10: 2, 11: 4, 12: 8, 13: 16, 14: 4, 15: 8}
_U64: Final = 2**64 - 1


def conversation_ids() -> st.SearchStrategy[str]:
    """Conversation ids, canonical: 26 characters."""
    return st.integers(0, 2**128 - 1).map(ulid_text)


def names() -> st.SearchStrategy[str]:
    """Names of streams, topics and folds that are allowed, blanks, dots and other scripts among them."""
    plain = st.characters(exclude_categories=("Cc", "Cs"))
    return st.text(plain, min_size=1, max_size=40).map(str.strip).filter(lambda name: name and not name.isdecimal())


def texts(max_size: int = 20) -> st.SearchStrategy[str]:
    """Texts of provenance fields: without control characters, and not ``*``."""
    plain = st.characters(exclude_categories=("Cs", "Cc"))
    return st.text(plain, min_size=1, max_size=max_size).filter(lambda text: text != "*")


def payloads(max_size: int = 400) -> st.SearchStrategy[bytes]:
    """Payloads: any bytes, text, JSON, and nothing at all."""
    return st.one_of(
        st.binary(max_size=max_size),
        st.text(max_size=max_size // 4).map(lambda text: text.encode("utf-8", "replace")),
        json_values().map(lambda value: json.dumps(value).encode()),
        st.sampled_from([b"", b"\0", b"\xef\xbb\xbf", b"\xff\xfe", b"[" * 300, b"{}"]),
    )


def json_values() -> st.SearchStrategy[Any]:
    """Values that JSON holds as they are: no NaN, no number beyond 64 bits, text keys, no lone surrogates."""
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    leaf = (
        st.none()
        | st.booleans()
        | st.integers(-(2**63), _U64)
        | st.floats(allow_nan=False, allow_infinity=False)
        | text
    )
    return st.recursive(
        leaf, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4), max_leaves=12
    )


def provenances() -> st.SearchStrategy[Provenance]:
    """Provenances with any of their fields; a few are over ``MAX_PROVENANCE_BYTES``."""
    numbers = st.none() | st.integers(0, _U64)
    positions = st.tuples(st.integers(0, 2**32 - 1), st.integers(0, _U64)).map(lambda at: f"{at[0]}:{at[1]}")
    return st.builds(
        Provenance,
        conversation_id=conversation_ids(),
        causal_parent=st.none() | positions,
        parent_conversation_id=st.none() | conversation_ids(),
        root_conversation_id=st.none() | conversation_ids(),
        agent=st.none() | texts(),
        target_agent_id=st.none() | texts(),
        idempotency_key=st.none() | texts(),
        correlation_id=st.none() | texts(),
        deadline_micros=numbers,
        fence_token=numbers,
        input_tokens=numbers,
        output_tokens=numbers,
        cost_usd=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    )


def headers() -> st.SearchStrategy[Header]:
    """Single headers of every kind, as any program may write them."""

    def of(kind: int) -> st.SearchStrategy[tuple[int, bytes]]:
        width = _WIDTHS.get(kind)
        value = st.binary(min_size=1, max_size=24) if width is None else st.binary(min_size=width, max_size=width)
        return st.tuples(st.just(kind), value)

    key = st.sampled_from([STRING, RAW]).flatmap(of)
    value = st.sampled_from([RAW, STRING, *_WIDTHS]).flatmap(of)
    return st.builds(lambda k, v: Header(k[1], v[0], v[1], k[0]), key, value)


def header_blocks() -> st.SearchStrategy[bytes]:
    """Header blocks: laser's own, those of other programs, and damaged ones."""
    foreign = st.lists(headers(), max_size=6, unique_by=lambda one: (one.key_kind, one.key)).map(encode_block)
    # Fields of 20 characters can take 80 bytes each: some of them together are over the limit, and no block.
    short = st.builds(
        Provenance, conversation_id=conversation_ids(), agent=st.none() | texts(), fence_token=st.integers(0, _U64)
    )
    own = short.map(encode_provenance)
    sound = own | foreign
    return sound | sound.flatmap(mutations)


def mutations(data: bytes) -> st.SearchStrategy[bytes]:
    """The bytes with up to four changes: a bit turned, a piece cut out, put in or repeated, the end cut off."""

    @st.composite
    def mutated(draw: st.DrawFn) -> bytes:
        changed = bytearray(data)
        for _ in range(draw(st.integers(1, 4))):
            if not changed:
                return bytes(changed)
            at = draw(st.integers(0, len(changed) - 1))
            length = draw(st.integers(1, 8))
            match draw(st.sampled_from(["flip", "drop", "insert", "repeat", "end"])):
                case "flip":
                    changed[at] ^= 1 << draw(st.integers(0, 7))
                case "drop":
                    del changed[at : at + length]
                case "insert":
                    changed[at:at] = draw(st.binary(min_size=1, max_size=8))
                case "repeat":
                    changed[at:at] = changed[at : at + length]
                case _:
                    del changed[at:]
        return bytes(changed)

    return mutated()


def chat_histories(max_messages: int = 12) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Chat histories in the OpenAI shape, with tool calls, results in any order, and some left open."""

    @st.composite
    def history(draw: st.DrawFn) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        number = 0
        while len(found) < max_messages and draw(st.booleans() if found else st.just(True)):
            kind = draw(st.sampled_from(["user", "assistant", "system", "call"]))
            if kind != "call":
                found.append({"role": kind, "content": draw(st.text(max_size=20))})
                continue
            calls = [f"call-{number + index}" for index in range(draw(st.integers(1, 3)))]
            number += len(calls)
            function = {"name": draw(st.sampled_from(["weather", "pay"])), "arguments": "{}"}
            found.append(
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": call, "type": "function", "function": function} for call in calls],
                }
            )
            answered = draw(st.permutations(calls))[: draw(st.integers(0, len(calls)))]
            found += ({"role": "tool", "tool_call_id": call, "content": "done"} for call in answered)
        return found

    return history()


class Operation(msgspec.Struct, frozen=True):
    """One step of a random run.

    Attributes:
        kind: what to do. conversation: the number of one of a few conversations.
        count: how many messages an append writes, or a fetch wants.
    """

    kind: Literal["append", "fetch", "fold", "checkpoint", "snapshot", "crash", "reopen", "purge", "grow"]
    conversation: int = 0
    count: int = 1


def operations(conversations: int = 3, min_size: int = 1, max_size: int = 30) -> st.SearchStrategy[list[Operation]]:
    """Random runs of operations, appends more often than the rest, over a few conversations."""
    kinds = st.sampled_from(
        [
            *["append"] * 6,
            "fetch",
            "fetch",
            "fold",
            "fold",
            "checkpoint",
            "snapshot",
            "crash",
            "reopen",
            "purge",
            "grow",
        ]
    )
    step = st.builds(Operation, kinds, st.integers(0, conversations - 1), st.integers(1, 7))
    return st.lists(step, min_size=min_size, max_size=max_size)
