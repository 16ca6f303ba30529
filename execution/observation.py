"""What is observed of runs when they begin, and when their changes are stored."""

from __future__ import annotations

from contextvars import ContextVar
from typing import NamedTuple

import metrics
from execution import clock
from execution.versions import LoadedVersion
from models.runs.run_work import Claim, ClaimedRun
from models.runs.run_writes import Change, End


class ObservedRun(NamedTuple):
    """The run that a task executes."""

    run: ClaimedRun
    version: LoadedVersion


_observed: ContextVar[ObservedRun | None] = ContextVar("observed run", default=None)


def enter(run: ClaimedRun, version: LoadedVersion) -> None:
    """Note that this task, and those that it creates, execute this run."""
    _observed.set(ObservedRun(run, version))


def note_begun(claim: Claim) -> None:
    """Observe how long the runs were queued that begin with this claim."""
    for run in (run for runs in claim.groups.values() for run in runs):
        if not run.recorded and run.queued_at is not None:
            metrics.RUN_QUEUED.observe((run.started_at - run.queued_at).total_seconds())


def note_written(change: Change) -> None:
    """Observe the finished steps and the end of a run that were just stored."""
    observed, end = _observed.get(), change.then if isinstance(change.then, End) else None
    if end is not None:
        metrics.RUNS.add(1, end.status, end.error.code if end.error else "")
        if end.status == "failed":
            metrics.note_failed_run(change.run_id)
    if observed is None or observed.run.run_id != change.run_id:
        return
    steps = observed.version.plan.steps
    for record in change.records:
        if record.item is None:
            seconds = (record.completed_at - record.started_at).total_seconds()
            metrics.STEP.observe(seconds, steps[record.position].type, record.status)
    if end is not None:
        metrics.RUN.observe((clock.now() - observed.run.started_at).total_seconds(), end.status)
