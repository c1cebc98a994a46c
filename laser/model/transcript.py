"""Transcripts: what a session's rows are called."""

from __future__ import annotations

import msgspec

__all__ = ["SourceRef"]


class SourceRef(msgspec.Struct, frozen=True, order=True, gc=False):
    """One row of a session's transcript.

    A fork has rows of its own, with references of its own.

    Attributes:
        session: its id. seq: the row's place: ascending in the order of the transcript, the same in every process,
            never used again, with gaps. It is the record's offset; where partitions were added to the topic while the
            session went on, a multiple of 2**44 is added for every change of the partition.
    """

    session: str
    seq: int
