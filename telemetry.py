"""The export of runs and their steps as spans of OpenTelemetry: only with `OTEL_EXPORTER_OTLP_ENDPOINT`.

It never delays a run: spans wait in a bounded queue for a thread that sends them, and are dropped beyond it.
They have ids, types, outcomes and codes of errors, and nothing that a run was given or gave.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import logs
import tracing

_log = logs.get(__name__)
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_NAMES = ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES")


class Span(NamedTuple):
    """A span, whose times are those that were recorded.

    Attributes:
        trace: its trace; the `parent_id` is that of this span.
        error: the code of the error, if it has failed.
        links: the trace id and the span id of spans elsewhere that led to it.
    """

    name: str
    span_id: str
    trace: tracing.Trace
    began: datetime
    ended: datetime
    attributes: Mapping[str, str | int]
    error: str | None = None
    links: Sequence[tuple[str, str]] = ()


class Exporter(NamedTuple):
    """An exporter of spans: `export` takes one, `close` sends those that wait and ends it."""

    export: Callable[[Span], None]
    close: Callable[[], None]


_exporter: Exporter | None = None


def start() -> None:
    """Begin to export, if an endpoint is named."""
    global _exporter
    if not any(os.environ.get(name) for name in _ENDPOINTS):
        return
    try:
        _exporter = _make_exporter()
    except ImportError as error:
        _log.warning("spans_not_exported", reason=f"{error.name} is not installed: install vedette[otel]")
        return
    tracing.exports_spans = True


def stop() -> None:
    """Send what waits, for some seconds at most, and export no more."""
    global _exporter
    former, _exporter, tracing.exports_spans = _exporter, None, False
    if former is not None:
        former.close()


def export(span: Span) -> None:
    """Export a span, if spans are exported and its trace is sampled."""
    if _exporter is not None and span.trace.is_sampled:
        _exporter.export(span)


def _make_exporter() -> Exporter:
    from opentelemetry.context import Context
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.id_generator import IdGenerator
    from opentelemetry.trace import (
        Link,
        NonRecordingSpan,
        SpanContext,
        Status,
        StatusCode,
        TraceFlags,
        set_span_in_context,
    )

    class Derived(IdGenerator):
        """Gives the span that begins the ids that are derived for it."""

        trace_id = span_id = 0

        def generate_trace_id(self) -> int:
            return self.trace_id

        def generate_span_id(self) -> int:
            return self.span_id

    ids = Derived()
    named = any(os.environ.get(name) for name in _NAMES)
    resource = Resource.create({} if named else {"service.name": "vedette"})
    provider = TracerProvider(resource=resource, id_generator=ids, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracer = provider.get_tracer("vedette")

    def context(trace_id: str, span_id: str) -> SpanContext:
        flags = TraceFlags(TraceFlags.SAMPLED)
        return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=flags)

    def export(span: Span) -> None:
        ids.trace_id, ids.span_id = int(span.trace.trace_id, 16), int(span.span_id, 16)
        parent = Context()
        if span.trace.parent_id is not None:
            above = NonRecordingSpan(context(span.trace.trace_id, span.trace.parent_id))
            parent = set_span_in_context(above, parent)
        made = tracer.start_span(
            span.name,
            parent,
            attributes=span.attributes,
            links=[Link(context(*link)) for link in span.links],
            start_time=_nanoseconds(span.began),
        )
        if span.error is not None:
            made.set_attribute("error.type", span.error)
            made.set_status(Status(StatusCode.ERROR))
        made.end(_nanoseconds(span.ended))

    return Exporter(export, provider.shutdown)


def _nanoseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000) * 1000
