"""Providers: who contributes fragments to a prompt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from laser.context.connection import Connection
from laser.context.scope import ConversationScope
from laser.context.tokens import Tokenizer
from laser.errors import InvalidError
from laser.models.selection import ModelSelection
from laser.prompt.fencing import fence
from laser.prompt.fragments import LAYERS, Fragment, Layer, Place
from laser.prompt.notes import Notes
from laser.prompt.settings import PromptProfile

__all__ = ["DEFAULT_TIMEOUT", "BaseProvider", "ContextProvider", "FunctionProvider", "Provided", "TurnContext"]

DEFAULT_TIMEOUT: Final = 2.0
"""Seconds that a provider may take by default."""

Provided = Sequence[Fragment] | str | None
"""What a provider gives: fragments, a text that becomes one of its own name, or nothing."""


class TurnContext(msgspec.Struct, frozen=True):
    """What providers know of the turn that a prompt is built for.

    Attributes:
        message: the next message of the user, ``""`` where it is on the log already.
        tools: schemas, as they go to the model.
        laser, scope: the connection and the conversation; ``None`` in a build without a log.
        agent: who the prompt is for. tenant, customer: for whom, where known. variables: of this turn.
        history: messages as JSON that the caller gives in place of the stored ones; ``None`` reads those.
        profile: the settings. tokens: the tokenizer. notes: what the session keeps for its prompts.
        model: that the prompt is for, where known.
    """

    message: str
    tools: tuple[Mapping[str, Any], ...]
    laser: Connection | None
    scope: ConversationScope | None
    agent: str | None
    tenant: str | None
    customer: str | None
    variables: Mapping[str, str]
    history: tuple[bytes, ...] | None
    profile: PromptProfile
    tokens: Tokenizer
    notes: Notes = Notes()
    model: ModelSelection | None = None

    @property
    def conversation(self) -> str | None:
        """The conversation's id."""
        return None if self.scope is None else self.scope.conversation

    def fence(self, tag: str, text: str) -> str:
        """The text in a block of its own, escaped where the profile has fencing on."""
        return fence(tag, text, on=self.profile.fencing)


@runtime_checkable
class ContextProvider(Protocol):
    """The interface of a provider. ``BaseProvider`` has the defaults; any object of this shape works."""

    @property
    def name(self) -> str:
        """What traces and errors call it, and what ``PromptProfile.providers`` allows."""
        ...

    @property
    def layer(self) -> Layer:
        """``identity`` only when its text is the same in every turn until the configuration changes."""
        ...

    @property
    def priority(self) -> int:
        """The lowest leaves first when the budget is short; the highest comes first within its layer."""
        ...

    @property
    def pinned(self) -> bool:
        """Whether what it gives never leaves."""
        ...

    @property
    def required(self) -> bool:
        """Whether a turn fails without it. Another one that fails or is late is left out, with a warning."""
        ...

    @property
    def timeout(self) -> float:
        """Seconds that it may take."""
        ...

    def applies(self, turn: TurnContext) -> bool:
        """Whether it has something to say in this turn at all. No I/O."""
        ...

    async def provide(self, turn: TurnContext) -> Provided:
        """What it contributes. It must not block the event loop: nothing can stop it then."""
        ...


class BaseProvider:
    """A provider's defaults: volatile, neither pinned nor required, two seconds, always applies."""

    name: str = ""
    layer: Layer = "volatile"
    priority: int = 50
    pinned: bool = False
    required: bool = False
    timeout: float = DEFAULT_TIMEOUT

    def applies(self, turn: TurnContext) -> bool:
        """Always."""
        return True

    async def provide(self, turn: TurnContext) -> Provided:
        """To be written by each provider."""
        raise NotImplementedError(f"{type(self).__name__} has no method provide")

    def fragment(self, text: str, *, category: str | None = None, place: Place = "system") -> Fragment:
        """A fragment with this provider's layer, priority and pinning."""
        return Fragment(category or self.name, text, self.priority, self.layer, place, self.pinned)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, layer={self.layer!r}, priority={self.priority})"


class FunctionProvider(BaseProvider):
    """A provider made from an async function.

    Args:
        name: of the provider; a volatile text of it stands in a block of this name, so it is in lower case.
        function: from the turn to fragments, a text, or ``None``.
        priority, layer, pinned, required, timeout: see ``ContextProvider``.
    """

    def __init__(
        self,
        name: str,
        function: Callable[[TurnContext], Awaitable[Provided]],
        *,
        priority: int = 50,
        layer: Layer = "volatile",
        pinned: bool = False,
        required: bool = False,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        fence(name, "")
        if not callable(function):
            raise InvalidError("function: expected an async function of a TurnContext", argument="function")
        if layer not in LAYERS:
            raise InvalidError(f"layer: {layer!r:.40} is not one of {', '.join(LAYERS)}", argument="layer")
        self.name = name
        self.layer = layer
        self.priority = priority
        self.pinned = pinned
        self.required = required
        self.timeout = timeout
        self._function = function

    async def provide(self, turn: TurnContext) -> Provided:
        """What the function gives."""
        return await self._function(turn)
