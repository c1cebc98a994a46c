"""Transcripts: which files are read, and what is said of those that are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import laser as ls
from laser.cli.transcripts import read_transcripts
from tests.commands import ROOT

USER = '{"role":"user","content":"hi"}'


def write(tmp_path: Path, content: str | bytes, name: str = "chat.jsonl") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("chat.jsonl", '{"id":"a","messages":[%s,%s]}\n{"id":"b","messages":[]}\n'),
        ("chat.jsonl", '\ufeff\r\n{"id":"a","messages":[%s,%s]}\r\n\r\n{"id":"b","messages":[]}'),
        ("chat.json", '{"id":"a","messages":[%s,%s]}\n{"id":"b","messages":[]}\n'),
        ("chat.json", '[\n  {"id":"a","messages":[%s,%s]},\n  {"id":"b","messages":[]}\n]'),
    ],
)
def test_conversations(name: str, content: str, tmp_path: Path) -> None:
    one, two = read_transcripts(write(tmp_path, content % (USER, USER), name))
    assert (one.key, two.key) == ("a", "b")
    assert one.conversation_id == ls.derive_conversation_id("a")
    assert [message.payload for message in one.messages] == [USER, USER]
    assert two.messages == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("chat.jsonl", "%s\n%s\n"),
        ("chat.json", "[%s, %s]"),
        ("chat.json", '{"id": "chat",\n "messages": [\n%s, %s]}'),
    ],
)
def test_single_messages(name: str, content: str, tmp_path: Path) -> None:
    """Messages without a conversation object form one conversation, named after the file."""
    (only,) = read_transcripts(write(tmp_path, content % (USER, USER), name))
    assert (only.key, len(only.messages)) == ("chat", 2)


def test_names_for_conversations_without_one(tmp_path: Path) -> None:
    line = f'{{"messages":[{USER}]}}\n'
    found = read_transcripts(write(tmp_path, line + f'{{"id":7,"messages":[{USER}]}}\n' + line))
    assert [one.key for one in found] == ["chat-1", "7", "chat-3"]


def test_payload_keeps_what_the_file_says(tmp_path: Path) -> None:
    """Members in their order, numbers and text as they are; only the blanks between them go."""
    message = '{"role": "tool",  "z": 1, "a": [18446744073709551616, 1.5, null, true], "content": "é \\u00e9 \\n 👋"}'
    ((stored,),) = [one.messages for one in read_transcripts(write(tmp_path, message))]
    assert stored.payload == ('{"role":"tool","z":1,"a":[18446744073709551616,1.5,null,true],"content":"é é \\n 👋"}')
    assert stored.role == "tool"


def test_odd_tool_calls_are_kept(tmp_path: Path) -> None:
    """A message that a provider would refuse is still a message of the history."""
    message = {"role": "assistant", "tool_calls": [{"id": None, "function": {"name": "f", "arguments": "{bad"}}]}
    ((stored,),) = [one.messages for one in read_transcripts(write(tmp_path, json.dumps(message)))]
    assert json.loads(stored.payload) == message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no messages in it"),
        ("\n \n", "no messages in it"),
        ('{"id":"a","messages":[]}', "no messages in it"),
        (f"{USER}\n{{oops\n", "line 2, column 2: not JSON"),
        (f'{USER}\n{{"role":"user"\n{USER}', "line 2, column 15: not JSON"),
        ("PK\x03\x04", "line 1, column 1: not JSON"),
        (f"{USER}\n".encode() + b"\xff\xfe", "line 2: not UTF-8"),
        ("42", "line 1: expected a message (an object with a 'role')"),
        ('{"text":"hi"}', "line 1: expected a message (an object with a 'role') or a conversation"),
        ("[]", "no messages in it"),
        (f"[{USER}, 7]", "entry 2: expected a message"),
        (f"[{USER},\n{USER}", "line 2"),
        ('{"id":"a","messages":[7]}', "line 1, message 1: expected a message"),
        ('{"id":"a","messages":[{"content":"x"}]}', "line 1, message 1: its 'role' must be"),
        ('{"role":""}', "line 1: its 'role' must be"),
        ('{"role":"a\\nb"}', "line 1: its 'role' must be"),
        ('{"role":"%s"}' % ("é" * 128), "line 1: its 'role' must be 1 to 255 bytes"),
        ('{"role":"user","content":"\\ud83d"}', "line 1: holds half of a surrogate pair"),
        ('{"role":"user","x":NaN}', "line 1: NaN is not JSON"),
        ('{"role":"user","x":1e999}', "line 1: "),
        ('{"role":"user","role":"tool"}', "line 1: the member 'role' stands twice"),
        ('{"role":"user","x":' + "[" * 100_000 + "]" * 100_000 + "}", "line 1: nested too deeply"),
        ('{"role":"user","x":' + "9" * 5_000 + "}", "line 1: "),
        (
            f'{{"id":"a","messages":[{USER}]}}\n{{"id":"a","messages":[{USER}]}}',
            "line 2: conversation 'a' stands at line 1",
        ),
        (f'{USER}\n{{"id":"a","messages":[{USER}]}}', "line 2: a conversation after single messages"),
        (f'{{"id":"a","messages":[{USER}]}}\n{USER}', "line 2: a single message after conversations"),
        ('{"id":"a\\nb","messages":[]}', "line 1: its 'id' must be printable"),
        ('{"id":null,"messages":[]}', "line 1: its 'id' must be printable"),
    ],
)
def test_refused(content: str | bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(ls.InvalidError) as refused:
        read_transcripts(write(tmp_path, content))
    assert refused.value.argument == "FILE"
    assert said in str(refused.value)
    assert len(str(refused.value)) < 400


def test_no_such_file(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.jsonl", tmp_path):
        with pytest.raises(ls.InvalidError, match="FILE: "):
            read_transcripts(path)


def test_the_sample() -> None:
    """The sample is a real history: tool calls with results, parallel ones, several languages, one call still open."""
    found = {one.key: one for one in read_transcripts(ROOT / "examples" / "data" / "support.jsonl")}
    assert len(found["wrong-charger"].messages) >= 30
    calls: set[str] = set()
    results: set[str] = set()
    for one in found.values():
        for message in map(json.loads, (message.payload for message in one.messages)):
            calls.update(call["id"] for call in message.get("tool_calls", ()))
            results.update([message["tool_call_id"]] if message["role"] == "tool" else [])
    assert results < calls
    assert len(calls - results) == 1
