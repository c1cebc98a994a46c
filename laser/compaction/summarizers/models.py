"""Summaries by a model, on any of the three APIs. Sending is the caller's business: nothing here knows a credential."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from laser.context.policies import check_names
from laser.errors import InvalidError, SummaryError
from laser.model.checks import shown
from laser.models.entries import LoweringEntry
from laser.models.lowering import LoweredRequest, RequestOptions, lower_request
from laser.models.parsing import parse_reply
from laser.models.selection import ApiKind, ModelSelection
from laser.ports.summarizer import Summary, SummaryRequest

__all__ = ["ModelSummarizer", "Send"]

Send = Callable[[LoweredRequest], Awaitable[bytes | Mapping[str, Any]]]
"""Sends a request, and gives the answer: its body, or its JSON. It knows the address and the credentials, and raises
when there is no answer. With an official client: ``client.chat.completions.create(**request.arguments())``."""

_LIMITS: Final[dict[ApiKind, str]] = {
    "openai_responses": "max_output_tokens",
    "anthropic_messages": "max_tokens",
    "chat_completions": "max_completion_tokens",
}


class ModelSummarizer:
    """Summaries by a model of OpenAI Responses, Anthropic Messages or Chat Completions.

    It gives the model no tools. What the model did not bring to its end, refused, or wanted a tool for is no summary.

    Args:
        send: sends a request. selection: the model and its API.
        parameters: more of the provider's own, such as a temperature. allow: those that laser does not know.
        limit_parameter: the one that bounds the answer, where it is not the API's usual one: older servers of Chat
            Completions know ``max_tokens`` only.
        headroom: tokens that the answer may have beside the summary, for models that reason before they write.

    Raises:
        InvalidError: a bad argument, or one that would give the model tools.
    """

    def __init__(
        self,
        send: Send,
        selection: ModelSelection,
        parameters: Mapping[str, Any] | None = None,
        *,
        allow: tuple[str, ...] = (),
        limit_parameter: str | None = None,
        headroom: int = 0,
    ) -> None:
        if not callable(send):
            raise InvalidError(
                f"send: expected an async function from a request to the answer, got {type(send).__name__}",
                argument="send",
            )
        if not isinstance(selection, ModelSelection):
            raise InvalidError(
                f"selection: expected a ModelSelection, got {type(selection).__name__}", argument="selection"
            )
        if parameters is not None and not isinstance(parameters, Mapping):
            raise InvalidError(
                f"parameters: expected a mapping from name to value, got {type(parameters).__name__}",
                argument="parameters",
            )
        check_names(allow, "allow")
        if limit_parameter is not None and not isinstance(limit_parameter, str):
            raise InvalidError(
                f"limit_parameter: expected a parameter's name, got {type(limit_parameter).__name__}",
                argument="limit_parameter",
            )
        self._selection = selection.check()
        more = dict(parameters or {})
        for name in more:
            if not isinstance(name, str):
                raise InvalidError(f"parameters: {shown(name)} is not a parameter's name", argument="parameters")
            if "tool" in name:
                raise InvalidError(
                    f"parameters: {name!r} has no place in a request for a summary", argument="parameters"
                )
        if type(headroom) is not int or headroom < 0:
            raise InvalidError(f"headroom: {shown(headroom)} is not a number of tokens from 0", argument="headroom")
        if selection.api_kind == "openai_responses":
            more.setdefault("store", False)
        self._send = send
        self._parameters = more
        self._allow = allow
        self._limit = limit_parameter or _LIMITS[selection.api_kind]
        self._headroom = headroom
        # What is wrong with the parameters is told now, not when the first summary is due.
        self._lower("-", "-", 1)

    async def summarize(self, request: SummaryRequest) -> Summary:
        """See ``Summarizer.summarize``."""
        words = max(1, request.max_tokens * 3 // 4)
        lowered = self._lower(
            f"{request.instructions} Use at most {words} words or so.", _material(request), request.max_tokens
        )
        reply = parse_reply(self._selection.api_kind, await self._send(lowered))
        if reply.error is not None:
            # The provider's words may quote what was sent.
            raise SummaryError(f"the provider answered with an error ({reply.error.code}); nothing was changed")
        if reply.refusal is not None or any(item.kind == "tool_call" for item in reply.items):
            raise SummaryError("the model refused, or called a tool; nothing was changed")
        return Summary(reply.text, reply.completed)

    def _lower(self, instructions: str, material: str, max_tokens: int) -> LoweredRequest:
        entries = [LoweringEntry.instruction(instructions), LoweringEntry.user(material)]
        parameters = {**self._parameters, self._limit: max_tokens + self._headroom}
        options = RequestOptions(parameters=parameters, allow=self._allow, cache=False)
        return lower_request(self._selection, entries, options)

    def __repr__(self) -> str:
        return f"ModelSummarizer({self._selection!r})"


def _material(request: SummaryRequest) -> str:
    if request.previous is None:
        return f"The text:\n\n{request.text}"
    return f"The summary so far:\n\n{request.previous}\n\nWhat followed:\n\n{request.text}"
