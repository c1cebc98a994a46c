"""Summarizers on the three model APIs. They build request bodies and read answers; sending is the caller's business."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from laser.errors import InvalidError, SummaryError
from laser.ports.summarizer import Summary, SummaryRequest

__all__ = ["AnthropicMessagesSummarizer", "ChatCompletionsSummarizer", "OpenAIResponsesSummarizer", "Send"]

Send = Callable[[dict[str, Any]], Awaitable[Mapping[str, Any]]]
"""Sends a request body to a model's address, and gives the answer's JSON. It knows the address and the credentials, and
raises when the answer is an error."""


class _ApiSummarizer:
    """What the three have in common.

    Args:
        send: see ``Send``. model: the provider's name for the model. options: more members of the body, such as a
            temperature; tools are refused.
    """

    def __init__(self, send: Send, model: str, options: Mapping[str, Any] | None = None) -> None:
        if not isinstance(model, str) or not model.strip():
            raise InvalidError(f"model: expected a model's name, got {model!r:.40}", argument="model")
        more = dict(options or {})
        for name in ("tools", "tool_choice", "functions", "stream"):
            if name in more:
                raise InvalidError(f"options: {name!r} has no place in a request for a summary", argument="options")
        self._send = send
        self._model = model
        self._options = more

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self._model!r})"


class ChatCompletionsSummarizer(_ApiSummarizer):
    """Summaries by an API in the shape of OpenAI Chat Completions.

    Args:
        send, model, options: see ``OpenAIResponsesSummarizer``.
        limit_name: the member that bounds the answer; older servers know ``max_tokens`` only.
    """

    def __init__(
        self,
        send: Send,
        model: str,
        options: Mapping[str, Any] | None = None,
        *,
        limit_name: str = "max_completion_tokens",
    ) -> None:
        super().__init__(send, model, options)
        self._limit_name = limit_name

    async def summarize(self, request: SummaryRequest) -> Summary:
        """See ``Summarizer.summarize``."""
        messages = [
            {"role": "system", "content": _instructions(request)},
            {"role": "user", "content": _material(request)},
        ]
        body = {"model": self._model, "messages": messages, self._limit_name: request.max_tokens, **self._options}
        answer = await self._send(body)
        try:
            choice = answer["choices"][0]
            message = choice["message"]
            text, end = message["content"], choice.get("finish_reason")
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise _strange(error) from error
        if message.get("refusal") or message.get("tool_calls"):
            raise SummaryError("the model refused, or called a tool; nothing was changed")
        return Summary(_text(text), end == "stop")


class OpenAIResponsesSummarizer(_ApiSummarizer):
    """Summaries by OpenAI Responses. Nothing is stored at the provider.

    Args:
        send: sends a body and gives the answer's JSON. model: the provider's name for the model.
        options: more members of the body, such as a temperature; tools are refused.
    """

    async def summarize(self, request: SummaryRequest) -> Summary:
        """See ``Summarizer.summarize``."""
        body: dict[str, Any] = {
            "model": self._model,
            "instructions": _instructions(request),
            "input": [{"role": "user", "content": _material(request)}],
            "max_output_tokens": request.max_tokens,
            "store": False,
            **self._options,
        }
        answer = await self._send(body)
        texts: list[str] = []
        try:
            for item in answer["output"]:
                if item.get("type") == "message":
                    texts += [part["text"] for part in item["content"] if part.get("type") == "output_text"]
            status = answer.get("status")
        except (KeyError, TypeError, AttributeError) as error:
            raise _strange(error) from error
        return Summary(_text("".join(texts)), status == "completed")


class AnthropicMessagesSummarizer(_ApiSummarizer):
    """Summaries by Anthropic Messages.

    Args:
        send, model, options: see ``OpenAIResponsesSummarizer``.
    """

    async def summarize(self, request: SummaryRequest) -> Summary:
        """See ``Summarizer.summarize``."""
        body = {
            "model": self._model,
            "system": _instructions(request),
            "messages": [{"role": "user", "content": _material(request)}],
            "max_tokens": request.max_tokens,
            **self._options,
        }
        answer = await self._send(body)
        try:
            texts = [block["text"] for block in answer["content"] if block.get("type") == "text"]
            end = answer.get("stop_reason")
        except (KeyError, TypeError, AttributeError) as error:
            raise _strange(error) from error
        return Summary(_text("".join(texts)), end in ("end_turn", "stop_sequence"))


def _instructions(request: SummaryRequest) -> str:
    return f"{request.instructions} Use at most {max(1, request.max_tokens * 3 // 4)} words or so."


def _material(request: SummaryRequest) -> str:
    if request.previous is None:
        return f"The text:\n\n{request.text}"
    return f"The summary so far:\n\n{request.previous}\n\nWhat followed:\n\n{request.text}"


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise SummaryError(f"the answer holds {type(value).__name__} where its text should be; nothing was changed")
    return value


def _strange(error: Exception) -> SummaryError:
    return SummaryError(f"the answer is not of the expected shape ({type(error).__name__}); nothing was changed")
