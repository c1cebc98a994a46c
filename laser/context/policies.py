"""Policies: which messages of an ordered history stay.

A policy is pure: the same history gives the same selection. It selects from a view; the log is never changed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeGuard, runtime_checkable

import msgspec

from laser.errors import BudgetError, InvalidError
from laser.model.checks import shown
from laser.model.messages import ContextMessage
from laser.ports.estimator import TokenEstimator, message_tokens

__all__ = ["Chain", "ContextPolicy", "LastN", "PolicyLike", "RoleFilter", "Selection", "TokenBudget", "as_policy"]

# Numbers of thousands of digits have no text, and a policy has its count in its name.
_COUNT_END: Final = 2**128


class Selection(msgspec.Struct, frozen=True):
    """What a policy decided.

    Attributes:
        kept: messages that stay, oldest first. dropped: the others, oldest first.
        reason: the name of the policy.
        over_budget: the kept messages cost more than the budget, because a budget always keeps the newest one.
    """

    kept: list[ContextMessage]
    dropped: list[ContextMessage]
    reason: str
    over_budget: bool = False


@runtime_checkable
class ContextPolicy(Protocol):
    """The interface of a policy. A plain function from messages to messages works wherever a policy does."""

    @property
    def name(self) -> str:
        """The policy and its settings, such as ``last_n(20)``; a session records it."""
        ...

    @property
    def version(self) -> str:
        """Changes when the same name selects differently."""
        ...

    def selection(self, history: Sequence[ContextMessage]) -> Selection:
        """Splits an ordered history into what is kept and what is dropped."""
        ...


PolicyLike = ContextPolicy | Callable[[list[ContextMessage]], Iterable[ContextMessage]]


class LastN:
    """Keeps the newest ``n`` messages.

    Args:
        n: a whole number from 0; 0 keeps none.

    Raises:
        InvalidError: ``n`` is negative or not a whole number.
    """

    version = "1"

    def __init__(self, n: int) -> None:
        self.n = check_count(n, "n")

    @property
    def name(self) -> str:
        return f"last_n({self.n})"

    def selection(self, history: Sequence[ContextMessage]) -> Selection:
        cut = max(0, len(history) - self.n)
        return Selection(list(history[cut:]), list(history[:cut]), self.name)

    def __repr__(self) -> str:
        return f"LastN({self.n})"


class TokenBudget:
    """Keeps the newest messages that fit into a number of tokens.

    Messages are taken newest first until one does not fit; that one and all older ones are dropped. The newest
    message is always kept, even alone over the budget: ``Selection.over_budget`` says so.

    Args:
        max_tokens: a whole number from 0.
        estimator: tokens of a message, such as ``lambda message: len(tokenizer.encode(message.text))``. The default
            counts payload bytes divided by four, rounded up, as every SDK of this family does; give a real
            tokenizer where the ceiling must hold for every language.

    Raises:
        BudgetError: ``max_tokens`` is negative or not a whole number.
    """

    version = "1"

    def __init__(self, max_tokens: int, estimator: TokenEstimator | None = None) -> None:
        self.max_tokens = check_budget(max_tokens, "max_tokens")
        if estimator is not None and not callable(estimator):
            raise InvalidError("estimator: expected a function from a message to its tokens", argument="estimator")
        self._estimator = message_tokens if estimator is None else estimator

    @property
    def name(self) -> str:
        return f"token_budget({self.max_tokens})"

    def selection(self, history: Sequence[ContextMessage]) -> Selection:
        used = 0
        cut = len(history)
        while cut:
            tokens = self._count(history[cut - 1])
            if used + tokens > self.max_tokens and cut < len(history):
                break
            used += tokens
            cut -= 1
            if used > self.max_tokens:
                break
        return Selection(list(history[cut:]), list(history[:cut]), self.name, over_budget=used > self.max_tokens)

    def _count(self, message: ContextMessage) -> int:
        tokens = self._estimator(message)
        if type(tokens) is not int or tokens < 0:
            raise InvalidError(
                f"estimator: returned {shown(tokens)} for the message {message.topic} {message.id}; "
                "it must return a whole number of tokens from 0",
                argument="estimator",
            )
        return tokens

    def __repr__(self) -> str:
        return f"TokenBudget({self.max_tokens})"


class RoleFilter:
    """Keeps the messages of some agents, by ``Provenance.agent``.

    Args:
        agents: names, compared as they are. None of them keeps nothing; messages without an agent are dropped.
    """

    name = "role_filter"
    version = "1"

    def __init__(self, agents: Sequence[str]) -> None:
        self.agents = frozenset(check_names(agents, "agents"))

    def selection(self, history: Sequence[ContextMessage]) -> Selection:
        return split(history, lambda message: message.provenance.agent in self.agents, self.name)

    def __repr__(self) -> str:
        return f"RoleFilter({sorted(self.agents)})"


class Chain:
    """Applies policies one after another, each to what the one before kept.

    Args:
        policies: policies or plain functions; none of them keeps everything.
    """

    version = "1"

    def __init__(self, policies: Sequence[PolicyLike]) -> None:
        if isinstance(policies, str) or not isinstance(policies, Sequence):
            raise InvalidError("policies: expected a list of policies", argument="policies")
        self.policies = tuple(as_policy(policy) for policy in policies)

    @property
    def name(self) -> str:
        return f"chain({','.join(policy.name for policy in self.policies)})"

    def selection(self, history: Sequence[ContextMessage]) -> Selection:
        kept = list(history)
        over_budget = False
        for policy in self.policies:
            step = select(policy, kept)
            kept = step.kept
            over_budget = over_budget or step.over_budget
        stays = set(map(id, kept))
        dropped = [message for message in history if id(message) not in stays]
        return Selection(kept, dropped, self.name, over_budget)

    def __repr__(self) -> str:
        return f"Chain({list(self.policies)})"


class _Custom:
    """A plain function as a policy."""

    name = "custom"
    version = "1"

    def __init__(self, function: Callable[[list[ContextMessage]], Iterable[ContextMessage]]) -> None:
        self._function = function

    def selection(self, history: Sequence[ContextMessage]) -> Selection:
        result: Any = self._function(list(history))
        # A mistake must not pass as "nothing to keep", nor as "keep everything".
        _refuse_async(result)
        if isinstance(result, str | bytes) or not isinstance(result, Iterable):
            raise InvalidError(
                f"policy: the function returned {type(result).__name__}; it must return the messages to keep",
                argument="policy",
            )
        kept = list(result)
        for message in kept:
            if not isinstance(message, ContextMessage):
                raise InvalidError(
                    f"policy: the function returned a {type(message).__name__} among the messages to keep",
                    argument="policy",
                )
        stays = set(map(id, kept))
        return Selection(kept, [message for message in history if id(message) not in stays], self.name)


def as_policy(policy: PolicyLike) -> ContextPolicy:
    """A policy, made from a plain function where need be.

    Raises:
        InvalidError: neither a policy nor a function.
    """
    # A class has the attributes of its instances, so LastN would pass where LastN(20) is meant.
    if not isinstance(policy, type):
        if _is_policy(policy):
            return policy
        if callable(policy):
            return _Custom(policy)
    raise InvalidError(
        f"policy: {shown(policy)} is neither a policy, such as LastN(20), nor a function from messages to messages",
        argument="policy",
    )


def _is_policy(policy: object) -> TypeGuard[ContextPolicy]:
    # To ask the protocol takes longer than all else that a fetch does with its policy.
    return type(policy) is LastN or isinstance(policy, ContextPolicy)


def select(policy: ContextPolicy, history: Sequence[ContextMessage]) -> Selection:
    """What a policy, perhaps of the user's own, selects.

    Raises:
        InvalidError: it gives something else than a selection.
    """
    selection: Any = policy.selection(history)
    if not isinstance(selection, Selection):
        _refuse_async(selection)
        raise InvalidError(
            f"policy: {type(policy).__name__}.selection returned {type(selection).__name__}; "
            "it must return a Selection of kept and dropped messages",
            argument="policy",
        )
    return selection


def newest_needed(policy: ContextPolicy) -> int | None:
    """How many of the newest messages decide the policy's answer, ``None`` when all may."""
    # A subclass may look further back than its parent.
    if type(policy) is LastN:
        return policy.n
    if type(policy) is Chain and policy.policies:
        return newest_needed(policy.policies[0])
    return None


