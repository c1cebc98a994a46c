"""Every error that laser raises, in one tree.

::

    LaserError
    ├── InvalidError            an argument was refused; nothing was written
    │   ├── IdError             not a conversation id (26 Crockford base32 characters)
    │   ├── LimitError          an argument is over a documented limit
    │   ├── BudgetError         a token budget that cannot be met or used
    │   └── StaleCheckpointError    the log is not the one the checkpoint or snapshot was taken from
    ├── ProvenanceError         provenance headers cannot be written or read
    ├── CodecError              stored bytes cannot be decoded
    ├── NotFoundError           a stream, topic, session or key is absent
    ├── UnsupportedError        this engine, server or event loop cannot do it
    ├── ConfigError             a URL or setting is wrong
    ├── ConflictError           a compare-and-set was lost to another writer
    │   └── BusyError               something else is under way that keeps this from being done now
    ├── CompactionError         a compaction could not make a request smaller
    ├── SummaryError            a summarizer failed, or gave no usable summary
    ├── RetentionGapError       retention removed records that were asked for
    ├── ClosedError             the client, scope or session was closed
    ├── ProviderError           a required provider of a prompt failed or was late
    ├── StorageError            a local store failed: full disk, damaged file
    └── TransportError          a remote store could not be used
        ├── DisconnectedError       the connection is down
        ├── AuthenticationError     the server refused the credentials
        ├── DeadlineError           the call did not finish in time
        └── AppendIndeterminateError    the append may or may not be on the log

Errors carry their numbers as attributes, so that code need not parse the text, and ``retryable``, which says
whether the same call can succeed later without a change by the caller. Errors of drivers are chained as
``__cause__``. No error holds a password or a token.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AppendIndeterminateError",
    "AuthenticationError",
    "BudgetError",
    "BusyError",
    "ClosedError",
    "CodecError",
    "CompactionError",
    "ConfigError",
    "ConflictError",
    "DeadlineError",
    "DisconnectedError",
    "IdError",
    "InvalidError",
    "LaserError",
    "LimitError",
    "NotFoundError",
    "ProvenanceError",
    "ProviderError",
    "RetentionGapError",
    "StaleCheckpointError",
    "StorageError",
    "SummaryError",
    "TransportError",
    "UnsupportedError",
]


class LaserError(Exception):
    """The root of every error raised by laser.

    Attributes:
        retryable: whether the same call may succeed later, unchanged.
    """

    retryable: ClassVar[bool] = False


class InvalidError(LaserError, ValueError):
    """An argument was refused before anything was read or written.

    Attributes:
        argument: the name of the argument, as the caller wrote it.
    """

    def __init__(self, message: str, *, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument


class IdError(InvalidError):
    """The text is not a conversation id."""


class LimitError(InvalidError):
    """An argument is larger than a documented limit (see ``laser.limits``).

    Attributes:
        size: what was given. limit: the most that is allowed, in the same unit.
    """

    def __init__(self, message: str, *, argument: str | None = None, size: int, limit: int) -> None:
        super().__init__(message, argument=argument)
        self.size = size
        self.limit = limit


class BudgetError(InvalidError):
    """A token budget is not a whole number from 0, or cannot hold what must stay.

    Attributes:
        needed, available: tokens, where what must stay was counted; else ``None``.
    """

    def __init__(
        self, message: str, *, argument: str | None = None, needed: int | None = None, available: int | None = None
    ) -> None:
        super().__init__(message, argument=argument)
        self.needed = needed
        self.available = available


class ProvenanceError(LaserError, ValueError):
    """Provenance headers cannot be encoded or decoded.

    Attributes:
        header: the header's key, where one is to blame.
    """

    def __init__(self, message: str, *, header: str | None = None) -> None:
        super().__init__(message)
        self.header = header


class CodecError(LaserError, ValueError):
    """Stored bytes are not what their format allows."""


class NotFoundError(LaserError, LookupError):
    """A named thing does not exist.

    Attributes:
        stream: the stream's name, where the thing lives in one. topic: the topic's name, likewise.
    """

    def __init__(self, message: str, *, stream: str | None = None, topic: str | None = None) -> None:
        super().__init__(message)
        self.stream = stream
        self.topic = topic


class UnsupportedError(LaserError):
    """The engine, server or event loop in use cannot do this."""


class ConfigError(LaserError, ValueError):
    """A URL, an environment variable or a combination of settings is wrong."""


class ConflictError(LaserError):
    """Another writer moved first; read again and decide anew."""


class BusyError(ConflictError):
    """A run, a turn or a compaction is under way that keeps this from being done now."""

    retryable = True


class CompactionError(LaserError):
    """A compaction could not make a request smaller: it is not tried again by itself before the request has grown.

    Attributes:
        tokens: of the request. window: what it has to fit into; ``None`` unknown.
    """

    def __init__(self, message: str, *, tokens: int, window: int | None) -> None:
        super().__init__(message)
        self.tokens = tokens
        self.window = window


class SummaryError(LaserError):
    """A summarizer failed, was late, or answered with something that is no summary. Nothing was changed."""

    retryable = True


class StaleCheckpointError(InvalidError):
    """The log is no longer the one that a checkpoint or snapshot was taken from: recreated, purged, or cut short.

    Attributes:
        topic, partition: where. expected: what the checkpoint holds. actual: what the log holds.
    """

    def __init__(self, message: str, *, topic: str, partition: int | None, expected: int, actual: int) -> None:
        super().__init__(message, argument="checkpoint")
        self.topic = topic
        self.partition = partition
        self.expected = expected
        self.actual = actual


class RetentionGapError(LaserError):
    """Retention removed records between the wanted offset and the first one still there.

    Attributes:
        topic, partition: where. wanted: the offset asked for. first: the first offset that the log still holds.
    """

    def __init__(self, message: str, *, topic: str, partition: int, wanted: int, first: int) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.wanted = wanted
        self.first = first


class ClosedError(LaserError):
    """The object was closed, belongs to another event loop, or was opened before a fork."""


class ProviderError(LaserError):
    """A required provider of a prompt failed, was late or gave too much; what it raised is chained.

    Attributes:
        provider: its name.
    """

    def __init__(self, message: str, *, provider: str) -> None:
        super().__init__(message)
        self.provider = provider


class StorageError(LaserError):
    """A local store could not do its work: a full disk, a damaged or unwritable file.

    Attributes:
        path: the file or directory.
    """

    def __init__(self, message: str, *, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class TransportError(LaserError):
    """A remote store could not be reached or refused the call."""

    retryable = True


class DisconnectedError(TransportError):
    """The connection is down and was not restored within the deadline."""


class AuthenticationError(TransportError):
    """The server refused the credentials."""

    retryable = False


class DeadlineError(TransportError):
    """The call did not finish within its deadline.

    Attributes:
        seconds: the deadline.
    """

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class AppendIndeterminateError(TransportError):
    """The append was sent and no answer came: its records may or may not be on the log.

    Append again with the same ``id`` to make sure: a record whose id is on the log already is shown once.

    Attributes:
        record_ids: the ids of the records in doubt, in append order.
    """

    def __init__(self, message: str, *, record_ids: tuple[int, ...]) -> None:
        super().__init__(message)
        self.record_ids = record_ids
