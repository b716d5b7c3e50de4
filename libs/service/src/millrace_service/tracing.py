"""Traces: where the time goes on a row's way, from its message to a subscriber (docs/TRACING.md).

Traces are off unless ``MILLRACE_TRACE`` is set: then a hot path looks at :attr:`Tracing.on` and does nothing
more. Traced messages carry W3C's ``traceparent`` from one to the next. OpenTelemetry makes the spans, and
exports them in a thread of its own.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from millrace_service.health import instance
from millrace_service.settings import ServiceSettings
from millrace_service.spans import Sampler, Span, lines_of

if TYPE_CHECKING:  # the SDK takes a third of a second to load: import it only to trace
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

FOLDER = "traces"
"""The folder below MILLRACE_DATA_DIR that takes the spans if no endpoint is set."""
LONGEST_FILE = 64 * 1024 * 1024
"""Bytes of a file of spans after which a new one begins; the previous file is kept beside it."""
EVERY_MS = 1000
"""Milliseconds between two exports of spans."""
_W3C = TraceContextTextMapPropagator()
_HEADER = "traceparent"


class Step(NamedTuple):
    """A span under way. ``traceparent``: the header for messages that are sent within it; empty if the span
    is not sampled."""

    span: trace.Span
    traceparent: str

    def end(self, at: int | None = None) -> None:
        """End the span, at this time (ns since the epoch; None: now)."""
        self.span.end(at)


class Tracing:
    """What a service traces with. ``on``: whether it traces at all.

    Times are ns since the epoch. A parent is the header that a message came with; an empty or unreadable one
    begins a new trace.
    """

    __slots__ = ("_provider", "_tracer", "on", "sampler")

    def __init__(self, provider: TracerProvider | None = None, sampler: Sampler | None = None) -> None:
        self.on = provider is not None
        self.sampler = sampler or Sampler(1, random.SystemRandom().random)
        self._provider = provider
        self._tracer = trace.NoOpTracer() if provider is None else provider.get_tracer("millrace")

    def begin(self, name: str, parent: str, at: int | None = None, **attributes: str | int) -> Step:
        """Begin a span."""
        context = _W3C.extract({_HEADER: parent})
        span = self._tracer.start_span(name, context, start_time=at, attributes=attributes)
        carrier: dict[str, str] = {}
        if span.is_recording():
            _W3C.inject(carrier, trace.set_span_in_context(span))
        return Step(span, carrier.get(_HEADER, ""))

    def record(self, name: str, parent: str, begin: int, end: int, **attributes: str | int) -> str:
        """Record a span that is over; returns the parent for spans that follow it. If the clocks of two
        machines would have it end before it begins, it takes no time."""
        step = self.begin(name, parent, min(begin, end), **attributes)
        step.end(end)
        return step.traceparent

    def close(self) -> None:
        """Export the spans that are left."""
        if self._provider is not None:
            self._provider.shutdown()


OFF = Tracing()


def start_tracing(settings: ServiceSettings, service: str) -> Tracing:
    """Tracing as the settings say: to an OTLP endpoint, or to a file of the service."""
    if not settings.trace:
        return OFF
    if settings.trace_endpoint:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return tracing_to(OTLPSpanExporter(settings.trace_endpoint), settings.trace, service)
    file = settings.data_dir / FOLDER / f"{service}.jsonl"
    return tracing_to(spans_file(file, service), settings.trace, service)


def tracing_to(exporter: SpanExporter, share: float, service: str, every_ms: float = EVERY_MS) -> Tracing:
    """Tracing that exports spans."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased

    about = Resource.create({"service.name": service, "service.instance.id": instance()})
    # whoever begins a trace has sampled already; whoever continues one follows its header
    provider = TracerProvider(ParentBased(ALWAYS_ON), about, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=every_ms))
    return Tracing(provider, Sampler(share, random.SystemRandom().random))


def spans_file(file: Path, service: str, longest: int = LONGEST_FILE) -> SpanExporter:
    """An exporter that writes spans to a file, one line each."""
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class SpansFile(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                if file.exists() and file.stat().st_size > longest:
                    file.replace(file.with_name(f"{file.name}.1"))
                with file.open("ab") as out:
                    out.write(lines_of(_kept(one, service) for one in spans))
            except OSError:
                return SpanExportResult.FAILURE
            return SpanExportResult.SUCCESS

    return SpansFile()


def _kept(span: ReadableSpan, service: str) -> Span:
    context, parent = span.get_span_context(), span.parent
    assert context is not None, "it was recorded"
    return Span(
        trace.format_trace_id(context.trace_id), trace.format_span_id(context.span_id),
        "" if parent is None else trace.format_span_id(parent.span_id),
        service, span.name, span.start_time or 0, span.end_time or 0,
        {name: value for name, value in (span.attributes or {}).items() if isinstance(value, str | int)},
    )  # fmt: skip


# ---------------------------------------------------------------------- parts of what one thread does


class Part(NamedTuple):
    """A part of a thread's work, from ``begin`` to ``end``."""

    name: str
    begin: int
    end: int


_parts: ContextVar[list[Part] | None] = ContextVar("parts", default=None)
_UNTIMED = nullcontext()


@contextmanager
def parts_timed() -> Iterator[list[Part]]:
    """Collects the parts that this thread has :func:`timed` within the block."""
    found: list[Part] = []
    token = _parts.set(found)
    try:
        yield found
    finally:
        _parts.reset(token)


def timed(name: str) -> AbstractContextManager[None]:
    """Times the block as a part of what is traced, if parts are being collected."""
    parts = _parts.get()
    return _UNTIMED if parts is None else _timed(name, parts)


@contextmanager
def _timed(name: str, parts: list[Part], now: Callable[[], int] = time.time_ns) -> Iterator[None]:
    begin = now()
    try:
        yield
    finally:
        parts.append(Part(name, begin, now()))
