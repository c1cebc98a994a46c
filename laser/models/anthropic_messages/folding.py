"""A stream of Anthropic Messages, folded into the message that it is of."""

from __future__ import annotations

from typing import Any, Final

from laser.errors import CodecError
from laser.models.anthropic_messages.reading import read
from laser.models.exact import read_json
from laser.models.facts import mapping, text
from laser.models.growing import GrowingTexts
from laser.models.replies import ModelReply

__all__ = ["MessagesFold"]

_JSON_DELTA: Final = "input_json_delta"


class MessagesFold:
    """The message that the events so far are of.

    Attributes:
        ended: whether ``message_stop`` or an error arrived. unread: types of events and deltas that are not known.
    """

    def __init__(self) -> None:
        self.ended = False
        self.unread: dict[str, None] = {}
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._done: set[int] = set()
        self._texts = GrowingTexts()
        self._inputs: dict[int, list[str]] = {}
        self._broken: str | None = None
        self._error: object = None

    def add(self, event: dict[str, Any]) -> None:
        """Takes one event."""
        name = text(event.get("type"))
        place = event.get("index")
        if name == "message_start":
            self._message = dict(mapping(event.get("message")))
        elif name == "content_block_start" and isinstance(place, int):
            self._blocks[place] = dict(mapping(event.get("content_block")))
        elif name == "content_block_delta" and isinstance(place, int):
            self._delta(place, dict(mapping(event.get("delta"))))
        elif name == "content_block_stop" and isinstance(place, int):
            self._stop(place)
        elif name == "message_delta":
            self._message.update(mapping(event.get("delta")))
            # Counts are of the whole message so far; one that is absent or null leaves the earlier one.
            told = {key: value for key, value in mapping(event.get("usage")).items() if value is not None}
            self._message["usage"] = dict(mapping(self._message.get("usage"))) | told
            self._message |= {
                key: value
                for key, value in event.items()
                if key not in ("type", "delta", "usage") and value is not None
            }
        elif name == "message_stop":
            self.ended = True
        elif name == "error":
            self._error = event.get("error") or {}
            self.ended = True
        elif name != "ping":
            self.unread[name] = None

    def result(self) -> ModelReply:
        """The reply so far."""
        self._texts.join()
        message = dict(self._message)
        places = sorted(self._blocks)
        message["content"] = [self._blocks[place] for place in places]
        if self._error is not None:
            message["error"] = self._error
        unfinished = {index for index, place in enumerate(places) if place not in self._done}
        return read(message, interrupted=not self.ended, unfinished=unfinished, broken=self._broken)

    def _delta(self, place: int, delta: dict[str, Any]) -> None:
        block = self._blocks.get(place)
        if block is None:
            return
        name = text(delta.pop("type", None))
        if name == _JSON_DELTA:
            self._inputs.setdefault(place, []).append(text(delta.get("partial_json")))
        elif name == "citations_delta":
            known = block.get("citations")
            block["citations"] = [*(known if isinstance(known, list) else ()), delta.get("citation")]
        else:
            if name not in ("text_delta", "thinking_delta", "signature_delta"):
                self.unread[name] = None
            for key, value in delta.items():
                if isinstance(block.get(key), str) and isinstance(value, str):
                    self._texts.add(block, key, value)
                else:
                    self._texts.set(block, key, value)

    def _stop(self, place: int) -> None:
        self._done.add(place)
        block, letters = self._blocks.get(place), "".join(self._inputs.pop(place, ()))
        if block is None or not letters:
            return
        try:
            block["input"] = read_json(letters.encode("utf-8", "surrogatepass"))
        except CodecError:
            # Cut at the output limit, or streamed by a model without a check: never half an input.
            self._broken = self._broken or text(block.get("id"))
            self._done.discard(place)
