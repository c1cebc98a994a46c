"""A stream, cut anywhere, folds into the answer that it is of; one that ends early says so."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from laser import limits, models
from laser.models import API_KINDS, ApiKind, ModelReply, ReplyStream
from tests.models import answers
from tests.models.answers import ANSWERS, EVENTS, Json
from tests.properties import examples

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_names = st.text("abz_", min_size=1, max_size=6)
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
)
_inputs = st.dictionaries(_names, _json, max_size=3)


@st.composite
def responses(draw: st.DrawFn) -> Json:
    output: list[Json] = []
    for number in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["reasoning", "message", "refusal", "call", "custom", "search"]))
        if kind == "reasoning":
            summary = [{"type": "summary_text", "text": text} for text in draw(st.lists(_texts, max_size=2))]
            output.append(answers.REASONING | {"id": f"rs_{number}", "summary": summary})
        elif kind in ("message", "refusal"):
            parts = [
                {"type": "refusal", "refusal": text}
                if kind == "refusal"
                else {
                    "type": "output_text",
                    "text": text,
                    "annotations": draw(st.lists(_inputs, max_size=2)),
                    "logprobs": [],
                }
                for text in draw(st.lists(_texts, min_size=1, max_size=2))
            ]
            output.append(answers.CITED | {"id": f"msg_{number}", "content": parts})
        elif kind == "call":
            output.append(answers.CALL | {"call_id": f"c{number}", "arguments": draw(_texts)})
        elif kind == "custom":
            output.append(answers.CUSTOM_CALL | {"call_id": f"c{number}", "input": draw(_texts)})
        else:
            output.append(answers.SEARCH | {"id": f"ws_{number}"})
    status, details = draw(
        st.sampled_from([("completed", None), ("incomplete", {"reason": "max_output_tokens"}), ("failed", None)])
    )
    error = {"code": "server_error", "message": "later"} if status == "failed" else None
    return answers.response(output, status=status, incomplete_details=details, error=error)


@st.composite
def messages(draw: st.DrawFn) -> Json:
    content: list[Json] = []
    for number in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(["text", "cited", "thinking", "redacted", "call", "search"]))
        if kind == "text":
            content.append({"type": "text", "text": draw(_texts)})
        elif kind == "cited":
            content.append({"type": "text", "text": draw(_texts), "citations": draw(st.lists(_inputs, max_size=2))})
        elif kind == "thinking":
            content.append({"type": "thinking", "thinking": draw(_texts), "signature": draw(_texts)})
        elif kind == "redacted":
            content.append(answers.REDACTED)
        elif kind == "call":
            content.append({"type": "tool_use", "id": f"t{number}", "name": draw(_names), "input": draw(_inputs)})
        else:
            content += [answers.SERVER_USE, answers.SERVER_RESULT]
    stop = draw(
        st.sampled_from(["end_turn", "tool_use", "max_tokens", "stop_sequence", "pause_turn", "refusal", "new_one"])
    )
    more = {"stop_details": {"type": "refusal", "explanation": draw(_texts)}} if stop == "refusal" else {}
    return answers.message(content, stop=stop, **more)


@st.composite
def completions(draw: st.DrawFn) -> Json:
    said: Json = {"role": "assistant", "content": draw(st.none() | _texts), "refusal": draw(st.none() | _texts)}
    if draw(st.booleans()):
        said["reasoning_content"] = draw(_texts.filter(bool))
    if draw(st.booleans()):
        said["annotations"] = draw(st.lists(_inputs, max_size=2))
    calls = [
        {"id": f"c{number}", "type": "function", "function": {"name": draw(_names), "arguments": draw(_texts)}}
        for number in range(draw(st.integers(0, 3)))
    ]
    if calls:
        said["tool_calls"] = calls
    stop = draw(st.sampled_from(["stop", "tool_calls", "length", "content_filter", "new_one"]))
    return answers.completion(said, stop=stop)


_whole = st.one_of(
    st.tuples(st.just("openai_responses"), responses()),
    st.tuples(st.just("anthropic_messages"), messages()),
    st.tuples(st.just("chat_completions"), completions()),
)


def fed(api_kind: ApiKind, data: bytes, cuts: list[int]) -> ModelReply:
    stream = ReplyStream(api_kind)
    places = sorted({0, len(data), *(place % (len(data) + 1) for place in cuts)})
    for begin, end in pairwise(places):
        stream.feed(data[begin:end])
    return stream.close()


def same(streamed: ModelReply, whole: ModelReply) -> None:
    """Equal in every fact; in ``native`` the order of keys may differ, which JSON does not know."""
    for name in ModelReply.__struct_fields__:
        if name == "native":
            assert exact(streamed.native) == exact(whole.native)
        elif name == "items":
            assert [(item.kind, exact(item.payload), item.call, item.text) for item in streamed.items] == [
                (item.kind, exact(item.payload), item.call, item.text) for item in whole.items
            ]
        else:
            assert getattr(streamed, name) == getattr(whole, name), name


def exact(data: bytes) -> Any:
    return json.loads(data, parse_float=str)


@given(
    _whole, st.lists(st.integers(0, 100_000), max_size=30), st.sampled_from([b"\n", b"\r\n", b"\r"]), st.integers(1, 9)
)
@examples(250)
def test_a_stream_folds_into_its_answer(made: tuple[ApiKind, Json], cuts: list[int], end: bytes, step: int) -> None:
    api_kind, answer = made
    whole = models.parse_reply(api_kind, json.dumps(answer).encode())
    same(fed(api_kind, answers.body(api_kind, answer, step=step, end=end), cuts), whole)
    by_event = ReplyStream(api_kind)
    for event in EVENTS[api_kind](answer, step):
        before = json.dumps(event)
        by_event.add(event)
        assert json.dumps(event) == before
    same(by_event.close(), whole)


@pytest.mark.parametrize("api_kind", API_KINDS)
def test_every_single_cut(api_kind: ApiKind) -> None:
    data = answers.body(api_kind, ANSWERS[api_kind])
    whole = models.parse_reply(api_kind, ANSWERS[api_kind])
    same(fed(api_kind, data, list(range(len(data)))), whole)
    for place in range(0, len(data), 7):
        same(fed(api_kind, data, [place]), whole)


@pytest.mark.parametrize("api_kind", API_KINDS)
def test_a_stream_that_ends_early_is_not_completed(api_kind: ApiKind) -> None:
    data = answers.body(api_kind, ANSWERS[api_kind])
    whole = models.parse_reply(api_kind, ANSWERS[api_kind])
    last = {"openai_responses": b"response.completed", "anthropic_messages": b"message_stop"}.get(api_kind)
    # Chat Completions says in its last piece of the choice that it is over; after that come usage and [DONE].
    over = data.index(b'"finish_reason": "tool_calls"') if last is None else data.rindex(b'"type": "' + last)
    for place in range(0, over, 11):
        reply = fed(api_kind, data[:place], [])
        assert (reply.completed, reply.stop, reply.calls) == (False, "interrupted", ())
        assert whole.text.startswith(reply.text)
        assert whole.reasoning.startswith(reply.reasoning)
        if api_kind != "anthropic_messages":  # where text blocks that follow each other are one item
            payloads = [item.payload for item in reply.items]
            assert payloads == [item.payload for item in whole.items[: len(payloads)]]
        assert set(reply.continuation) <= set(reply.items)
        assert not reply.continuation or reply.continuation[-1].kind != "reasoning"
    assert fed(api_kind, data[: over - 200], []).text == whole.text
    assert fed(api_kind, data, []).completed


@pytest.mark.parametrize("api_kind", API_KINDS)
def test_the_answer_so_far(api_kind: ApiKind) -> None:
    stream = ReplyStream(api_kind)
    seen = [stream.so_far().text]
    for event in EVENTS[api_kind](ANSWERS[api_kind], 3):
        stream.add(event)
        seen.append(stream.so_far().text)
    assert len(set(seen)) > 5
    assert all(later.startswith(earlier) for earlier, later in pairwise(seen))
    assert stream.ended
    reply = stream.close()
    assert stream.close() is reply
    with pytest.raises(ls.InvalidError, match="closed"):
        stream.feed(b"data: {}\n\n")
    with pytest.raises(ls.InvalidError, match="closed"):
        stream.add({})


def test_an_item_without_its_end_is_built_from_its_pieces() -> None:
    pieces = [event for event in answers.response_events(answers.RESPONSE) if "output_item.done" not in event["type"]]
    stream = ReplyStream("openai_responses")
    for event in pieces[:-1]:
        stream.add(event)
    reply = stream.close()
    assert (reply.text, reply.completed, reply.items) == ("Type C fits — “Typ F” too. 🔌", False, ())
    assert reply.reasoning == "The label is missing.\n\nLook the order up."
    output = json.loads(reply.native)["output"]
    assert [item.get("arguments") or item.get("input") for item in output[3:]] == [
        answers.CALL["arguments"],
        answers.CUSTOM_CALL["input"],
    ]
    assert output[2]["content"] == answers.CITED["content"]


def test_a_last_event_without_output() -> None:
    """Some who speak Responses end with an empty list; the items came before."""
    events = list(answers.response_events(answers.RESPONSE))
    events[-1] = events[-1] | {"response": answers.RESPONSE | {"output": []}}
    stream = ReplyStream("openai_responses")
    for event in events:
        stream.add(event)
    assert stream.close().items == models.parse_reply("openai_responses", answers.RESPONSE).items


ERRORS: list[tuple[ApiKind, Json, str]] = [
    ("openai_responses", {"type": "error", "code": "server_error", "message": "later", "param": None}, "server_error"),
    (
        "openai_responses",
        {
            "type": "response.failed",
            "response": answers.response(
                [], status="failed", error={"code": "rate_limit_exceeded", "message": "later"}
            ),
        },
        "rate_limit_exceeded",
    ),
    (
        "anthropic_messages",
        {"type": "error", "error": {"type": "overloaded_error", "message": "later"}},
        "overloaded_error",
    ),
    ("chat_completions", {"error": {"code": None, "type": "server_error", "message": "later"}}, "server_error"),
]


@pytest.mark.parametrize(("api_kind", "event", "code"), ERRORS)
def test_an_error_within_a_stream(api_kind: ApiKind, event: Json, code: str) -> None:
    stream = ReplyStream(api_kind)
    events = list(EVENTS[api_kind](ANSWERS[api_kind], 5))
    for one in [*events[: len(events) // 2], event]:
        stream.add(one)
    reply = stream.close()
    assert (reply.completed, reply.stop, reply.calls) == (False, "failed", ())
    assert reply.error == models.ReplyError(code, "later")


def test_the_input_of_a_tool_that_is_cut_or_no_json() -> None:
    events = list(answers.message_events(answers.message([answers.TEXT_BLOCK, answers.TOOL_USE], stop="tool_use"), 4))
    at = max(place for place, event in enumerate(events) if event.get("delta", {}).get("type") == "input_json_delta")
    whole, cut = ReplyStream("anthropic_messages"), ReplyStream("anthropic_messages")
    for event in events[:at] + events[at + 1 :]:
        whole.add(event)
        cut.add(
            event | {"delta": event["delta"] | {"stop_reason": "max_tokens"}}
            if event["type"] == "message_delta"
            else event
        )
    assert (whole.close().stop, whole.close().calls) == ("failed", ())
    error = whole.close().error
    assert error is not None
    assert "toolu_a1" in error.message
    assert (cut.close().stop, cut.close().error, cut.close().calls) == ("length", None, ())
    assert [item.kind for item in cut.close().items] == ["message"]


def test_calls_as_others_stream_them() -> None:
    """All under number 0 with ids of their own; without numbers; names and ids again in every piece."""
    for numbers in ([0, 0], [None, None]):
        stream = ReplyStream("chat_completions")
        for number, call in zip(numbers, answers.CHAT_CALLS, strict=True):
            for piece in answers.cut(call["function"]["arguments"], 4) or [""]:
                delta = {
                    "id": call["id"],
                    "type": "function",
                    "function": {"name": call["function"]["name"], "arguments": piece},
                }
                at = {} if number is None else {"index": number}
                stream.add({"choices": [{"index": 0, "delta": {"tool_calls": [delta | at]}}]})
        stream.add({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        reply = stream.close()
        assert (reply.stop, reply.completed) == ("tool_calls", True)
        assert [(call.id, call.name, call.arguments) for call in reply.calls] == [
            (call["id"], call["function"]["name"], call["function"]["arguments"]) for call in answers.CHAT_CALLS
        ]


def test_reasoning_in_numbered_pieces_of_two_types() -> None:
    stream = ReplyStream("chat_completions")
    for part in (
        {"type": "reasoning.text", "index": 0, "text": "The label "},
        {"type": "reasoning.text", "index": 0, "text": "is missing.", "signature": "sig"},
        {"type": "reasoning.encrypted", "index": 0, "data": "opaque"},
    ):
        stream.add({"choices": [{"index": 0, "delta": {"reasoning_details": [part]}}]})
    stream.add({"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]})
    reply = stream.close()
    assert reply.reasoning == "The label is missing."
    assert [len(json.loads(item.payload).get("reasoning_details", ())) for item in reply.items] == [2, 0]


def test_halves_of_a_character() -> None:
    """Two pieces may each hold half of a surrogate pair; together they are a character, alone it is U+FFFD."""
    stream = ReplyStream("chat_completions")
    for piece in (rb"\ud83d", rb"\udd0c", rb"\ud83d"):
        stream.feed(b'data: {"choices":[{"index":0,"delta":{"content":"' + piece + b'"}}]}\n\n')
    stream.feed(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n')
    reply = stream.close()
    assert (reply.text, reply.mended, reply.completed) == ("🔌\ufffd", 1, True)


def test_events_that_are_not_known_are_named() -> None:
    for api_kind in ("openai_responses", "anthropic_messages"):
        stream = ReplyStream(api_kind)
        for event in EVENTS[api_kind](ANSWERS[api_kind], 5):
            stream.add(event)
            stream.add({"type": "brand_new", "index": 0})
        assert stream.close() == msgspec.structs.replace(
            models.parse_reply(api_kind, ANSWERS[api_kind]), unread=("brand_new",), native=stream.close().native
        )


def test_comments_and_other_fields_of_the_stream() -> None:
    data = answers.body("chat_completions", answers.COMPLETION).replace(b"data: ", b": alive\nid: 7\nretry: 10\ndata:")
    same(
        fed("chat_completions", b"\xef\xbb\xbf" + data, [1, 2, 3]),
        models.parse_reply("chat_completions", answers.COMPLETION),
    )
    two_lines = b'data: {"choices":[{"index":0,"delta":{"content":"x"},\ndata: "finish_reason":"stop"}]}'
    assert fed("chat_completions", two_lines, [9]).text == "x"


@pytest.mark.parametrize("data", [b"data: {bad}\n\n", b"data: [1]\n\n", b"data: \xff\n\n", b"data: NaN\n\n"])
def test_an_event_that_is_no_json(data: bytes) -> None:
    with pytest.raises(ls.CodecError):
        ReplyStream("openai_responses").feed(data)


def test_a_stream_that_is_too_long() -> None:
    stream = ReplyStream("chat_completions")
    chunk = b" " * (limits.MAX_REPLY_BYTES // 4)
    for _ in range(4):
        stream.feed(chunk)
    with pytest.raises(ls.LimitError) as caught:
        stream.feed(b" ")
    assert (caught.value.size, caught.value.limit) == (limits.MAX_REPLY_BYTES + 1, limits.MAX_REPLY_BYTES)


@pytest.mark.parametrize("api_kind", API_KINDS)
@given(st.data())
@examples(120)
def test_damaged_events(api_kind: ApiKind, data: st.DataObject) -> None:
    """Parts of events of another type, events twice, left out and out of order: a reply or one typed error."""
    events = json.loads(json.dumps(list(EVENTS[api_kind](ANSWERS[api_kind], 9))))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(events) - 1))
        how = data.draw(st.sampled_from(["twice", "gone", "moved", "value", "value"]))
        if how == "value":
            places = list(_places(events[at]))
            holder, key = places[data.draw(st.integers(0, len(places) - 1))]
            holder[key] = data.draw(
                st.sampled_from([None, 5, -1, True, "x", [], {}, [5], {"type": 5}, [{"index": 0}], "error"])
            )
        elif how == "twice":
            events.insert(at, json.loads(json.dumps(events[at])))
        elif len(events) > 1:
            event = events.pop(at)
            if how == "moved":
                events.insert(data.draw(st.integers(0, len(events))), event)
    stream = ReplyStream(api_kind)
    try:
        for event in events:
            stream.add(event)
            stream.so_far()
        reply = stream.close()
    except (ls.CodecError, ls.UnsupportedError):
        return
    assert reply.completed or reply.calls == ()


def _places(value: Any) -> Any:
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _places(value[key])


def test_many_small_pieces_take_no_more_than_their_number() -> None:
    """Four times as many take about four times as long; copying what is there for each piece, sixteen times."""

    def seconds(count: int) -> float:
        data = answers.body(
            "chat_completions", answers.completion({"role": "assistant", "content": "abcde" * 50}, stop="stop")
        )
        head, piece = data.split(b"\n\n")[:2]
        stream = ReplyStream("chat_completions")
        began = time.thread_time()
        stream.feed(head + b"\n\n" + (piece.replace(b"abcde", b"x" * 200) + b"\n\n") * count)
        text = stream.so_far().text
        spent = time.thread_time() - began
        assert len(text) == 200 * count
        return spent

    assert min(seconds(12_000) for _ in range(3)) < 9 * min(seconds(3_000) for _ in range(3))


def test_a_first_event_that_says_completed_completes_nothing() -> None:
    stream = ReplyStream("openai_responses")
    stream.add({"type": "response.created", "response": answers.response([])})
    assert (stream.close().completed, stream.close().stop) == (False, "interrupted")


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_two_lines_of_data_cut_between_any_two_bytes(end: bytes) -> None:
    lines = (b'data: {"choices":[{"index":0,"delta":{"content":"x"},', b'data: "finish_reason":"stop"}]}', b"", b"")
    data = end.join(lines)
    for place in range(len(data) + 1):
        reply = fed("chat_completions", data, [place])
        assert (reply.text, reply.completed) == ("x", True)
