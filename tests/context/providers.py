"""What model providers accept, written down apart from the code under test, and chats to try it on.

Rules: a tool result has an earlier call of its id that has no result yet; every call has a result somewhere after it.
The one exception is an open turn at the very end: calls whose tools still run, followed by nothing but results of
those calls. A turn is one message, or a run of call items in the shape of OpenAI Responses.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

Chat = dict[str, Any]


def calls_of(message: Chat) -> list[str]:
    """Ids of the calls that a message makes."""
    found = [call["id"] for call in message.get("tool_calls") or []]
    if message.get("type") == "function_call":
        found.append(message["call_id"])
    if isinstance(message.get("content"), list):
        found += [block["id"] for block in message["content"] if block.get("type") == "tool_use"]
    return found


def results_of(message: Chat) -> list[str]:
    """Ids of the calls whose results a message brings."""
    found = [message["tool_call_id"]] if "tool_call_id" in message else []
    if message.get("type") == "function_call_output":
        found.append(message["call_id"])
    if isinstance(message.get("content"), list):
        found += [block["tool_use_id"] for block in message["content"] if block.get("type") == "tool_result"]
    return found


def complaint(messages: Sequence[Chat]) -> str | None:
    """Why a provider would refuse these messages; ``None`` when it would not."""
    waiting: list[tuple[str, int]] = []
    answered_by: dict[int, set[int]] = {}
    for at, message in enumerate(messages):
        for call in results_of(message):
            open_calls = [entry for entry in waiting if entry[0] == call]
            if not open_calls:
                return f"message {at}: a result of {call}, which nobody called"
            waiting.remove(open_calls[-1])
            answered_by.setdefault(open_calls[-1][1], set()).add(at)
        waiting += [(call, at) for call in calls_of(message)]
    if not waiting:
        return None
    end = len(messages)
    while end and results_of(messages[end - 1]) and not calls_of(messages[end - 1]):
        end -= 1
    turn = {end - 1}
    if messages[end - 1].get("type") == "function_call":
        while end - 2 >= 0 and messages[end - 2].get("type") == "function_call":
            end -= 1
            turn.add(end - 1)
    own = set().union(*(answered_by.get(at, set()) for at in turn))
    for call, at in waiting:
        if at not in turn:
            return f"message {at}: nobody answers {call}"
    return None if set(range(max(turn) + 1, len(messages))) <= own else "results of others follow the open turn"


def complaint_in_order(messages: Sequence[Chat]) -> str | None:
    """As ``complaint``, in the strictest reading of Chat Completions: results stand right behind their call."""
    due: set[str] = set()
    for at, message in enumerate(messages):
        call = message.get("tool_call_id")
        if call is not None:
            if call not in due:
                return f"message {at}: a result of {call} that is not due"
            due.remove(call)
        elif due:
            return f"message {at}: stands where the results of {sorted(due)} are due"
        due |= set(calls_of(message))
    return None


# ------------------------------------------------------------------------------------------ chats in three shapes

IDS = ("c1", "c2", "c3")
_ids = st.sampled_from(IDS)
_events = st.one_of(
    st.sampled_from([("user", ()), ("assistant", ()), ("system", ())]),
    st.tuples(st.just("call"), st.lists(_ids, min_size=1, max_size=3, unique=True).map(tuple)),
    st.tuples(st.just("result"), _ids.map(lambda one: (one,))),
    st.tuples(st.just("result"), _ids.map(lambda one: (one,))),
)


def completions(kind: str, ids: Sequence[str]) -> list[Chat]:
    """An event in the shape of Chat Completions."""
    if kind == "call":
        function = {"name": "f", "arguments": "{bad"}
        made = [{"id": one, "type": "function", "function": function} for one in ids]
        return [{"role": "assistant", "content": None, "tool_calls": made}]
    if kind == "result":
        return [{"role": "tool", "tool_call_id": ids[0], "content": ""}]
    return [{"role": kind, "content": [{"type": "text", "text": "x"}]}]


def responses(kind: str, ids: Sequence[str]) -> list[Chat]:
    """An event in the shape of Responses items: each parallel call is an item of its own."""
    if kind == "call":
        return [{"type": "function_call", "call_id": one, "name": "f", "arguments": ""} for one in ids]
    if kind == "result":
        return [{"type": "function_call_output", "call_id": ids[0], "output": ""}]
    return [{"type": "message", "role": kind, "content": "x"}]


def anthropic(kind: str, ids: Sequence[str]) -> list[Chat]:
    """An event in the shape of Messages: calls and results are blocks of content."""
    if kind == "call":
        blocks = [{"type": "tool_use", "id": one, "name": "f", "input": {}} for one in ids]
        return [{"role": "assistant", "content": [{"type": "text", "text": "x"}, *blocks]}]
    if kind == "result":
        return [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": ids[0], "content": []}]}]
    return [{"role": kind, "content": "x"}]


SHAPES = (completions, responses, anthropic)

chats = st.tuples(st.sampled_from(SHAPES), st.lists(_events, max_size=14)).map(
    lambda made: [message for kind, ids in made[1] for message in made[0](kind, ids)]
)

NOISE = (
    b"plain words",
    b"",
    b"{bad",
    b'{"role":"user","content":"cut',
    b"[1,2]",
    b"null",
    b'"text"',
    b"\xff\xfe",
    b'{"role":5,"tool_calls":"c1","content":{"type":"tool_use","id":"c1"}}',
    b'{"tool_calls":[null,5,{"id":null},{"id":7},{}],"content":[null,5,{"type":"tool_use"}]}',
    b'{"tool_call_id":null}',
    b'{"type":"function_call","call_id":["c1"]}',
    b'{"a":' * 5_000,
    b'{"content":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    '{"content":"\ud800"}'.encode("utf-8", "surrogatepass"),
)


def encoded(messages: Sequence[Chat]) -> list[bytes]:
    """The messages as JSON."""
    return [json.dumps(message).encode() for message in messages]
