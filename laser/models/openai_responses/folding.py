"""A stream of OpenAI Responses, folded into the response that it is of."""

from __future__ import annotations

from typing import Any, Final

from laser.models.facts import mapping, text
from laser.models.growing import GrowingTexts
from laser.models.openai_responses.reading import read
from laser.models.replies import ModelReply

__all__ = ["ResponsesFold"]

# Events that add letters: where in the item the text is, by the names of the index and of the list it counts.
_DELTAS: Final[dict[str, tuple[str | None, str | None, str]]] = {
    "response.output_text": ("content_index", "content", "text"),
    "response.refusal": ("content_index", "content", "refusal"),
    "response.reasoning_text": ("content_index", "content", "text"),
    "response.reasoning_summary_text": ("summary_index", "summary", "text"),
    "response.function_call_arguments": (None, None, "arguments"),
    "response.mcp_call_arguments": (None, None, "arguments"),
    "response.custom_tool_call_input": (None, None, "input"),
    "response.code_interpreter_call_code": (None, None, "code"),
}
_PARTS: Final = {
    "response.content_part": ("content_index", "content"),
    "response.reasoning_summary_part": ("summary_index", "summary"),
}
_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
_BEGINS: Final = frozenset({"response.created", "response.in_progress", "response.queued"})
# Progress of work at the provider: its outcome comes with the item's own end.
_PROGRESS: Final = (
    "response.web_search_call.",
    "response.file_search_call.",
    "response.code_interpreter_call.",
    "response.image_generation_call.",
    "response.mcp_call.",
    "response.mcp_list_tools.",
    "response.compaction.",
    "response.shell_call_",
    "response.audio.",
    "keepalive",
)


class ResponsesFold:
    """The response that the events so far are of. The last event brings it whole; until then it is built from pieces.

    Attributes:
        ended: whether a last event arrived. unread: types of events that are not known, in order of appearance.
    """

    def __init__(self) -> None:
        self.ended = False
        self.unread: dict[str, None] = {}
        self._response: dict[str, Any] = {}
        self._items: dict[int, dict[str, Any]] = {}
        self._done: set[int] = set()
        self._texts = GrowingTexts()
        self._error: dict[str, Any] | None = None

    def add(self, event: dict[str, Any]) -> None:
        """Takes one event."""
        name = text(event.get("type"))
        if name in _ENDS or name in _BEGINS:
            if isinstance(event.get("response"), dict):
                self._response = event["response"]
                self.ended = self.ended or name in _ENDS
        elif name == "error":
            self._error = {key: event[key] for key in ("code", "message", "param") if key in event}
            self._error = self._error or dict(mapping(event.get("error")))
            self.ended = True
        elif name in ("response.output_item.added", "response.output_item.done"):
            self._item(event, done=name.endswith("done"))
        else:
            self._piece(name, event)

    def result(self) -> ModelReply:
        """The reply so far."""
        self._texts.join()
        response = dict(self._response)
        output = response.get("output")
        unfinished: set[int] = set()
        if not (self.ended and isinstance(output, list) and output) and self._items:
            # Also some who end a stream properly leave the output out of the last event.
            places = sorted(self._items)
            response["output"] = [self._items[place] for place in places]
            unfinished = {index for index, place in enumerate(places) if place not in self._done}
        if self._error is not None:
            response["status"] = "failed"
            response["error"] = self._error
        return read(response, interrupted=not self.ended, unfinished=unfinished)

    def _item(self, event: dict[str, Any], *, done: bool) -> None:
        place, item = event.get("output_index"), event.get("item")
        if isinstance(place, int) and isinstance(item, dict):
            self._items[place] = item
            if done:
                self._done.add(place)

    def _piece(self, name: str, event: dict[str, Any]) -> None:
        stem, _, step = name.rpartition(".")
        if stem in _DELTAS and step in ("delta", "done"):
            counted, among, field = _DELTAS[stem]
            holder = self._holder(event, counted, among)
            if holder is not None:
                if step == "delta":
                    self._texts.add(holder, field, text(event.get("delta")))
                elif isinstance(event.get(field), str):
                    self._texts.set(holder, field, event[field])
        elif stem in _PARTS and step in ("added", "done"):
            counted, among = _PARTS[stem]
            item, part, index = self._at(event), event.get("part"), event.get(counted)
            if item is not None and isinstance(part, dict) and isinstance(index, int):
                parts = item.setdefault(among, [])
                if isinstance(parts, list):
                    parts[index : index + 1] = [part]
        elif name == "response.output_text.annotation.added":
            holder = self._holder(event, "content_index", "content")
            if holder is not None:
                found = holder.setdefault("annotations", [])
                if isinstance(found, list):
                    found.append(event.get("annotation"))
        elif not name.startswith(_PROGRESS):
            self.unread[name] = None

    def _at(self, event: dict[str, Any]) -> dict[str, Any] | None:
        place = event.get("output_index")
        return self._items.get(place) if isinstance(place, int) and place not in self._done else None

    def _holder(self, event: dict[str, Any], counted: str | None, among: str | None) -> dict[str, Any] | None:
        item = self._at(event)
        if item is None or counted is None or among is None:
            return item
        parts, index = item.get(among), event.get(counted)
        if isinstance(parts, list) and isinstance(index, int) and 0 <= index < len(parts):
            part = parts[index]
            return part if isinstance(part, dict) else None
        return None
