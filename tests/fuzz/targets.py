"""Every decoder as a function of bytes: a value or one of its typed errors, in time, in little memory."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from laser.cli.transcripts import read_transcripts
from laser.client.opening import read_target
from laser.compaction.events import Saved as SavedEvent
from laser.compaction.events import decode_event as decode_compaction
from laser.compaction.lcm.nodes import read_tree
from laser.compaction.snapcompact.archive import cells_of, read_archive
from laser.compaction.snapcompact.font import to_cells, to_text
from laser.compaction.transcript import History
from laser.context.decoding import decode_record
from laser.engines.iggy.raw import RawPage
from laser.engines.objects.config import parse_s3_url
from laser.engines.postgres.config import parse_postgres_url
from laser.engines.redis.config import parse_redis_url
from laser.errors import CodecError, ConfigError, IdError, InvalidError, ProvenanceError, UnsupportedError
from laser.model.chat import chat_facts
from laser.model.checkpoint import Checkpoint
from laser.model.ids import derive_conversation_id, parse_conversation_id
from laser.model.records import LogRecord
from laser.model.topics import TopicInfo
from laser.model.window import Match
from laser.models import API_KINDS, ReplyStream, decode_content, parse_reply, visible_text
from laser.session.active.answering import late_results, unanswered
from laser.session.active.events import decode_active
from laser.session.active.fold import ActiveFold, Saved
from laser.session.active.state import compactable_tokens
from laser.session.cursors import parse_cursor
from laser.session.discovery.discovering import decode_text, read_head
from laser.session.discovery.front_matter import read_front_matter
from laser.session.lifecycle import decode_event
from laser.session.manifest import decode_manifest
from laser.wire.batches import select_records
from laser.wire.blocks import decode_block
from laser.wire.cbor import decode_cbor
from laser.wire.content import decode_entry
from laser.wire.envelope import decode_envelope
from laser.wire.graph import decode_graph
from laser.wire.memory_reading import decode_memory
from laser.wire.provenance import decode_provenance
from laser.wire.snapshot import decode_snapshot
from laser.wire.state_json import decode_state
from laser.workspace.heads import decode_head
from laser.workspace.trees import decode_tree
from tests.fuzz.peak import peak_bytes, reset_peak

__all__ = ["MAX_MEMORY_BYTES", "MAX_SECONDS", "TARGETS", "Target", "attempt"]

MAX_SECONDS: Final = 0.1
MAX_MEMORY_BYTES: Final = 64 << 20

_MATCH: Final = Match(derive_conversation_id("fuzz"))
_CHILDREN: Final = Match(_MATCH.conversation_id, children=True)
_TOPIC: Final = TopicInfo("s", 1, 1, "t", 1, 1, None, None, 0, ())
# In memory: a million transcripts must not wear out a disk.
_SHM: Final = "/dev/shm" if os.path.isdir("/dev/shm") else None
_FILE: Final = Path(tempfile.gettempdir() if _SHM is None else _SHM) / f"laser-fuzz-{os.getpid()}"


class Target(msgspec.Struct, frozen=True):
    """A decoder, and the errors that its contract names."""

    decode: Callable[[bytes], object]
    errors: tuple[type[Exception], ...] = ()


def _raw_page(data: bytes) -> object:
    start, count = (
        (int.from_bytes(data[:2], "little"), int.from_bytes(data[2:4], "little")) if len(data) > 4 else (0, 1)
    )
    page = RawPage(data[4:], start, count)
    records = list(page) if len(page) <= 10_000 else []
    assert len(records) in (0, len(page)), "the page promises more records than it gives"
    page.select(_MATCH)
    page.select(_CHILDREN)
    if len(page):
        page[0], page[-1], select_records(page[1:3], _MATCH)
    assert page.place_of(page.next) == len(page)
    return records


def _compaction(data: bytes) -> object:
    event = decode_compaction(data)
    if not isinstance(event, SavedEvent):
        return event
    history = History((), (), ())
    tree = read_tree([event.state], history, 1 << 60, {})
    archive = read_archive([event.state], history, 1 << 60, {})
    for page in archive.pages:
        assert to_text(to_cells(page.text)) == page.text
    return [list(tree.below(top)) for top in tree.tops()], cells_of(archive, {})


def _record(data: bytes) -> object:
    """A record off the log: the first byte says how much of the rest is its header block."""
    cut = 1 + (data[0] if data else 0)
    return decode_record(LogRecord(0, 0, 1, 1, data[1:cut], data[cut:]), _TOPIC)


def _graph(data: bytes) -> object:
    """A graph record: the first byte says how much of the rest is its header block."""
    cut = 1 + (data[0] if data else 0)
    return decode_graph(LogRecord(0, 0, 1, 1, data[1:cut], data[cut:]))


def _memory(data: bytes) -> object:
    """A memory record: the first byte says how much of the rest is its header block."""
    cut = 1 + (data[0] if data else 0)
    return decode_memory(LogRecord(0, 0, 1, 1, data[1:cut], data[cut:]))


def _answer(data: bytes) -> object:
    """An answer of a model provider: the first byte says of which API. Its words can be read from its items again."""
    api_kind = API_KINDS[data[0] % 3 if data else 0]
    visible_text(api_kind, data[1:])
    reply = parse_reply(api_kind, data[1:])
    for item in reply.items:
        seen = visible_text(api_kind, item.payload)
        assert seen == item.text or not item.text, "other words than were read at first"
    return reply


def _answer_stream(data: bytes) -> object:
    """The same, streamed, in at most 2,000 pieces of one size: the second byte says of which."""
    stream = ReplyStream(API_KINDS[data[0] % 3 if data else 0])
    size = max(1 + (data[1] if len(data) > 1 else 0), len(data) // 2_000)
    for at in range(2, len(data), size):
        stream.feed(data[at : at + size])
    return stream.close().continuation


def _events(data: bytes) -> object:
    """Events of an active context, one a line: whatever they say, the fold goes on, and goes on from what it saved."""
    fold = ActiveFold()
    for number, line in enumerate(data.split(b"\n")[:2_000]):
        fold.apply(decode_active(line), number)
    state = fold.state()
    compactable_tokens(state.entries)
    late_results(state.entries)
    unanswered(state.entries)
    saved = msgspec.json.decode(msgspec.json.encode(fold.save()), type=Saved)
    assert ActiveFold(saved).state() == state, "a fold that was saved is another one"
    return state


def _cursor(data: bytes) -> object:
    return parse_cursor(data.decode("utf-8", "replace"), _MATCH.conversation_id)


def _skill(data: bytes) -> object:
    """A ``SKILL.md``."""
    text, _ = decode_text(data)
    return None if text is None else (read_head(text), read_front_matter(text))


def _url(data: bytes) -> object:
    text = data.decode("utf-8", "replace")
    kinds = {"redis": parse_redis_url, "valke": parse_redis_url, "postg": parse_postgres_url, "s3://": parse_s3_url}
    parse = kinds.get(text[:5])
    return read_target(text, None, "stream", None, 30.0) if parse is None else parse(text)


def _transcripts(data: bytes) -> object:
    path = _FILE.with_suffix(".json" if data[:1] == b"[" else ".jsonl")
    try:
        path.write_bytes(data)
        return read_transcripts(path)
    finally:
        path.unlink(missing_ok=True)


TARGETS: Final[dict[str, Target]] = {
    "block": Target(decode_block, (CodecError,)),
    "provenance": Target(decode_provenance, (ProvenanceError,)),
    "envelope": Target(decode_envelope, (CodecError,)),
    "cbor": Target(decode_cbor, (CodecError,)),
    "snapshot": Target(decode_snapshot, (CodecError,)),
    "state": Target(decode_state, (CodecError,)),
    "checkpoint": Target(Checkpoint.from_json, (CodecError,)),
    "lifecycle": Target(decode_event),
    "manifest": Target(decode_manifest, (CodecError,)),
    "raw_page": Target(_raw_page, (CodecError,)),
    "record": Target(_record),
    "graph": Target(_graph, (CodecError,)),
    "memory": Target(_memory, (CodecError, ProvenanceError)),
    "answer": Target(_answer, (CodecError, UnsupportedError)),
    "answer_stream": Target(_answer_stream, (CodecError, UnsupportedError)),
    "content": Target(decode_content, (CodecError,)),
    "reference": Target(decode_entry, (CodecError,)),
    "tree": Target(decode_tree, (CodecError,)),
    "head": Target(decode_head, (CodecError,)),
    "active": Target(_events, (CodecError,)),
    "skill": Target(_skill, (CodecError,)),
    "compaction": Target(_compaction, (CodecError,)),
    "cursor": Target(
        lambda data: parse_cursor(data.decode("utf-8", "replace"), _MATCH.conversation_id), (InvalidError,)
    ),
    "url": Target(_url, (ConfigError, InvalidError)),
    "chat": Target(chat_facts),
    "transcripts": Target(_transcripts, (InvalidError,)),
    "conversation_id": Target(lambda data: parse_conversation_id(data.decode("utf-8", "replace")), (IdError,)),
}


def attempt(target: Target, data: bytes) -> None:
    """Decodes once.

    Raises:
        AssertionError: it took too long, three times, or too much memory. Any error that the contract does not name.
    """
    reset_peak()
    before = peak_bytes()
    seconds = MAX_SECONDS
    for _ in range(3):
        began = time.thread_time()
        try:
            target.decode(data)
        except target.errors:
            pass
        seconds = time.thread_time() - began
        if seconds < MAX_SECONDS:
            break
    # Memory first: to get much of it takes long by itself.
    grown = peak_bytes() - before
    if grown > MAX_MEMORY_BYTES:
        raise AssertionError(f"took {grown:,} bytes of memory for {len(data)} bytes")
    if seconds >= MAX_SECONDS:
        raise AssertionError(f"took {seconds:.2f} s for {len(data)} bytes")
