"""The figures and spans of runs, observed when they begin and when their changes are stored."""

from __future__ import annotations

from contextvars import ContextVar
from datetime import datetime
from typing import NamedTuple

import metrics
import telemetry
import tracing
from execution import clock
from execution.versions import LoadedVersion
from language.records import StepRecord
from models.runs.run_work import Claim, ClaimedRun, VersionRef
from models.runs.run_writes import Change, End
from telemetry import Span
from tracing import span_id_of


class ObservedRun(NamedTuple):
    """The run that a task executes."""

    of: VersionRef
    run: ClaimedRun
    version: LoadedVersion


_observed: ContextVar[ObservedRun | None] = ContextVar("observed run", default=None)


def note_begun(claim: Claim) -> None:
    """Observe how long the runs were queued that begin with this claim, and that they were accepted."""
    for run in (run for runs in claim.groups.values() for run in runs):
        if not run.recorded and (at := run.queued_at) is not None:
            metrics.RUN_QUEUED.observe((run.started_at - at).total_seconds())
            if tracing.exports_spans:
                _export_part(run, "accepted", "accepted", (at, at), {})


def observe_run(of: VersionRef, run: ClaimedRun, version: LoadedVersion) -> None:
    """Note that this task, and those that it creates, execute this run."""
    _observed.set(ObservedRun(of, run, version))
    tracing.trace_work(run.origin, run.run_id)


def note_written(change: Change) -> None:
    """Observe the finished steps and the end of a run that were just stored."""
    observed, end = _observed.get(), change.then if isinstance(change.then, End) else None
    if end is not None:
        metrics.RUNS.add(1, end.status, end.error.code if end.error else "")
        if end.status == "failed":
            metrics.note_failed_run(change.run_id)
    if observed is None or observed.run.run_id != change.run_id:
        return
    for record in change.records:
        if record.item is None:
            _note_step(observed, record)
    if end is not None:
        now = clock.now()
        metrics.RUN.observe((now - observed.run.started_at).total_seconds(), end.status)
        if tracing.exports_spans:
            _export_run(observed, end, now)


def _note_step(observed: ObservedRun, record: StepRecord) -> None:
    kind = observed.version.plan.steps[record.position].type
    seconds = (record.completed_at - record.started_at).total_seconds()
    metrics.STEP.observe(seconds, kind, record.status)
    if tracing.exports_spans:
        attributes = {
            "vedette.step_id": record.step_id, "vedette.step_type": kind, "vedette.status": record.status,
            "vedette.attempts": record.attempts,
        }  # fmt: skip
        times = (record.started_at, record.completed_at)
        error = record.error and record.error.code
        _export_part(observed.run, f"step {kind}", record.step_id, times, attributes, error)


def _export_part(
    run: ClaimedRun,
    name: str,
    part: str,
    times: tuple[datetime, datetime],
    attributes: dict[str, str | int],
    error: str | None = None,
) -> None:
    """Export a span below that of the run."""
    run_id = run.run_id
    trace = tracing.trace_of(run_id, run.origin)._replace(parent_id=span_id_of(run_id))
    attributes = {"vedette.run_id": str(run_id), **attributes}
    telemetry.export(Span(name, span_id_of(run_id, part), trace, *times, attributes, error))


def _export_run(observed: ObservedRun, end: End, ended_at: datetime) -> None:
    run, trace = observed.run, tracing.trace_of(observed.run.run_id, observed.run.origin)
    attributes: dict[str, str | int] = {
        "vedette.run_id": str(run.run_id), "vedette.workflow_id": str(observed.of.automation_id),
        "vedette.workflow_version": observed.of.version, "vedette.status": end.status,
    }  # fmt: skip
    links: list[tuple[str, str]] = []
    if run.parent_run_id is not None:
        attributes["vedette.parent_run_id"] = str(run.parent_run_id)
        links = [(trace.trace_id, span_id_of(run.parent_run_id))]
    error, accepted_at = end.error and end.error.code, run.queued_at or run.started_at
    telemetry.export(
        Span("run", span_id_of(run.run_id), trace, accepted_at, ended_at, attributes, error, links)
    )
