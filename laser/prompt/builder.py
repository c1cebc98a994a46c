"""The builder: from providers to a prompt under its budget."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import anyio.to_thread
import msgspec
import orjson

from laser.context.connection import Connection
from laser.context.scope import ConversationScope
from laser.context.tokens import Tokenizer
from laser.context.tokens import tokens as default_tokens
from laser.errors import CodecError, InvalidError
from laser.model.checks import shown
from laser.model.ids import new_conversation_id
from laser.model.topics import AgentTopic
from laser.models.selection import ModelSelection
from laser.prompt.built import BuiltPrompt
from laser.prompt.composing import compose
from laser.prompt.fencing import whole_text
from laser.prompt.fingerprints import Fingerprints, tools_json
from laser.prompt.gathering import Contribution, gather_fragments
from laser.prompt.notes import Notes, append_record, read_notes
from laser.prompt.provider import ContextProvider, TurnContext
from laser.prompt.providers.configured import FenceNotice
from laser.prompt.settings import PromptProfile
from laser.prompt.trace import PromptTrace, TraceUsage, decode_trace, encode_trace, encode_usage
from laser.session.session import Session

__all__ = ["PromptBuilder", "read_traces"]

_MAX_SEEN: Final = 4_096
_LOOK_BACK: Final = 200
_INLINE_CHARS: Final = 64 * 1024


class PromptBuilder:
    """Builds the prompts of an agent, one for each call of its model.

    All providers are asked at once, each within its own time. What they give is put in order: the identity layer of the
    system text first, then its volatile layer, then the history, then the tail; within a layer by priority, the highest
    first. What does not fit into the budget leaves, the lowest priority first. What was done is recorded on
    ``agent.audit``, in counts and digests.

    Args:
        laser: an open client; ``None`` builds without a log: no stored history, no record.
        providers: who contributes. The notice about fenced material is added where the profile has fencing on.
        profile: budget, allowed providers, fencing. tokens: the tokenizer; bytes divided by four by default.
        agent: who the prompts are for.

    Raises:
        InvalidError: something that is no provider, or two of one name.
    """

    def __init__(
        self,
        laser: Connection | None,
        providers: Sequence[ContextProvider],
        *,
        profile: PromptProfile | None = None,
        tokens: Tokenizer | None = None,
        agent: str | None = None,
    ) -> None:
        self._laser = laser
        self._providers = _check_providers(providers)
        self._profile = profile or PromptProfile()
        self._tokens = tokens or default_tokens()
        if not isinstance(self._tokens, Tokenizer):
            raise InvalidError(
                f"tokens: {type(tokens).__name__} has no name and no count(text); laser.tokens() makes one",
                argument="tokens",
            )
        sample = self._tokens.count("x")
        if type(sample) is not int or sample < 0:
            raise InvalidError(
                f"tokens: counted {sample!r:.40}; count(text) must give a whole number from 0", argument="tokens"
            )
        self._agent = agent
        self._seen: OrderedDict[str, Fingerprints | None] = OrderedDict()

    @property
    def providers(self) -> tuple[ContextProvider, ...]:
        """The providers that are asked, the fence notice included."""
        return self._providers

    @property
    def profile(self) -> PromptProfile:
        """The settings."""
        return self._profile

    @property
    def tokens(self) -> Tokenizer:
        """The tokenizer."""
        return self._tokens

    async def build(
        self,
        conversation: Session | ConversationScope | str | None = None,
        message: str = "",
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        variables: Mapping[str, str] | None = None,
        tenant: str | None = None,
        customer: str | None = None,
        history: Iterable[Mapping[str, Any] | bytes | str] | None = None,
        model: ModelSelection | None = None,
        record: bool = True,
    ) -> BuiltPrompt:
        """Builds the prompt of a turn.

        Args:
            conversation: a session, a scope, or a conversation's id; ``None`` for a build without stored history.
            message: the next message of the user. It may be on the log already: the prompt has it once.
            tools: schemas, in the order in which they go to the model.
            variables: of this turn. tenant, customer: for whom.
            history: messages in place of the stored ones: as JSON or as mappings.
            model: that the prompt is for.
            record: whether the trace is written to the log.

        Raises:
            BudgetError: what must stay does not fit, or the reserves leave nothing.
            ProviderError: a required provider failed or was late.
            InvalidError: a bad argument; nothing was read.
        """
        began = time.perf_counter()
        turn = self._turn(conversation, message, tools, variables, tenant, customer, history, model)
        notes = Notes()
        if turn.scope is not None and turn.laser is not None:
            notes = await read_notes(turn.laser, turn.scope)
        turn = msgspec.structs.replace(turn, notes=notes)
        found = await gather_fragments(self._providers, turn)
        if model is not None and notes.native is not None and _others_have_history(found):
            # Opaque state replaces all that came before it, so it must not meet messages of somebody else.
            turn = msgspec.structs.replace(turn, model=None)
            found = await gather_fragments(self._providers, turn)
        before = await self._before(turn)
        composing = partial(compose, turn, found, tools_json(turn.tools), before, new_conversation_id(), began)
        # The joined text is counted as a whole: of a large one that takes too long for the event loop.
        size = sum(len(fragment.text) for one in found for fragment in one.fragments)
        prompt = composing() if size < _INLINE_CHARS else await anyio.to_thread.run_sync(composing)
        if turn.scope is not None and turn.laser is not None:
            self._note(turn.scope.conversation, prompt.trace.fingerprints)
            if record:
                await append_record(turn.laser, turn.scope, AgentTopic.Audit, encode_trace(prompt.trace))
        return prompt

    async def record_usage(self, prompt: BuiltPrompt, usage: Any) -> None:
        """Records what the provider counted for a prompt.

        Args:
            usage: a ``TraceUsage``, or anything with attributes of its names, such as ``ModelReply.usage``.

        Raises:
            InvalidError: a bad argument, or the prompt was built without a log; nothing was written.
        """
        if not isinstance(prompt, BuiltPrompt):
            raise InvalidError(
                f"prompt: expected a BuiltPrompt, as build gives it, got {type(prompt).__name__}", argument="prompt"
            )
        if self._laser is None or prompt.trace.conversation is None:
            raise InvalidError("prompt: was built without a log, so there is nowhere to record it", argument="prompt")
        names = TraceUsage.__struct_fields__
        if not any(hasattr(usage, name) for name in names):
            raise InvalidError(
                f"usage: {type(usage).__name__} has none of the attributes {', '.join(names)}; give a TraceUsage",
                argument="usage",
            )
        found = TraceUsage(**{name: getattr(usage, name, None) for name in names})
        for name in names:
            value = getattr(found, name)
            if value is not None and (type(value) is not int or value < 0):
                raise InvalidError(f"usage: {name} is {shown(value)}, not a count of tokens", argument="usage")
        scope = ConversationScope(self._laser, prompt.trace.conversation)
        await append_record(self._laser, scope, AgentTopic.Audit, encode_usage(prompt.trace.turn, found))

    def _turn(
        self,
        conversation: Session | ConversationScope | str | None,
        message: str,
        tools: Sequence[Mapping[str, Any]],
        variables: Mapping[str, str] | None,
        tenant: str | None,
        customer: str | None,
        history: Iterable[Mapping[str, Any] | bytes | str] | None,
        model: ModelSelection | None,
    ) -> TurnContext:
        if not isinstance(message, str):
            raise InvalidError(f"message: expected text, got {type(message).__name__}", argument="message")
        if (
            isinstance(tools, str | bytes | Mapping)
            or not isinstance(tools, Iterable)
            or not all(isinstance(tool, Mapping) for tool in tools)
        ):
            raise InvalidError("tools: expected a list of schemas", argument="tools")
        if variables is not None and not (
            isinstance(variables, Mapping)
            and all(isinstance(text, str) for entry in variables.items() for text in entry)
        ):
            raise InvalidError("variables: expected a mapping from text to text", argument="variables")
        if history is not None and not isinstance(history, Iterable):
            raise InvalidError("history: expected messages", argument="history")
        scope: ConversationScope | None
        if isinstance(conversation, Session):
            scope = conversation.scope()
        elif isinstance(conversation, str):
            if self._laser is None:
                raise InvalidError("conversation: this builder has no log to read it from", argument="conversation")
            scope = ConversationScope(self._laser, conversation)
        elif conversation is None or isinstance(conversation, ConversationScope):
            scope = conversation
        else:
            raise InvalidError(
                f"conversation: expected a session, a scope or an id, got {type(conversation).__name__}",
                argument="conversation",
            )
        given = None if history is None else tuple(map(_payload, history))
        return TurnContext(
            whole_text(message),
            tuple(tools),
            self._laser,
            scope,
            self._agent,
            tenant,
            customer,
            dict(variables or {}),
            given,
            self._profile,
            self._tokens,
            Notes(),
            model,
        )

    async def _before(self, turn: TurnContext) -> Fingerprints | None:
        """The fingerprints of the turn before: of this process, else as they stand on the log."""
        if turn.scope is None or turn.laser is None:
            return None
        name = turn.scope.conversation
        if name in self._seen:
            return self._seen[name]
        traces = await read_traces(turn.scope, _LOOK_BACK)
        own = [trace for trace in traces if trace.agent == self._agent]
        return own[-1].fingerprints if own else None

    def _note(self, conversation: str, fingerprints: Fingerprints) -> None:
        self._seen[conversation] = fingerprints
        self._seen.move_to_end(conversation)
        while len(self._seen) > _MAX_SEEN:
            self._seen.popitem(last=False)

    def __repr__(self) -> str:
        return f"PromptBuilder({[provider.name for provider in self._providers]}, tokens={self._tokens.name!r})"


async def read_traces(scope: ConversationScope, n: int = 50) -> list[PromptTrace]:
    """The traces among the newest records of a conversation's audit, oldest first, with the usage told later.

    Args:
        n: how many records to look at.

    Raises:
        InvalidError: a bad argument.
    """
    if not isinstance(scope, ConversationScope):
        raise InvalidError(
            f"scope: expected a conversation's scope, as laser.context(conversation) gives it, got "
            f"{type(scope).__name__}",
            argument="scope",
        )
    traces: dict[str, PromptTrace] = {}
    for message in await scope.fetch(topics=[AgentTopic.Audit], n=n):
        try:
            found = decode_trace(message.payload)
        except CodecError:
            continue
        if isinstance(found, PromptTrace):
            traces[found.turn] = found
        elif found is not None and found[0] in traces:
            traces[found[0]] = msgspec.structs.replace(traces[found[0]], usage=found[1])
    return list(traces.values())


def _check_providers(providers: Sequence[ContextProvider]) -> tuple[ContextProvider, ...]:
    listed = list(providers)
    names: set[str] = set()
    for place, provider in enumerate(listed):
        if isinstance(provider, type) or not isinstance(provider, ContextProvider):
            raise InvalidError(
                f"providers[{place}]: {provider!r:.80} is no provider; derive one from BaseProvider, or make one of a "
                "function with FunctionProvider",
                argument="providers",
            )
        if not provider.name or provider.name in names:
            raise InvalidError(
                f"providers[{place}]: the name {provider.name!r:.40} is empty or stands there twice",
                argument="providers",
            )
        names.add(provider.name)
    if "fence" not in names:
        listed.append(FenceNotice())
    return tuple(listed)


def _others_have_history(found: Sequence[Contribution]) -> bool:
    return any(fragment.place == "history" for one in found if one.history is None for fragment in one.fragments)


def _payload(message: Mapping[str, Any] | bytes | str) -> bytes:
    if isinstance(message, bytes):
        return message
    if isinstance(message, str):
        return message.encode("utf-8", "replace")
    if not isinstance(message, Mapping):
        raise InvalidError(f"history: expected messages, got {type(message).__name__}", argument="history")
    try:
        return orjson.dumps(dict(message))
    except (TypeError, orjson.JSONEncodeError) as error:
        raise InvalidError(f"history: a message is no JSON: {error}", argument="history") from error
