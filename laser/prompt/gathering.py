"""Asking all providers at once, each within its own time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import anyio
import msgspec

from laser.errors import LaserError, ProviderError
from laser.limits import MAX_PROVIDER_CHARS, MAX_PROVIDER_FRAGMENTS
from laser.prompt.fencing import whole_text
from laser.prompt.fragments import Fragment, check_fragment
from laser.prompt.provider import ContextProvider, TurnContext
from laser.prompt.reports import HistoryFragments, HistoryReport, ProviderStatus

__all__ = ["Contribution", "gather_fragments", "gates"]

FENCE: Final = "fence"
_BLOCKS: Final = frozenset({"late", "failed", "flooded"})


class Contribution(msgspec.Struct, frozen=True):
    """What came of one provider. reason: the type of what went wrong, never its words, which may quote content."""

    provider: str
    status: ProviderStatus
    seconds: float
    fragments: tuple[Fragment, ...] = ()
    reason: str | None = None
    history: HistoryReport | None = None

    @property
    def is_lost(self) -> bool:
        """Whether something that should be in the prompt is not."""
        return self.status in _BLOCKS


def gates(provider: ContextProvider, turn: TurnContext) -> ProviderStatus | None:
    """Why a provider is not asked: the profile does not allow it, or it does not apply; ``None`` when it is."""
    allowed = turn.profile.providers
    # The notice goes with the fences, whoever else may contribute.
    if allowed is not None and provider.name not in allowed and provider.name != FENCE:
        return "not_allowed"
    return None if provider.applies(turn) else "not_applicable"


async def gather_fragments(providers: Sequence[ContextProvider], turn: TurnContext) -> list[Contribution]:
    """What all providers give, in their order.

    Raises:
        ProviderError: a required one failed, was late or gave too much; the others are cancelled.
    """
    found: list[Contribution | None] = [None] * len(providers)
    fatal: list[ProviderError] = []

    async with anyio.create_task_group() as tasks:

        async def ask(place: int, provider: ContextProvider) -> None:
            contribution, cause = await _ask(provider, turn)
            found[place] = contribution
            if contribution.is_lost and provider.required:
                error = _fatal(provider, contribution)
                error.__cause__ = cause
                fatal.append(error)
                tasks.cancel_scope.cancel()

        for place, provider in enumerate(providers):
            try:
                closed = gates(provider, turn)
            except Exception as error:  # noqa: BLE001 - a provider of others may raise anything, at its gate too
                closed = None
                found[place] = Contribution(provider.name, "failed", 0.0, reason=type(error).__name__)
                if provider.required:
                    failure = _fatal(provider, Contribution(provider.name, "failed", 0.0, reason=type(error).__name__))
                    failure.__cause__ = error
                    fatal.append(failure)
                    tasks.cancel_scope.cancel()
                continue
            if closed is None:
                tasks.start_soon(ask, place, provider)
            else:
                found[place] = Contribution(provider.name, closed, 0.0)
    if fatal:
        raise fatal[0]
    return [contribution for contribution in found if contribution is not None]


async def _ask(provider: ContextProvider, turn: TurnContext) -> tuple[Contribution, Exception | None]:
    began = anyio.current_time()
    cause: Exception | None = None
    fragments: tuple[Fragment, ...] = ()
    history: HistoryReport | None = None
    status: ProviderStatus = "late"
    reason: str | None = None
    with anyio.move_on_after(provider.timeout):
        try:
            given = await provider.provide(turn)
            fragments = _fragments(provider, turn, given)
            status = "ok" if fragments else "empty"
            history = given.report if isinstance(given, HistoryFragments) else None
        except _FloodedError:
            status = "flooded"
        except Exception as error:  # noqa: BLE001 - a provider of others may raise anything; the trace names it
            status, reason, cause = "failed", type(error).__name__, error
    return Contribution(provider.name, status, anyio.current_time() - began, fragments, reason, history), cause


def _fatal(provider: ContextProvider, contribution: Contribution) -> ProviderError:
    ends = {
        "late": f"was not ready within its {provider.timeout:g} seconds",
        "flooded": f"gave more than {MAX_PROVIDER_CHARS} characters or {MAX_PROVIDER_FRAGMENTS} fragments",
        "failed": f"failed with {contribution.reason}",
    }
    return ProviderError(
        f"the required provider {provider.name!r} {ends[contribution.status]}, so there is no prompt for this turn",
        provider=provider.name,
    )


class _FloodedError(LaserError):
    """A provider gave more than is looked at."""


def _fragments(provider: ContextProvider, turn: TurnContext, given: object) -> tuple[Fragment, ...]:
    """What a provider gave as fragments.

    Raises:
        InvalidError: it is something else.
    """
    if given is None:
        return ()
    if isinstance(given, str):
        if len(given) > MAX_PROVIDER_CHARS:
            raise _FloodedError("too many characters")
        if not given.strip():
            return ()
        # A text of the configuration stands as it is; material of a turn stands behind a fence.
        whole = whole_text(given)
        text = whole if provider.layer == "identity" else turn.fence(provider.name, whole)
        return (Fragment(provider.name, text, provider.priority, provider.layer, "system", provider.pinned),)
    if not isinstance(given, Sequence):
        raise TypeError(f"provider {provider.name!r} gave a {type(given).__name__}")
    if len(given) > MAX_PROVIDER_FRAGMENTS:
        raise _FloodedError("too many fragments")
    fragments: list[Fragment] = []
    size = 0
    for fragment in given:
        check_fragment(fragment)
        # A volatile provider must not get above the cache boundary by its fragments.
        if fragment.layer != provider.layer:
            fragment = msgspec.structs.replace(fragment, layer=provider.layer)
            check_fragment(fragment)
        size += len(fragment.text if fragment.measured is None else fragment.measured)
        if size > MAX_PROVIDER_CHARS:
            raise _FloodedError("too many characters")
        if fragment.text:
            whole = whole_text(fragment.text)
            fragments.append(fragment if whole is fragment.text else msgspec.structs.replace(fragment, text=whole))
    return tuple(fragments)
