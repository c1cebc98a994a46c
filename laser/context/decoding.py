"""From a record of the log to a message of a conversation."""

from __future__ import annotations

from laser.errors import CodecError, ProvenanceError
from laser.limits import COPY_DISTANCE
from laser.model.messages import ContextMessage, SkippedRecord
from laser.model.records import LogRecord
from laser.model.topics import TopicInfo
from laser.wire.content import decode_entry
from laser.wire.envelope import decode_envelope, envelope_provenance, is_envelope
from laser.wire.frames import is_reference, unframe
from laser.wire.provenance import decode_provenance
from laser.wire.routing import route

__all__ = ["Copies", "decode_record"]


def decode_record(record: LogRecord, topic: TopicInfo) -> ContextMessage | SkippedRecord:
    """The message that a record holds, or why it holds none."""
    envelope = None
    try:
        if is_envelope(record.headers):
            envelope = decode_envelope(record.payload)
            provenance = envelope_provenance(envelope)
            named = route(record.headers, record.payload).conversation_id
            if named != provenance.conversation_id:
                raise ProvenanceError(
                    f"the envelope names conversation {provenance.conversation_id}, the header {named}"
                )
        else:
            provenance = decode_provenance(record.headers)
        payload = unframe(record.headers, record.payload)
        entry = decode_entry(payload) if is_reference(record.headers) else None
    except (ProvenanceError, CodecError) as error:
        return SkippedRecord(topic.name, record.partition, record.offset, str(error))
    return ContextMessage(
        payload,
        topic.name,
        record.partition,
        record.offset,
        record.id,
        record.timestamp_micros,
        topic.stream_id,
        topic.topic_id,
        provenance,
        envelope,
        entry,
    )


class Copies:
    """Tells copies of one append: a partition's last records, in constant memory.

    An id alone is not enough: callers choose ids, and two conversations can choose the same one.
    """

    def __init__(self) -> None:
        self._offsets: dict[tuple[str | None, int], int] = {}

    def note(self, record: LogRecord, conversation_id: str | None) -> bool:
        """Notes a record and says whether it is a copy of one shortly before it. Offsets must ascend."""
        if not record.id:
            return False
        identity = conversation_id, record.id
        before = self._offsets.get(identity)
        if before is not None and record.offset - before <= COPY_DISTANCE:
            return True
        self._offsets[identity] = record.offset
        if len(self._offsets) > 2 * COPY_DISTANCE:
            low = record.offset - COPY_DISTANCE
            self._offsets = {known: offset for known, offset in self._offsets.items() if offset >= low}
        return False
