"""Checkpoints as JSON: our own and the peer's, and JSON of anybody's making."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from laser.model.checkpoint import Checkpoint, PartitionMark, TopicMark
from tests.properties import decodes, examples

_u64 = st.integers(0, 2**64 - 1)
_u32 = st.integers(0, 2**32 - 1)
_names = st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=12)
_marks = st.builds(
    TopicMark,
    stream_id=_u32,
    stream_created_at_micros=_u64,
    topic_id=_u32,
    created_at_micros=_u64,
    partitions=st.dictionaries(
        _u32, st.builds(PartitionMark, _u64, st.none() | st.integers(0, 2**128 - 1)), max_size=3
    ),
)
_per_topic = st.dictionaries(_names, st.dictionaries(_u32, _u64, max_size=4), max_size=4)
checkpoints = st.builds(Checkpoint, _per_topic) | _per_topic.flatmap(
    lambda topics: st.builds(
        Checkpoint, st.just(topics), st.fixed_dictionaries(dict.fromkeys(topics, _marks)) if topics else st.none()
    )
)


@given(checkpoints)
@examples(200)
def test_round_trip(made: Checkpoint) -> None:
    read = Checkpoint.from_json(made.to_json())
    assert read == made
    assert hash(read) == hash(made)
    assert read.to_json() == made.to_json()
    assert all(read.mark(topic) == made.mark(topic) for topic in made.topics())
    assert Checkpoint.from_json(made.to_json().encode()) == made


@given(_per_topic)
@examples(100)
def test_the_same_offsets_are_the_same_bytes(per_topic: dict[str, dict[int, int]]) -> None:
    turned = {topic: dict(reversed(parts.items())) for topic, parts in reversed(per_topic.items())}
    assert Checkpoint(turned).to_json() == Checkpoint(per_topic).to_json()


def test_what_it_says() -> None:
    made = Checkpoint({"b": {1: 5, 0: 3}, "a": {}})
    assert made.topics() == {"a": {}, "b": {0: 3, 1: 5}}
    assert made.topic_offsets("b") == {0: 3, 1: 5}
    assert made.topic_offsets("c") is None
    assert not made.is_empty()
    assert Checkpoint({}).is_empty()
    assert made.to_json() == '{"per_topic":{"a":{},"b":{"0":3,"1":5}}}'
    made.topics()["b"][0] = 99
    offsets = made.topic_offsets("b")
    assert offsets is not None
    offsets.clear()
    assert made.topic_offsets("b") == {0: 3, 1: 5}
    assert made != Checkpoint({"b": {1: 5, 0: 3}})
    assert made != {"a": {}}


def test_marks_of_topics_that_are_not_covered_go() -> None:
    mark = TopicMark(1, 2, 3, 4, {0: PartitionMark(5, 6)})
    made = Checkpoint({"a": {0: 1}}, {"a": mark, "b": mark})
    assert made.mark("a") == mark
    assert made.mark("b") is None


def test_unknown_members_are_ignored() -> None:
    assert Checkpoint.from_json('{"per_topic":{"a":{"0":1}},"later":[1],"laser":null}') == Checkpoint({"a": {0: 1}})


def _with(path: list[str], value: Any) -> str:
    whole = json.loads(
        Checkpoint(
            {"a": {0: 1}}, {"a": TopicMark(1, 2, 3, 4, {0: PartitionMark(5, 6)})}
        ).to_json()
    )  # fmt: skip
    at = whole
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return json.dumps(whole)


@pytest.mark.parametrize("value", [-1, 2**64, 2**200, 1.0, 1.5, True, None, "1", [], {}, float("nan"), float("inf")])
@pytest.mark.parametrize(
    "path",
    [
        ["per_topic", "a", "0"],
        ["laser", "topics", "a", "stream_id"],
        ["laser", "topics", "a", "stream_created_at_micros"],
        ["laser", "topics", "a", "topic_id"],
        ["laser", "topics", "a", "created_at_micros"],
        ["laser", "topics", "a", "partitions", "0", "created_at_micros"],
    ],
    ids=lambda path: ".".join(path),
)
def test_numbers_that_are_not_unsigned_64_bits(path: list[str], value: object) -> None:
    with pytest.raises(ls.CodecError, match="checkpoint"):
        Checkpoint.from_json(_with(path, value))


@pytest.mark.parametrize("value", [1, "6", "g" * 32, "0" * 31, "A" * 32, "٣" * 32, True, [], " " + "0" * 31])
def test_last_ids_that_are_not_32_hexadecimal_digits(value: object) -> None:
    with pytest.raises(ls.CodecError, match="last_id"):
        Checkpoint.from_json(_with(["laser", "topics", "a", "partitions", "0", "last_id"], value))


_OBJECTS = [["per_topic", "a"], ["laser", "topics", "a", "partitions"]]


@pytest.mark.parametrize("path", [path[:end] for path in _OBJECTS for end in range(1, len(path) + 1)], ids=".".join)
@pytest.mark.parametrize("value", [1, "x", [], [1], True, 1.5])
def test_values_where_objects_belong(path: list[str], value: object) -> None:
    with pytest.raises(ls.CodecError, match="checkpoint"):
        Checkpoint.from_json(_with(path, value))


@pytest.mark.parametrize("key", ["", "-1", "+1", "01", "1.0", " 1", "1_0", "4294967296", "9" * 400, "٣", "²", "a"])
def test_partition_numbers_of_another_form(key: str) -> None:
    with pytest.raises(ls.CodecError, match="partition number"):
        Checkpoint.from_json(json.dumps({"per_topic": {"a": {key: 1}}}))


@pytest.mark.parametrize("name", ["", "x" * 256, "é" * 128])
def test_topic_names_of_another_form(name: str) -> None:
    with pytest.raises(ls.CodecError, match="name"):
        Checkpoint.from_json(json.dumps({"per_topic": {name: {}}}))


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "null",
            "[]",
            "1",
            '"x"',
            "{}",
            "{",
            '{"per_topic":{}',
            '{"per_topic":{}}x',
            "NaN",
            "{'per_topic':{}}",
        ),
        *('{"per_topic":null}', '{"per_topic":{"a":null}}', '{"per_topic":{"a":{"0":1e3}}}'),
        *('{"per_topic":{"\\ud800":{}}}', b"\xff", b'{"per_topic":{"\xff":{}}}', "\ud800", "\0"),
        "[" * 100_000,
        '{"per_topic":' * 50_000,
        '{"per_topic":{"a":{"0":' + "9" * 100_000 + "}}}",
    ],
    ids=lambda text: repr(text[:24]),
)
def test_hostile_json_is_one_typed_error_in_time(text: str | bytes) -> None:
    def refused() -> bool:
        with pytest.raises(ls.CodecError) as caught:
            Checkpoint.from_json(text)
        assert len(str(caught.value)) < 1_000
        return True

    assert decodes(refused)


@pytest.mark.parametrize("value", [None, 5, {"per_topic": {}}, ["x"]])
def test_what_is_no_text_is_a_typed_error(value: Any) -> None:
    with pytest.raises(ls.CodecError):
        Checkpoint.from_json(value)


def test_members_that_stand_twice_count_once() -> None:
    # Both are what a JSON reader may do; what must not happen is a mixture.
    read = decodes(
        lambda: Checkpoint.from_json('{"per_topic":{"a":{"0":1,"0":2}},"per_topic":{"b":{"0":3}}}'), ls.CodecError
    )
    assert read in (None, Checkpoint({"b": {0: 3}}))


@pytest.mark.parametrize(
    "per_topic",
    [None, [], "x", {1: {}}, {"": {}}, {"x" * 256: {}}, {"\ud800": {}}, {"a": None}, {"a": [1]}, {"a": {"0": 1}}]
    + [{"a": {partition: 1}} for partition in (-1, 2**32, True, 0.0)]
    + [{"a": {0: offset}} for offset in (-1, 2**64, True, 1.0, None, "1")],
    ids=lambda per_topic: repr(per_topic)[:24],
)
def test_f1_checkpoints_made_by_hand_hold_offsets_only(per_topic: Any) -> None:
    with pytest.raises(ls.InvalidError, match="per_topic") as caught:
        Checkpoint(per_topic)
    assert caught.value.argument == "per_topic"


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**65) | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["per_topic", "laser", "topics", "partitions", "last_id", "0", "a"]), inner)
    ),
    max_leaves=10,
)


@given(_json)
@examples(300)
def test_any_json_gives_a_checkpoint_or_one_typed_error(value: object) -> None:
    for text in (json.dumps(value), json.dumps({"per_topic": value}), json.dumps({"per_topic": {}, "laser": value})):
        decodes(lambda text=text: Checkpoint.from_json(text), ls.CodecError)


@given(checkpoints, st.data())
@examples(300)
def test_mutated_json_gives_a_checkpoint_or_one_typed_error(made: Checkpoint, data: st.DataObject) -> None:
    text = bytearray(made.to_json().encode())
    at = data.draw(st.integers(0, len(text) - 1))
    text[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    read = decodes(lambda: Checkpoint.from_json(bytes(text)), ls.CodecError)
    if read is not None:
        assert Checkpoint.from_json(read.to_json()) == read