def _refuse_async(result: object) -> None:
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise InvalidError("policy: is async; a policy must be a plain function", argument="policy")


def split(history: Sequence[ContextMessage], keep: Callable[[ContextMessage], bool], reason: str) -> Selection:
    """A selection by a test of each message."""
    kept: list[ContextMessage] = []
    dropped: list[ContextMessage] = []
    for message in history:
        (kept if keep(message) else dropped).append(message)
    return Selection(kept, dropped, reason)


def check_count(value: int, argument: str) -> int:
    """The value, when it is a whole number from 0, below 2**128.

    Raises:
        InvalidError: it is not.
    """
    if type(value) is not int or not 0 <= value < _COUNT_END:
        raise InvalidError(f"{argument}: {shown(value)} is not a whole number from 0, below 2**128", argument=argument)
    return value


def check_budget(value: int, argument: str) -> int:
    """The value, when it is a whole number of tokens from 0, below 2**128.

    Raises:
        BudgetError: it is not.
    """
    if type(value) is not int or not 0 <= value < _COUNT_END:
        raise BudgetError(
            f"{argument}: {shown(value)} is not a whole number of tokens from 0, below 2**128", argument=argument
        )
    return value


def check_names(values: Sequence[str], argument: str) -> list[str]:
    """The values as a list, when they are texts.

    Raises:
        InvalidError: a single text instead of a list, or something else than text in it.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidError(f"{argument}: expected a list of names, got {shown(values)}", argument=argument)
    names = list(values)
    for name in names:
        if not isinstance(name, str):
            raise InvalidError(f"{argument}: {shown(name)} is not text", argument=argument)
    return names
