"""Policies for chat histories: what they keep is a history that a model provider accepts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from laser.context.policies import Selection, check_names
from laser.errors import InvalidError
from laser.model.chat import ChatFacts, chat_facts
from laser.model.messages import ContextMessage

__all__ = ["ChatRoles", "ToolPairs"]

_INSTRUCTIONS: Final = frozenset({"system", "developer"})


class ToolPairs:
    """Makes a chat history valid again after a cut: a tool call and all its results stay or go together.

    Calls and results are matched by id, anywhere in the list; where an id was used again, a result belongs to the
    nearest call before it. Dropped are results whose call is not there, and calls of which a result is missing,
    with the results they have. The one exception is an open last turn: nothing but results of its own follows it, so
    the tools are still running. A turn is one message, or a run of call items of OpenAI Responses. Messages that are
    no chat messages stay.

    Put it last in a chain: ``Chain([LastN(20), ToolPairs()])``.

    Args:
        start_on: the role that the talk has to begin with, for providers that refuse another one: ``"user"``. What
            comes before the first message of that role goes; ``system`` and ``developer`` messages stay. ``None``
            lets it begin with any role.
    """

    version = "1"

    def __init__(self, *, start_on: str | None = None) -> None:
        if start_on is not None and (not isinstance(start_on, str) or not start_on.strip()):
            raise InvalidError(f"start_on: {start_on!r} is not a role, such as 'user'", argument="start_on")
        self.start_on = None if start_on is None else start_on.strip().lower()

    @property
    def name(self) -> str:
        return "tool_pairs" if self.start_on is None else f"tool_pairs({self.start_on})"

    def selection(self, history: Sequence[ContextMessage]) -> Selection:
        facts = [chat_facts(message.payload) for message in history]
        pairing = _Pairing(facts)
        gone = pairing.broken
        if self.start_on is not None:
            gone = gone | pairing.spread(_before(facts, gone, self.start_on))
        return _keep(history, [index not in gone for index in range(len(history))], self.name)

    def __repr__(self) -> str:
        return f"ToolPairs({'' if self.start_on is None else f'start_on={self.start_on!r}'})"


class ChatRoles:
    """Keeps the messages of some chat roles, and tool calls whole.

    A tool call with its results stays only when the roles of all of them are asked for, so ``{"user",
    "assistant"}`` gives the talk without any tool use. The same holds for an open call, whose results are still to
    come. Broken pairs go, as with ``ToolPairs``.

    Args:
        roles: such as ``system``, ``developer``, ``user``, ``assistant``, ``tool``; any other works too. Upper and
            lower case are the same. Messages that are no chat messages have no role and are dropped.
    """

    name = "chat_roles"
    version = "1"

    def __init__(self, roles: Iterable[str]) -> None:
        names = check_names(list(roles) if isinstance(roles, set | frozenset) else roles, "roles")  # type: ignore[arg-type]
        for name in names:
            if not name.strip():
                raise InvalidError("roles: a role is empty", argument="roles")
        self.roles = frozenset(name.strip().lower() for name in names)

    def selection(self, history: Sequence[ContextMessage]) -> Selection:
        facts = [chat_facts(message.payload) for message in history]
        pairing = _Pairing(facts)
        wanted = [fact.role in self.roles and (not fact.calls or fact.answered_by in self.roles) for fact in facts]
        gone = pairing.spread({index for index, keep in enumerate(wanted) if not keep})
        return _keep(
            history, [index not in gone and index not in pairing.broken for index in range(len(facts))], self.name
        )

    def __repr__(self) -> str:
        return f"ChatRoles({sorted(self.roles)})"


class _Pairing:
    """Which messages of a history hang together by tool calls, and which of them are broken."""

    def __init__(self, facts: Sequence[ChatFacts]) -> None:
        self._links: dict[int, set[int]] = {}
        waiting: dict[str, list[int]] = {}
        unanswered: dict[int, int] = {}
        broken: set[int] = set()
        for index, fact in enumerate(facts):
            for call_id in fact.results:
                callers = waiting.get(call_id)
                if not callers:
                    broken.add(index)
                    continue
                caller = callers.pop()
                self._links.setdefault(caller, set()).add(index)
                self._links.setdefault(index, set()).add(caller)
                unanswered[caller] -= 1
            if fact.calls:
                unanswered[index] = len(fact.calls)
                for call_id in fact.calls:
                    waiting.setdefault(call_id, []).append(index)
        orphans = set(broken)
        broken.update(caller for caller, count in unanswered.items() if count)
        broken -= self._running(facts, orphans)
        self.broken = self.spread(broken)

    def spread(self, indexes: set[int]) -> set[int]:
        """The messages, with all that hang together with them."""
        found: set[int] = set()
        stack = list(indexes)
        while stack:
            index = stack.pop()
            if index not in found:
                found.add(index)
                stack.extend(self._links.get(index, ()))
        return found

    def _running(self, facts: Sequence[ChatFacts], orphans: set[int]) -> set[int]:
        """The calls of the last turn, when nothing but results of its own follows: its tools may be running."""
        # Results that nobody called go anyway, so they neither end a turn nor part it.
        left = [index for index in range(len(facts)) if index not in orphans]
        own: set[int] = set()
        while left and facts[left[-1]].results and not facts[left[-1]].calls:
            own.add(left.pop())
        turn: set[int] = set()
        while left and facts[left[-1]].calls and (not turn or facts[left[-1]].item):
            turn.add(left.pop())
            if not facts[min(turn)].item:
                break
        answered = {index for caller in turn for index in self._links.get(caller, ())}
        return turn if own <= answered else set()


def _before(facts: Sequence[ChatFacts], gone: set[int], role: str) -> set[int]:
    """The messages of a talk, without its instructions, that come before the first one of a role."""
    early: set[int] = set()
    for index, fact in enumerate(facts):
        if index in gone:
            continue
        # In Anthropic's shape results come from the user: such a message cannot stand without its call.
        if fact.role == role and not fact.results:
            break
        if fact.role is not None and fact.role not in _INSTRUCTIONS:
            early.add(index)
    return early


def _keep(history: Sequence[ContextMessage], stays: Sequence[bool], reason: str) -> Selection:
    kept = [message for message, stay in zip(history, stays, strict=True) if stay]
    dropped = [message for message, stay in zip(history, stays, strict=True) if not stay]
    return Selection(kept, dropped, reason)
