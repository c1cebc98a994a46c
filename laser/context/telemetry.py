"""Spans and metrics through the OpenTelemetry API, for applications that use it.

laser brings no exporter and sets nothing up: where the application has set a tracer or meter provider, the calls below
report to it; everywhere else they cost less than a microsecond and the API is not even imported.

Spans ``laser.append``, ``laser.fetch``, ``laser.fold``, ``laser.snapshot.save``, ``laser.snapshot.load`` and
``laser.cache.refresh`` have the attributes ``gen_ai.conversation.id``, ``gen_ai.agent.id``,
``messaging.destination.name`` (the topic), ``messaging.destination.partition.id``, ``messaging.batch.message_count``,
``error.type`` where the semantic conventions have a name, else ``laser.…``. Metrics are the histogram
``laser.operation.duration`` in seconds and the counter ``laser.operation.messages``. No payload, URL or credential is
in either, nor the text of an error; ids of conversations are in spans only.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final, TypeVar

__all__ = ["Observed", "observe"]

_LOOK_EVERY_SECONDS: Final = 0.25
_SCOPE: Final = "laser"

T = TypeVar("T")


class Observed:
    """One operation being observed; here the one that observes nothing."""

    __slots__ = ()

    def note(self, *, messages: int | None = None, partition: int | None = None, skipped: int | None = None) -> None:
        """Adds what is known at the end: messages written, read or folded, their partition, records skipped."""

    def follow(self, progress: Callable[[T], None] | None) -> Callable[[T], None] | None:
        """The callback for a fold's progress that also notes how many messages were folded."""
        return progress

    def __enter__(self) -> Observed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


_NOTHING: Final = Observed()


class _Reporting(Observed):
    """An operation that is reported."""

    __slots__ = ("_attributes", "_began", "_current", "_labels", "_messages", "_name", "_span", "_to")

    def __init__(self, to: _Providers, name: str, attributes: dict[str, Any], labels: dict[str, str]) -> None:
        self._to = to
        self._name = name
        self._attributes = attributes
        self._labels = labels
        self._messages: int | None = None

    def note(self, *, messages: int | None = None, partition: int | None = None, skipped: int | None = None) -> None:
        self._messages = messages
        for key, value in (
            ("messaging.batch.message_count", messages),
            ("messaging.destination.partition.id", None if partition is None else str(partition)),
            ("laser.skipped", skipped),
        ):
            if value is not None:
                self._attributes[key] = value

    def follow(self, progress: Callable[[T], None] | None) -> Callable[[T], None] | None:
        def note(now: Any) -> None:
            self.note(messages=now.folded, skipped=now.skipped)
            if progress is not None:
                progress(now)

        return note

    def __enter__(self) -> Observed:
        self._began = time.perf_counter()
        # The text of an error can quote what a user gave: only its type is reported, below.
        self._current = self._to.tracer.start_as_current_span(
            f"laser.{self._name}",
            kind=self._to.kinds.get(self._name, self._to.kind),
            record_exception=False,
            set_status_on_exception=False,
        )
        self._span = self._current.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._labels["error.type"] = self._attributes["error.type"] = kind.__name__
            self._span.set_status(self._to.error)
        self._span.set_attributes(self._attributes)
        self._to.duration.record(time.perf_counter() - self._began, self._labels)
        if self._messages:
            self._to.messages.add(self._messages, self._labels)
        self._current.__exit__(None, None, None)


class _Providers:
    """The application's providers, with laser's instruments on them."""

    def __init__(self, trace: Any, metrics: Any) -> None:
        self.tracer = trace.get_tracer(_SCOPE)
        self.kind = trace.SpanKind.CLIENT
        self.kinds = {"append": trace.SpanKind.PRODUCER, "fold": trace.SpanKind.INTERNAL}
        self.error = trace.StatusCode.ERROR
        meter = metrics.get_meter(_SCOPE)
        self.duration = meter.create_histogram(
            "laser.operation.duration", unit="s", description="How long an operation took."
        )
        self.messages = meter.create_counter(
            "laser.operation.messages", unit="{message}", description="Messages written, read or folded."
        )


_providers: _Providers | None = None
_look_again = 0.0


def _look() -> _Providers | None:
    """The application's providers; ``None`` where it has set none."""
    global _providers, _look_again
    now = time.monotonic()
    if now < _look_again:
        return None
    _look_again = now + _LOOK_EVERY_SECONDS
    # An application that has set a provider has imported these; nothing is to be imported for those that have not.
    trace, metrics = sys.modules.get("opentelemetry.trace"), sys.modules.get("opentelemetry.metrics")
    if trace is None and metrics is None:
        return None
    from opentelemetry import metrics as metrics_api
    from opentelemetry import trace as trace_api

    unset = type(trace_api.get_tracer_provider()) is trace_api.ProxyTracerProvider
    # The stand-in for a meter provider has no public name.
    unmetered = type(metrics_api.get_meter_provider()).__name__ == "_ProxyMeterProvider"
    if not (unset and unmetered):
        _providers = _Providers(trace_api, metrics_api)
    return _providers


def observe(
    name: str,
    stream: str,
    conversation: str | None = None,
    topics: str | Sequence[str] | None = None,
    agent: str | None = None,
    fold: str | None = None,
) -> Observed:
    """Observes an operation, in a ``with``.

    Args:
        name: ``append``, ``fetch``, ``fold``, ``snapshot.save``, ``snapshot.load`` or ``cache.refresh``.
        topics: names; a single one as text. fold: the fold's name.
    """
    providers = _providers or _look()
    if providers is None:
        return _NOTHING
    attributes: dict[str, Any] = {"laser.stream": stream}
    labels = {"laser.operation": name}
    if isinstance(topics, str):
        attributes["messaging.destination.name"] = labels["messaging.destination.name"] = topics
    elif isinstance(topics, list | tuple):
        # Not checked yet: what is no name is for the operation itself to refuse.
        attributes["laser.topics"] = [topic for topic in topics if isinstance(topic, str)]
    if conversation is not None:
        attributes["gen_ai.conversation.id"] = conversation
    if agent is not None:
        attributes["gen_ai.agent.id"] = agent
    if fold is not None:
        attributes["laser.fold"] = fold
    return _Reporting(providers, name, attributes, labels)
