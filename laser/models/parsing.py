"""A provider's answer, whole or streamed, as a ``ModelReply``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from laser.errors import CodecError, InvalidError, LimitError
from laser.limits import MAX_REPLY_BYTES
from laser.models.anthropic_messages.folding import MessagesFold
from laser.models.anthropic_messages.reading import read as read_message
from laser.models.chat_completions.folding import CompletionsFold
from laser.models.chat_completions.reading import read as read_completion
from laser.models.exact import copy_json, read_json
from laser.models.openai_responses.folding import ResponsesFold
from laser.models.openai_responses.reading import read as read_response
from laser.models.replies import ModelReply
from laser.models.selection import ApiKind, check_api_kind
from laser.models.sse import EventReader

__all__ = ["ReplyStream", "parse_reply", "read_answer"]

_READERS: Final[dict[ApiKind, Callable[[Mapping[str, Any]], ModelReply]]] = {
    "openai_responses": read_response,
    "anthropic_messages": read_message,
    "chat_completions": read_completion,
}


class _Fold(Protocol):
    ended: bool
    unread: dict[str, None]

    def add(self, event: dict[str, Any], /) -> None: ...
    def result(self) -> ModelReply: ...


_FOLDS: Final[dict[ApiKind, Callable[[], _Fold]]] = {
    "openai_responses": ResponsesFold,
    "anthropic_messages": MessagesFold,
    "chat_completions": CompletionsFold,
}


def parse_reply(api_kind: ApiKind, answer: bytes | Mapping[str, Any]) -> ModelReply:
    """Reads an answer that was not streamed.

    Args:
        answer: the body of the provider's answer; from an official client, its raw content, or ``to_dict()`` of its
            object. Bytes are better: an object may have lost what its version of the client does not know.

    Raises:
        CodecError: it is no answer of this API. LimitError: over ``MAX_REPLY_BYTES``. InvalidError: wrong types.
        UnsupportedError: several choices, or a function call without an id.
    """
    return _READERS[check_api_kind(api_kind)](read_answer(answer))


def read_answer(answer: bytes | Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object that an answer is. Raises as ``parse_reply`` does."""
    if isinstance(answer, Mapping):
        copied: dict[str, Any] = copy_json(answer, "answer")
        return copied
    if not isinstance(answer, bytes | bytearray | memoryview):
        raise InvalidError(f"answer: expected bytes or a mapping, got {type(answer).__name__}", argument="answer")
    if len(answer) > MAX_REPLY_BYTES:
        raise LimitError(
            f"answer: has {len(answer)} bytes, allowed are {MAX_REPLY_BYTES}",
            argument="answer",
            size=len(answer),
            limit=MAX_REPLY_BYTES,
        )
    value = read_json(bytes(answer))
    if not isinstance(value, dict):
        raise CodecError(f"the answer is a JSON {type(value).__name__}, not an object")
    return value


class ReplyStream:
    """A streamed answer, folded as it arrives into the form that it would have had without streaming.

    Give it either the bytes of the body, cut anywhere, or events that a client has read already; not both. It does no
    I/O and can be asked at any time::

        stream = ReplyStream("anthropic_messages")
        async with client.messages.with_streaming_response.create(**request.arguments()) as answer:
            async for chunk in answer.iter_bytes():
                stream.feed(chunk)
        reply = stream.close()

    Args:
        api_kind: which API streams.
    """

    def __init__(self, api_kind: ApiKind) -> None:
        self.api_kind = check_api_kind(api_kind)
        self._reader = EventReader()
        self._fold = _FOLDS[self.api_kind]()
        self._closed: ModelReply | None = None

    @property
    def ended(self) -> bool:
        """Whether the provider has said that the answer is over."""
        return self._fold.ended

    def feed(self, chunk: bytes) -> None:
        """Takes bytes of the body.

        Raises:
            CodecError: an event is not JSON. LimitError: more than ``MAX_REPLY_BYTES`` in all.
            InvalidError: the stream is closed.
        """
        self._check_open()
        for data in self._reader.feed(bytes(chunk)):
            self._take(data)

    def add(self, event: Mapping[str, Any]) -> None:
        """Takes one event that a client has read, as ``event.to_dict()`` of the official clients gives it.

        Raises:
            InvalidError: it is no mapping of JSON values, or the stream is closed.
        """
        self._check_open()
        if not isinstance(event, Mapping):
            raise InvalidError(f"event: expected a mapping, got {type(event).__name__}", argument="event")
        self._fold.add(copy_json(event, "event"))

    def so_far(self) -> ModelReply:
        """What has arrived; not completed before the end."""
        reply = self._fold.result()
        return msgspec.structs.replace(reply, unread=tuple(self._fold.unread)) if self._fold.unread else reply

    def close(self) -> ModelReply:
        """The reply, after the last byte or event. A stream that was cut gives one that is not ``completed``.

        Calling it again gives the same.
        """
        if self._closed is None:
            for data in self._reader.close():
                try:
                    self._take(data)
                except CodecError:
                    # The body was cut within its last event. An object that is cut is never JSON.
                    continue
            self._closed = self.so_far()
        return self._closed

    def _take(self, data: bytes) -> None:
        if data.strip() == b"[DONE]":
            return
        event = read_json(data)
        if not isinstance(event, dict):
            raise CodecError(f"an event of the stream is a JSON {type(event).__name__}, not an object")
        self._fold.add(event)

    def _check_open(self) -> None:
        if self._closed is not None:
            raise InvalidError("stream: is closed; make a new one for each answer", argument="stream")
