"""Whether a conversation still ends where somebody saw it end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from laser.context.replay import Replay
from laser.context.spans import look_up, spans_from_checkpoint
from laser.errors import ConflictError, InvalidError
from laser.model.checkpoint import Checkpoint
from laser.model.messages import ContextMessage
from laser.model.topics import AgentTopic
from laser.model.window import Match
from laser.ports.log import Log
from laser.session.transcript import read_transcript

__all__ = ["check_after", "check_unmoved"]

_TOPIC: Final = AgentTopic.Sessions


def check_after(after: object, conversation: str) -> ContextMessage | Checkpoint:
    """What a caller saw last of a conversation.

    Raises:
        InvalidError: it is neither a message of the conversation on ``agent.sessions`` nor a checkpoint of that topic.
    """
    if isinstance(after, Checkpoint):
        # One that was taken before there was the topic covers nothing, and nothing was seen.
        if after.topic_offsets(_TOPIC) is None and not after.is_empty():
            raise InvalidError(f"after: the checkpoint does not cover {_TOPIC!r}", argument="after")
        return after
    if not isinstance(after, ContextMessage):
        raise InvalidError(
            f"after: expected a ContextMessage, a Checkpoint or None, got {type(after).__name__}", argument="after"
        )
    if after.topic != _TOPIC or after.provenance.conversation_id != conversation:
        raise InvalidError(
            f"after: message {after.id} of {after.topic!r} is none of session {conversation} on {_TOPIC!r}",
            argument="after",
        )
    return after


async def check_unmoved(
    log: Log, stream: str, conversation: str, began: Callable[[], Awaitable[int]], after: ContextMessage | Checkpoint
) -> None:
    """Refuses a conversation that has messages which a caller did not see.

    Args:
        after: the newest message that was seen, or where the topic ended then. Places are compared, and the record at
            the place; never times.

    Raises:
        ConflictError: there is a newer message. RetentionGapError, StaleCheckpointError: the log cannot tell any more.
    """
    if isinstance(after, Checkpoint):
        spans = spans_from_checkpoint([_TOPIC], await look_up(log, stream, [_TOPIC]), after)
        newer = await Replay(log, stream, Match(conversation), spans).next_batch(1)
        newest = newer[0] if newer else None
    else:
        page = await read_transcript(log, stream, conversation, began, limit=1)
        newest = page.messages[0] if page.messages else None
        if newest is not None and _place(newest) == _place(after):
            newest = None
        elif newest is None:
            raise ConflictError(f"message {after.id} is not on {_TOPIC!r} any more; read the conversation again")
    if newest is not None:
        raise ConflictError(
            f"message {newest.id} came after what was seen of session {conversation}; read the conversation again"
        )


def _place(message: ContextMessage) -> tuple[int, int, int | None]:
    return message.partition, message.offset, message.record_id
