"""Settings of a prompt: its budget, and who may contribute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from laser.context.policies import check_budget, check_names
from laser.errors import BudgetError, InvalidError

__all__ = ["DEFAULT_BUDGET", "PromptBudget", "PromptProfile"]

DEFAULT_BUDGET: Final = 8_000
"""Tokens of a prompt by default, reserves included."""


class PromptBudget(msgspec.Struct, frozen=True):
    """How many tokens a prompt may have, and what of them is taken off first.

    Attributes:
        tokens: in all. reply: kept free for the model's answer.
        tools: for tool schemas, message: for the next message; ``None`` counts those that a turn has.

    Raises:
        BudgetError: a value that is not a whole number from 0, or reserves that leave nothing.
    """

    tokens: int = DEFAULT_BUDGET
    reply: int = 1_024
    tools: int | None = None
    message: int | None = None

    def __post_init__(self) -> None:
        check_budget(self.tokens, "tokens")
        check_budget(self.reply, "reply")
        for name in ("tools", "message"):
            if getattr(self, name) is not None:
                check_budget(getattr(self, name), name)
        self.left(0, 0)

    def left(self, tools: int, message: int) -> int:
        """Tokens for the fragments, after the reserves.

        Args:
            tools, message: what those of a turn cost; a fixed reserve is taken where it is more.

        Raises:
            BudgetError: nothing is left, with the numbers.
        """
        tools, message = max(tools, self.tools or 0), max(message, self.message or 0)
        left = self.tokens - self.reply - tools - message
        if left <= 0:
            raise BudgetError(
                f"tokens: a budget of {self.tokens} leaves nothing after its reserves: reply {self.reply}, "
                f"tools {tools}, message {message}; raise the budget above {self.reply + tools + message}, "
                "or have fewer tools",
                argument="tokens",
            )
        return left


class PromptProfile(msgspec.Struct, frozen=True):
    """How an agent's prompts are built.

    Attributes:
        budget: see ``PromptBudget``.
        providers: names of the providers that may contribute; ``None`` allows all.
        fencing: contextual material is escaped, and a notice says that it is data.
        prompt_caching: whether explicit cache breakpoints are wanted, for APIs that have them.
    """

    budget: PromptBudget = PromptBudget()
    providers: Sequence[str] | None = None
    fencing: bool = True
    prompt_caching: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.budget, PromptBudget):
            raise InvalidError(
                f"budget: expected a PromptBudget, got {type(self.budget).__name__}; PromptBudget(tokens=…) makes one",
                argument="budget",
            )
        if self.providers is not None:
            check_names(self.providers, "providers")
