"""Writing transcripts onto the log, so that doing it again, or going on after a crash, doubles nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from hashlib import blake2b

import msgspec

import laser as ls
from laser.cli.transcripts import Transcript

__all__ = ["Progress", "Share", "imported_id", "split_shares", "verify", "write_share"]

_BATCH = 200
"""Most messages that one append carries, so that progress shows and a killed writer leaves a part behind."""
_BATCH_BYTES = 4_000_000


class Share(msgspec.Struct, frozen=True):
    """What one agent process writes.

    Attributes:
        url, stream, timeout: as ``Laser.connect`` takes them. topic: where to.
        hold_after: write this many messages and one more batch, then wait to be killed; ``None`` to write all.
    """

    url: str | None
    stream: str | None
    timeout: float
    topic: str
    transcripts: list[Transcript]
    hold_after: int | None = None

    @property
    def messages(self) -> int:
        """Messages in all."""
        return sum(len(transcript.messages) for transcript in self.transcripts)


class Progress(msgspec.Struct, frozen=True):
    """What a writer did since its last word.

    Attributes:
        written: messages appended. found: messages that were on the log already.
        error: why it gave up; then nothing follows.
    """

    written: int = 0
    found: int = 0
    error: str | None = None


def imported_id(conversation_id: str, index: int) -> int:
    """The record id of a message by its conversation and its place there, the same in every run."""
    digest = blake2b(f"{conversation_id}:{index}".encode(), digest_size=16, person=b"laser.import").digest()
    return int.from_bytes(digest, "big") or 1


def split_shares(transcripts: Iterable[Transcript], agents: int, like: Share) -> list[Share]:
    """Divides conversations among at most ``agents`` writers, about equal in messages.

    A conversation is written by one of them: that is what keeps its order.
    """
    loads: list[tuple[int, list[Transcript]]] = [(0, []) for _ in range(agents)]
    for transcript in sorted(transcripts, key=lambda one: -len(one.messages)):
        lightest = min(range(agents), key=lambda place: loads[place][0])
        load, mine = loads[lightest]
        loads[lightest] = (load + len(transcript.messages), [*mine, transcript])
    return [msgspec.structs.replace(like, transcripts=mine) for load, mine in loads if load]


async def write_share(
    laser: ls.Laser, share: Share, report: Callable[[Progress], Awaitable[None]], hold: Callable[[], Awaitable[None]]
) -> None:
    """Writes the messages of a share that are not on the log yet, conversation by conversation, in order.

    Args:
        report: told of every step. hold: awaited where ``share.hold_after`` says.
    """
    done = 0
    # A writer that is to be killed half-way leaves a part behind, of however few messages.
    size = _BATCH if share.hold_after is None else max(1, min(_BATCH, share.hold_after // 4))
    for transcript in share.transcripts:
        place = await _resume_place(laser, transcript, share.topic)
        if place:
            done += place
            await report(Progress(found=place))
        for start, stop in _batches(transcript, place, size):
            batch = transcript.messages[start:stop]
            held = share.hold_after is not None and done >= share.hold_after
            await laser.context(transcript.conversation_id).append_many(
                share.topic,
                [message.payload for message in batch],
                agent=[message.role for message in batch],
                ids=[imported_id(transcript.conversation_id, index) for index in range(start, stop)],
            )
            if held:
                # Appended and not told: to whoever waits for word of it this batch is in doubt.
                await hold()
            done += len(batch)
            await report(Progress(written=len(batch)))
    if share.hold_after is not None:
        await hold()


def _batches(transcript: Transcript, place: int, most: int) -> Iterator[tuple[int, int]]:
    """Where the batches of a conversation begin and end, from a message on."""
    start = place
    while start < len(transcript.messages):
        stop, size = start, 0
        while stop < len(transcript.messages) and stop - start < most:
            size += len(transcript.messages[stop].payload.encode())
            if size > _BATCH_BYTES and stop > start:
                break
            stop += 1
        yield start, stop
        start = stop


async def _read_all(laser: ls.Laser, transcript: Transcript, topic: str) -> list[ls.ContextMessage]:
    """All messages of a conversation, also those outside of the window of a fetch."""

    def collect(messages: list[ls.ContextMessage], message: ls.ContextMessage) -> list[ls.ContextMessage]:
        messages.append(message)
        return messages

    return await laser.context(transcript.conversation_id).state([topic], [], collect, full=True)


async def _resume_place(laser: ls.Laser, transcript: Transcript, topic: str) -> int:
    """The first message that is to be written: the one after the last that the log holds."""
    present = {message.record_id for message in await _read_all(laser, transcript, topic)}
    for index in range(len(transcript.messages), 0, -1):
        if imported_id(transcript.conversation_id, index - 1) in present:
            return index
    return 0


async def verify(laser: ls.Laser, transcript: Transcript, topic: str) -> tuple[list[ls.ContextMessage], int]:
    """Reads a conversation back and compares it with the file: every message, its bytes, its writer, the order.

    Returns:
        The imported messages, in order, and how many others the conversation holds.

    Raises:
        CodecError: the log holds something else than the file; the text names the message.
    """
    places = {imported_id(transcript.conversation_id, n): n for n in range(len(transcript.messages))}
    stored = await _read_all(laser, transcript, topic)
    mine = [message for message in stored if message.record_id in places]
    for place, (expected, message) in enumerate(zip(transcript.messages, mine, strict=False)):
        at = places[message.record_id]
        if at < place:
            raise _differs(transcript, at, "is on the log twice")
        if at > place:
            raise _differs(transcript, place, f"is not where it belongs; message {at + 1} stands there")
        if message.payload != expected.payload.encode() or message.provenance.agent != expected.role:
            raise _differs(transcript, place, "is not what the file holds now; it was imported from another version")
    if len(mine) < len(transcript.messages):
        raise _differs(transcript, len(mine), "is not on the log")
    if len(mine) > len(transcript.messages):
        raise _differs(transcript, places[mine[-1].record_id], "is on the log twice")
    return mine, len(stored) - len(mine)


def _differs(transcript: Transcript, place: int, what: str) -> ls.CodecError:
    return ls.CodecError(
        f"conversation {transcript.key!r} ({transcript.conversation_id}): message {place + 1} of "
        f"{len(transcript.messages)} {what}"
    )
