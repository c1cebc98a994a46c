"""What the caller knows of a model call, and when a strategy compacts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from laser.compaction.inputs import PreparedInput
from laser.compaction.sizes import Estimator, message_cost
from laser.errors import BudgetError, InvalidError
from laser.model.checks import shown

__all__ = ["CompactionLimits", "Request", "check_estimator", "check_tokens", "make_request"]


class CompactionLimits(msgspec.Struct, frozen=True):
    """When a strategy compacts, and what it leaves.

    Attributes:
        trigger_percent: of the window, 1 to 100: a request that reaches it is compacted.
        tail_percent: of the window, 1 to 99 and below the trigger: what stays as it is, about.
        window: tokens; ``None`` takes the window that the caller names for its model.

    Raises:
        InvalidError: a value out of its range.
    """

    trigger_percent: int = 90
    tail_percent: int = 25
    window: int | None = None

    def __post_init__(self) -> None:
        for name, low, high in (("trigger_percent", 1, 100), ("tail_percent", 1, 99)):
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise InvalidError(f"{name}: {shown(value)} is not a whole number from {low} to {high}", argument=name)
        if self.tail_percent >= self.trigger_percent:
            raise InvalidError(
                f"tail_percent: {self.tail_percent} is not below trigger_percent {self.trigger_percent}",
                argument="tail_percent",
            )
        if self.window is not None:
            check_tokens(self.window, "window", least=1)


class Request(msgspec.Struct, frozen=True):
    """What the caller knows of the model call.

    Attributes:
        window: tokens of the model's window, ``None`` unknown. reserved: tokens to keep for what is no input.
        context: inputs that come first and are never compacted.
        images: whether the model reads images, ``None`` unknown. provider: its provider's name.
        keep_last: messages that stay as they are, at least, in the place of the tail's share of the window.
        summary_tokens: how long a summary may become, at most; ``None`` leaves it to the window.
    """

    window: int | None = None
    reserved: int = 0
    context: tuple[PreparedInput, ...] = ()
    images: bool | None = None
    provider: str | None = None
    keep_last: int | None = None
    summary_tokens: int | None = None


def check_tokens(value: object, argument: str, least: int = 0) -> int:
    """A count of tokens, below 2**128.

    Raises:
        BudgetError: it is none.
    """
    # Numbers of thousands of digits have no text, which other errors show.
    if type(value) is not int or not least <= value < 2**128:
        raise BudgetError(
            f"{argument}: {shown(value)} is not a whole number of tokens from {least}, below 2**128", argument=argument
        )
    return value


def check_estimator(value: Estimator | None) -> Estimator:
    """The function that counts a message's tokens; laser's own where none is given.

    Raises:
        InvalidError: it cannot be called.
    """
    if value is not None and not callable(value):
        raise InvalidError(
            f"estimator: expected a function from a message's bytes to its tokens, got {type(value).__name__}",
            argument="estimator",
        )
    return message_cost if value is None else value


def make_request(
    estimator: Estimator,
    window: int | None,
    reserve: int,
    context: Sequence[bytes],
    images: bool | None,
    provider: str | None,
) -> Request:
    """What a caller of ``Compaction`` asked for, checked."""
    if window is not None:
        check_tokens(window, "window", least=1)
    check_tokens(reserve, "reserve")
    if window is not None and reserve >= window:
        raise BudgetError(f"reserve: {reserve} tokens leave nothing of a window of {window}", argument="reserve")
    if isinstance(context, str | bytes) or not isinstance(context, Sequence):
        raise InvalidError(
            f"context: expected a list of messages as bytes, got {type(context).__name__}", argument="context"
        )
    if images is not None and not isinstance(images, bool):
        raise InvalidError(f"images: {shown(images)} is none of True, False and None", argument="images")
    if provider is not None and not isinstance(provider, str):
        raise InvalidError(f"provider: expected a name, got {type(provider).__name__}", argument="provider")
    inputs: list[PreparedInput] = []
    for place, payload in enumerate(context):
        if not isinstance(payload, bytes):
            raise InvalidError(
                f"context[{place}]: expected a message as bytes, got {type(payload).__name__}", argument="context"
            )
        inputs.append(PreparedInput(payload, estimator(payload), "context"))
    return Request(window, reserve, tuple(inputs), images, provider)
