"""From a record of the log to a message of a conversation."""

from __future__ import annotations

from laser.errors import CodecError, ProvenanceError
from laser.model.messages import ContextMessage, SkippedRecord
from laser.model.records import LogRecord
from laser.model.topics import TopicInfo
from laser.wire.envelope import decode_envelope, envelope_provenance, is_envelope
from laser.wire.frames import unframe
from laser.wire.provenance import decode_provenance

__all__ = ["decode_record"]


def decode_record(record: LogRecord, topic: TopicInfo) -> ContextMessage | SkippedRecord:
    """The message that a record holds, or why it holds none."""
    envelope = None
    try:
        if is_envelope(record.headers):
            envelope = decode_envelope(record.payload)
            provenance = envelope_provenance(envelope)
        else:
            provenance = decode_provenance(record.headers)
        payload = unframe(record.headers, record.payload)
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
    )
