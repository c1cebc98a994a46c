"""Runs and turns: a turn freezes what the model sees, and gives back what the model answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Literal

import msgspec

from laser.content.content import Content
from laser.errors import AppendIndeterminateError, BusyError, ClosedError, InvalidError
from laser.model.ids import new_conversation_id
from laser.models.lowering import LoweredRequest, RequestOptions, lower_request
from laser.models.replies import ModelReply
from laser.models.selection import ApiKind, ModelSelection, check_api_kind
from laser.session.active.active import check_revision
from laser.session.active.entries import NewEntry, check_entries, check_entry
from laser.session.active.events import RunFinished, RunStarted, TurnFinished, TurnStarted
from laser.session.active.fold import prunes
from laser.session.active.lowering import OpenCalls, Resolve, lowering_entries, reply_entries, usage_counts
from laser.session.active.reading import ActiveLog
from laser.session.active.settling import last_word, settle
from laser.session.active.state import MAX_TOKENS, ActiveState
from laser.session.holding import keep_large

__all__ = ["Run", "Turn"]


class Turn:
    """One model call. ``Run.turn`` makes it; with ``async with`` a turn that is left by an error ends as failed.

    Attributes:
        id, run: names. context: what the call consumes: frozen, whatever happens to the active context meanwhile.
    """

    def __init__(self, log: ActiveLog, run: str, turn: str, context: ActiveState) -> None:
        self._log = log
        self._finished = False
        self.id = turn
        self.run = run
        self.context = context

    async def request(
        self,
        model: ModelSelection,
        options: RequestOptions | None = None,
        *,
        stream: bool = False,
        compact_threshold: int | None = None,
        resolve: Resolve | None = None,
        open_calls: OpenCalls = "refuse",
    ) -> LoweredRequest:
        """The request for this turn, in the provider's own shape. Its bytes begin with those of the turn before, up to
        the first entry that changed.

        Args:
            options: tools and parameters; without a ``cache_key`` it is made from the session's id.
            stream: whether the answer is to be streamed. compact_threshold: see ``laser.models.lower_request``.
            resolve: brings the bytes of entries that refer to content.
            open_calls: what to do about a call that never got its result, because whoever had to carry it out died:
                ``answer`` puts a note in its place in the request. The log and the context stay as they are.

        Raises:
            InvalidError: the session's API kind is another one, or an entry cannot be lowered. UnsupportedError: the
                API cannot take it, or an entry refers to content and there is no ``resolve``.
        """
        if not isinstance(model, ModelSelection):
            raise InvalidError(f"model: expected a ModelSelection, got {type(model).__name__}", argument="model")
        if options is not None and not isinstance(options, RequestOptions):
            raise InvalidError(f"options: expected RequestOptions, got {type(options).__name__}", argument="options")
        fixed = self.context.api
        if fixed is not None and fixed != model.check().api_kind:
            raise InvalidError(
                f"model: the session's API kind is {fixed}, not {model.api_kind}; begin a new session for another one",
                argument="model",
            )
        chosen = RequestOptions() if options is None else options
        if chosen.cache_key is None:
            chosen = msgspec.structs.replace(chosen, cache_key=self._log.conversation)
        entries = await lowering_entries(self.context.entries, model.api_kind, resolve, open_calls=open_calls)
        return lower_request(
            model,
            entries,
            chosen,
            stream=stream,
            compact_threshold=compact_threshold,
            fragments=self._log.fragments,
        )

    async def finish_reply(
        self, reply: ModelReply, results: Sequence[NewEntry] = (), *, content: Content | None = None
    ) -> ActiveState:
        """Ends the turn with a model's answer, kept in the provider's own form, and its counts of tokens.

        An answer that did not come to its end fails the turn: it is kept on the log, and enters no context.

        Args:
            results: of the tools that it called.
            content: a tenant's content: what is over ``MAX_ENTRY_BYTES``, such as an image, is kept there, and the
                session holds it. Requests get it back with ``resolve=content.get``.
        """
        if not isinstance(results, Sequence) or not all(isinstance(entry, NewEntry) for entry in results):
            raise InvalidError("results: expected a list of NewEntry", argument="results")
        entries = [*reply_entries(reply), *(results if reply.completed else ())]
        if content is not None:
            entries = await keep_large(content, self._log.conversation, entries)
        if not reply.completed:
            return await self.fail(entries, usage_counts(reply.usage))
        return await self.finish(entries, usage_counts(reply.usage))

    async def finish(self, outputs: Sequence[NewEntry] = (), usage: Mapping[str, int] | None = None) -> ActiveState:
        """Ends the turn with what the model gave.

        Args:
            outputs: entries for the next turn: the native items, and the results of tools that were called. When one
                is of the kind ``compaction`` (OpenAI Responses, where the request asked for it), the conversation that
                the turn saw leaves the context, as far as a compaction may remove it.
            usage: tokens as the provider counted them, by name; what is not known is left out.

        Raises:
            ConflictError: the turn is not under way any more. InvalidError: outputs of another API kind than the
                session's, or a compaction of one that has none; in both cases nothing was changed.
        """
        check_entries(outputs, "outputs")
        api = self.context.api or next((entry.api for entry in outputs if entry.api is not None), None)
        if any(entry.kind == "compaction" for entry in outputs) and not prunes(api, outputs):
            raise InvalidError(
                f"outputs: a turn compacts with OpenAI Responses only, the session's API is {api}", argument="outputs"
            )
        return await self._end(outputs, usage, complete=True)

    async def fail(self, outputs: Sequence[NewEntry] = (), usage: Mapping[str, int] | None = None) -> ActiveState:
        """Ends a turn whose call failed or was cut off. What came of it is kept on the log, and enters no context."""
        check_entries(outputs, "outputs")
        return await self._end(outputs, usage, complete=False)

    async def _end(
        self, outputs: Sequence[NewEntry], usage: Mapping[str, int] | None, *, complete: bool
    ) -> ActiveState:
        if self._finished:
            raise ClosedError(f"turn {self.id} was finished already")
        counts = dict(usage or {})
        for name, count in counts.items():
            if not isinstance(name, str) or type(count) is not int or not 0 <= count < MAX_TOKENS:
                raise InvalidError(f"usage: {name!r:.40} is {count!r:.40}, not a count of tokens", argument="usage")
        event = TurnFinished(self.run, self.id, tuple(outputs), counts, complete)
        state = await settle(self._log, event, "outputs")
        self._finished = True
        return state

    async def __aenter__(self) -> Turn:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Left without a word it stays under way: only its run can tell what that means.
        if kind is not None and not self._finished:
            await last_word(self.fail)

    def __repr__(self) -> str:
        return f"Turn({self.id!r}, revision={self.context.revision})"


class Run:
    """Work on one request of a user: one turn or more. ``Session.run`` makes it; use it with ``async with``.

    Left by an exception it finishes as ``failed``, cancelled as ``cancelled``, else as ``ended``.
    """

    def __init__(
        self,
        log: ActiveLog,
        inputs: Sequence[NewEntry],
        api: ApiKind | None = None,
        seen: int | None = None,
        unmoved: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._log = log
        self._inputs = check_entries(inputs, "inputs")
        self._api = None if api is None else check_api_kind(api)
        self._seen = None if seen is None else check_revision(seen)
        self._unmoved = unmoved
        self._begun = self._finished = False
        self.id = new_conversation_id()

    async def start(self) -> ActiveState:
        """Begins the run.

        Raises:
            BusyError: another run or a compaction is under way. ConflictError: the context or the conversation is not
                as it was seen. InvalidError: the session's API kind is another one. ClosedError: it was begun before.
        """
        if self._begun:
            raise ClosedError(f"run {self.id} was begun already; session.run() makes another one")
        runs: int | None = None
        if self._unmoved is not None:
            state = await self._log.read()
            if state.run is not None and state.run.state == "running":
                raise BusyError(f"run {state.run.id} is under way")
            # Runs write the conversation: the log takes this one only when none came since the look.
            runs = state.runs
            await self._unmoved()
        state = await settle(self._log, RunStarted(self.id, self._inputs, self._api, self._seen, runs), "api")
        self._begun = True
        return state

    async def turn(self) -> Turn:
        """Begins a turn: what was steered meanwhile enters, and the context is frozen for it.

        Raises:
            BusyError: another turn is under way. NotFoundError: the run is not under way.
        """
        turn = new_conversation_id()
        state = await settle(self._log, TurnStarted(self.id, turn), "turn")
        return Turn(self._log, self.id, turn, state)

    async def finish(
        self, output: NewEntry | None = None, state: Literal["ended", "failed", "cancelled"] = "ended"
    ) -> ActiveState:
        """Ends the run. Entries that go with it leave the context.

        Args:
            output: what it answered in the end; it is kept whole, whatever the context holds of it later.
        """
        if output is not None:
            check_entry(output, "output")
        found = await settle(self._log, RunFinished(self.id, state, output), "output")
        self._finished = True
        return found

    async def __aenter__(self) -> Run:
        try:
            await self.start()
        except Exception as error:
            if isinstance(error, AppendIndeterminateError):
                await last_word(self._cancelled)
            raise
        except BaseException:
            # Cancelled half-way it may have begun: nobody would ever finish it.
            await last_word(self._cancelled)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._finished:
            return
        if kind is None:
            try:
                await self.finish()
            except Exception:
                raise
            except BaseException:
                # Its work is done: a cancellation this late changes nothing about that.
                await last_word(self.finish)
                raise
        elif issubclass(kind, Exception):
            await last_word(lambda: self.finish(state="failed"))
        else:
            await last_word(self._cancelled)

    async def _cancelled(self) -> ActiveState:
        return await self.finish(state="cancelled")

    def __repr__(self) -> str:
        return f"Run({self.id!r})"
