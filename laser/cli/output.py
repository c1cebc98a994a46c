"""What the commands print: text for people, JSON for programs."""

from __future__ import annotations

import base64
import errno
import os
import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
import orjson
from rich.console import Console
from rich.text import Text

import laser as ls

__all__ = [
    "console",
    "indented_json",
    "message_json",
    "moment_text",
    "plain",
    "print_json",
    "print_message",
    "print_nothing",
    "print_skipped",
    "print_utf8",
    "retention_text",
    "stretch_text",
]

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class _Console(Console):
    """A console that leaves a closed pipe to the command: rich by itself would end the process with code 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def console() -> Console:
    """A console on what stdout is now, without the markup and highlighting that text of users could trigger."""
    return _Console(file=sys.stdout, markup=False, highlight=False, soft_wrap=True)


def plain(text: str) -> str:
    """Text that cannot steer the terminal: control characters, and those that turn text around, become visible."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def print_json(value: object) -> None:
    """One line of JSON, at once."""
    print_utf8(orjson.dumps(value).decode())


def print_utf8(line: str) -> None:
    """A line for programs, at once: in UTF-8, whatever the encoding of the terminal."""
    sys.stdout.flush()
    sys.stdout.buffer.write(line.encode() + b"\n")
    sys.stdout.buffer.flush()


def indented_json(value: object) -> str:
    """JSON for people."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def message_json(message: ls.ContextMessage) -> dict[str, Any]:
    """A message for programs. ``text`` holds the payload, or ``payload_base64`` where it is not UTF-8."""
    value: dict[str, Any] = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        # Ids have 128 bits, more than a number in JSON holds everywhere.
        "record_id": str(message.record_id),
        "timestamp_micros": message.timestamp_micros,
        "provenance": {
            name: entry for name, entry in msgspec.structs.asdict(message.provenance).items() if entry is not None
        },
    }
    try:
        value["text"] = message.payload.decode()
    except UnicodeDecodeError:
        value["payload_base64"] = base64.b64encode(message.payload).decode()
    return value


def print_message(out: Console, message: ls.ContextMessage) -> None:
    """A message for people: who, when and where, then what."""
    head = Text()
    head.append(plain(message.provenance.agent or "(no agent)"), style="bold")
    when = moment_text(message.timestamp_micros)
    head.append(f"  {when}  {plain(message.topic)} {message.id}", style="dim")
    out.print(head)
    out.print(Text(plain(_body(message)).rstrip()))
    out.print()


def print_nothing(what: str) -> None:
    """Says on stderr that there is nothing to print: people see it, programs read an empty stdout."""
    sys.stderr.write(plain(what) + "\n")


def print_skipped(skipped: Iterable[ls.SkippedRecord]) -> None:
    """Says on stderr which records could not be read."""
    for record in skipped:
        place = f"{record.topic} {record.partition}:{record.offset}"
        sys.stderr.write(plain(f"laser: skipped {place}: {record.reason}") + "\n")


def moment_text(micros: int | None) -> str:
    """A time for people, in UTC."""
    return "-" if micros is None else f"{_EPOCH + timedelta(microseconds=micros):%Y-%m-%d %H:%M:%S}Z"


def stretch_text(start: int | None, end: int | None) -> str:
    """A stretch of time for people; nothing for one without bounds."""
    if start is None and end is None:
        return ""
    return f"{'' if start is None else _far_text(start)} … {'' if end is None else _far_text(end)}".strip()


def _far_text(micros: int) -> str:
    try:
        return moment_text(micros)
    except (OverflowError, ValueError):
        return f"{micros} µs"


def retention_text(retention: ls.TopicRetention | None) -> str:
    """A retention for people."""
    if retention is None or not retention.is_bounded:
        return "for ever"
    bounds: list[str] = []
    if retention.expire_after is not None:
        bounds.append(str(retention.expire_after).removesuffix(", 0:00:00"))
    if retention.max_size is not None:
        bounds.append(f"{retention.max_size:,} bytes")
    return " or ".join(bounds)


def _body(message: ls.ContextMessage) -> str:
    """The text of a chat message with the tools it calls, or the payload as it is."""
    try:
        value = orjson.loads(message.payload)
    except orjson.JSONDecodeError:
        return message.text
    if not isinstance(value, dict) or "role" not in value:
        return message.text
    lines = [value["content"]] if isinstance(value.get("content"), str) else []
    calls = value.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            lines.append(f"-> {function.get('name')}({function.get('arguments')})")
    return "\n".join(lines) or message.text
