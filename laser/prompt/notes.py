"""Notes: what a session keeps for its prompts, on the log: briefing, repairs, opaque state of a provider."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

import anyio
import msgspec
import orjson

from laser.compaction.transcript import place_of
from laser.context.checkpoints import take_checkpoint
from laser.context.connection import Connection
from laser.context.own_topics import in_own_topic
from laser.context.scope import ConversationScope
from laser.errors import AppendIndeterminateError, RetentionGapError, StaleCheckpointError
from laser.model.checkpoint import Checkpoint
from laser.model.messages import ContextMessage
from laser.models.selection import ModelSelection

__all__ = [
    "NOTES_TOPIC",
    "NativeNote",
    "Notes",
    "append_record",
    "read_notes",
    "repair_message",
    "write_note",
]

NOTES_TOPIC: Final = "agent.prompt"
"""The topic of the notes; the first note creates it."""

_KEY: Final = "laser.note"
_VERSION: Final = 1
_MAX_READERS: Final = 1_024


class NativeNote(msgspec.Struct, frozen=True):
    """Opaque state of a provider that stands for the beginning of a conversation.

    Attributes:
        model: that made it. items: the JSON of a list.
        topic, partition, offset: the last message that it stands for. messages: how many it stands for.
        runs: how many such states came before it, itself included.
    """

    model: ModelSelection
    items: str
    topic: str
    partition: int
    offset: int
    messages: int
    runs: int

    def is_for(self, model: ModelSelection) -> bool:
        """Whether it can be replayed: by the same provider, protocol and model only."""
        return self.model == model

    def opaque_items(self) -> list[bytes]:
        """The opaque items, JSON each."""
        return [bytes(item) for item in msgspec.json.decode(self.items, type=list[msgspec.Raw])]

    def covers(self, message: ContextMessage) -> bool:
        """Whether it stands for a message."""
        same = message.topic == self.topic and message.partition == self.partition
        return same and message.offset <= self.offset


class Notes(msgspec.Struct, frozen=True):
    """The notes of a session as of some moment.

    Attributes:
        briefing: known fields. next_step: as agreed. native: the newest; ``None`` before the first.
        repairs: texts that replace an assistant's in prompts, by ``topic:partition:offset``.
    """

    briefing: Mapping[str, str] = {}
    next_step: str | None = None
    repairs: Mapping[str, str] = {}
    native: NativeNote | None = None


async def read_notes(laser: Connection, scope: ConversationScope) -> Notes:
    """The notes with everything that was on the log when this was called."""
    readers: OrderedDict[str, _Reader] = laser.share("prompt.notes", OrderedDict)
    reader = readers.get(scope.conversation)
    if reader is None:
        reader = readers[scope.conversation] = _Reader(laser)
        while len(readers) > _MAX_READERS:
            readers.popitem(last=False)
    else:
        readers.move_to_end(scope.conversation)
    return await reader.read(scope)


async def write_note(laser: Connection, scope: ConversationScope, note: Mapping[str, Any]) -> None:
    """Appends a note; the topic is created where it is absent."""
    await append_record(laser, scope, NOTES_TOPIC, orjson.dumps({_KEY: _VERSION, **note}))


async def repair_message(laser: Connection, message: ContextMessage, text: str | None) -> None:
    """Has prompts show another text in the place of an assistant's plain message.

    The message itself stays as it is for every reader; messages with calls, of users and of tools are shown as they
    are whatever is noted.

    Args:
        message: as read. text: what prompts show; ``None`` takes a repair back.
    """
    conversation = message.provenance.conversation_id or ""
    scope = ConversationScope(laser, conversation)
    await write_note(laser, scope, {"kind": "repair", "place": place_of(message), "text": text})


async def append_record(laser: Connection, scope: ConversationScope, topic: str, payload: bytes) -> None:
    """Appends a record of a conversation; the topic is created where it is absent."""
    try:
        await in_own_topic(laser.open_log(), laser.stream, topic, lambda: scope.append(topic, payload))
    except AppendIndeterminateError as error:
        # Once more, looking first: what the log has already is not written twice.
        await scope.append(topic, payload, id=error.record_ids[0])


class _Reader:
    """The notes of one session: folded once, then brought up to date."""

    def __init__(self, laser: Connection) -> None:
        self._laser = laser
        self._lock = anyio.Lock()
        self._notes = Notes()
        self._at: Checkpoint | None = None
        self._last: dict[int, int] = {}

    async def read(self, scope: ConversationScope) -> Notes:
        async with self._lock:
            end = await take_checkpoint(self._laser.open_log(), self._laser.stream, [NOTES_TOPIC])
            if self._at is not None and end == self._at:
                return self._notes
            start, last = self._at, dict(self._last)

            def fold(notes: Notes, message: ContextMessage) -> Notes:
                if message.offset <= last.get(message.partition, -1):
                    return notes
                last[message.partition] = message.offset
                return fold_note(notes, message)

            try:
                if start is None:
                    notes = await scope.state([NOTES_TOPIC], Notes(), fold, full=True)
                else:
                    notes = await scope.state([NOTES_TOPIC], self._notes, fold, from_checkpoint=start)
            except (StaleCheckpointError, RetentionGapError):
                # Another log than was folded, or one that lost its beginning: what it holds is what there is.
                last.clear()
                notes = await scope.state([NOTES_TOPIC], Notes(), fold, full=True)
            self._notes, self._at, self._last = notes, end, last
            return notes


def fold_note(notes: Notes, message: ContextMessage) -> Notes:
    """The notes after one more record; a record that is none, or of a newer version, changes nothing."""
    try:
        value = orjson.loads(message.payload)
    except orjson.JSONDecodeError:
        return notes
    if not isinstance(value, dict) or value.get(_KEY) != _VERSION:
        return notes
    kind, text = value.get("kind"), value.get("text")
    if kind == "briefing" and isinstance(value.get("field"), str):
        return msgspec.structs.replace(notes, briefing=_with(notes.briefing, value["field"], text))
    if kind == "next_step":
        return msgspec.structs.replace(notes, next_step=text if isinstance(text, str) else None)
    if kind == "repair" and isinstance(value.get("place"), str):
        return msgspec.structs.replace(notes, repairs=_with(notes.repairs, value["place"], text))
    if kind == "native":
        try:
            found = msgspec.convert(value.get("native"), NativeNote)
        except msgspec.ValidationError:
            return notes
        # Of two made at once the one that stands for more counts; an older one never takes its place back.
        old = notes.native
        if old is None or (found.topic, found.partition) != (old.topic, old.partition) or found.offset > old.offset:
            return msgspec.structs.replace(notes, native=found)
    return notes


def _with(held: Mapping[str, str], key: str, text: object) -> dict[str, str]:
    changed = dict(held)
    if isinstance(text, str) and text.strip():
        changed[key] = text
    else:
        changed.pop(key, None)
    return changed
