"""The trace that work belongs to, by W3C Trace Context: from a request to runs, their calls and deliveries.

A run has the trace of the request that it was accepted by, if that names one, else one whose id is its own.
Ids of spans are derived too, so that every process finds the same ones without storing any.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from hashlib import blake2b
from typing import NamedTuple
from uuid import UUID

from structlog.typing import EventDict, WrappedLogger

_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_SAMPLED = 1

exports_spans = False
"""True if this process exports spans: what it sends then names its spans as parents."""


class Origin(NamedTuple):
    """The request that work comes from.

    Attributes:
        traceparent: its place in a trace, if it names one.
        request_id: its id in our logs.
    """

    traceparent: str | None = None
    request_id: str | None = None


NO_ORIGIN = Origin()


class Trace(NamedTuple):
    """The place of a run in a trace.

    Attributes:
        trace_id: in hexadecimal digits.
        parent_id: the span that led to the run; None if the trace begins with it.
        flags: of the trace: whether its spans are sampled.
    """

    trace_id: str
    parent_id: str | None
    flags: str

    @property
    def is_sampled(self) -> bool:
        """Return whether the spans of the trace are wanted."""
        return bool(int(self.flags, 16) & _SAMPLED)


class _Work(NamedTuple):
    origin: Origin
    run_id: UUID | None = None
    step_id: str | None = None


_NO_WORK = _Work(NO_ORIGIN)
_work: ContextVar[_Work] = ContextVar("traced work", default=_NO_WORK)


def read_traceparent(header: str) -> str | None:
    """Return the value of the header `traceparent` if it is valid."""
    return header if _TRACEPARENT.fullmatch(header) else None


def trace_work(origin: Origin, run_id: UUID | None = None) -> None:
    """Note that this task, and those that it creates, work for this request or run."""
    _work.set(_Work(origin, run_id))


def trace_step(step_id: str) -> None:
    """Note that this task executes this step of its run."""
    origin, run_id, _ = _work.get()
    _work.set(_Work(origin, run_id, step_id))


def trace_of(run_id: UUID, origin: Origin) -> Trace:
    """Return the trace of a run."""
    if origin.traceparent is None:
        return Trace(run_id.hex, None, "01")
    _, trace_id, parent_id, flags = origin.traceparent.split("-")
    return Trace(trace_id, parent_id, flags)


def span_id_of(run_id: UUID, name: str = "") -> str:
    """Return the id of the span of a run, or of a step or another part of it."""
    return blake2b(name.encode(), key=run_id.bytes, digest_size=8).hexdigest()


def get_traceparent() -> str | None:
    """Return the `traceparent` for a request that this task sends; None if nobody traces.

    Without an export of ours it is the one that came in: others must not miss a span that nobody has.
    """
    origin, run_id, step_id = _work.get()
    if run_id is None or not exports_spans:
        return origin.traceparent
    trace = trace_of(run_id, origin)
    return f"00-{trace.trace_id}-{span_id_of(run_id, step_id or '')}-{trace.flags}"


def get_origin() -> Origin:
    """Return the origin of runs that this task starts."""
    return Origin(get_traceparent(), _work.get().origin.request_id)


def add_to_log(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    """Add the ids of the request, the run and the trace that this task works for to a line of the log."""
    origin, run_id, _ = _work.get()
    if origin.request_id is not None:
        event.setdefault("request_id", origin.request_id)
    if run_id is not None:
        event.setdefault("run_id", str(run_id))
        event.setdefault("trace_id", trace_of(run_id, origin).trace_id)
    elif origin.traceparent is not None:
        event.setdefault("trace_id", origin.traceparent.split("-")[1])
    return event
