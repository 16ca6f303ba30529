"""The carrier of a run: a workflow of its own in Temporal, or the shift of a worker."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, LiteralString
from uuid import UUID

from pydantic import Field, ValidationError

from database import Connection
from language.progress import read_progress
from models.errors import NotFound
from models.priorities import ALONE
from models.views import View

Kind = Literal["workflow", "shift"]
QueuedFor = Literal["worker", "place", "limit", "idle_worker"]

SHOWN: LiteralString = (
    "case when w.status = 'queued' then null"
    " when w.carrier = '00000000-0000-0000-0000-000000000000' then 'workflow'"
    " when w.carrier is not null then 'shift' end"
)
"""The kind of carrier of a row `w` of `run_work`; null while it is queued."""


class PendingActivity(View):
    """A call that the run's workflow has under way."""

    activity: str = Field(description="Its step, item and attempt, such as `each[3]: webhook (attempt 2)`.")
    attempt: int = Field(description="Which one, from 1; more than 1 if a worker was lost with it.")
    since: datetime | None = Field(description="When it was scheduled.")
    last_failure: str | None = Field(description="Why the attempt before failed; null if none did.")
    paused: bool = Field(description="Whether somebody has paused it in Temporal: it waits until unpaused.")


class PendingTimer(View):
    """A step, or an item of one, that goes on by itself at some time."""

    step: str = Field(description="Which one, such as `approval`, or `each[3]` of a step with `for_each`.")
    until: datetime = Field(description="When its delay, timeout or pause between two attempts ends.")


class CarrierView(View):
    """The current carrier of a run."""

    kind: Kind | None = Field(description="`workflow`, `shift`; null while nothing does.")
    run_status: str = Field(description="Where the run stands.")
    queued_for: QueuedFor | None = Field(
        default=None,
        description="Of a queued run, what it waits for: a `worker`; a `place` for its own workflow; the"
        " `limit` of its workflow's `concurrency`; an `idle_worker`, since two were lost with it.",
    )
    worker_id: UUID | None = Field(default=None, description="Of a shift: its worker process.")
    shift_since: datetime | None = Field(default=None, description="Of a shift: when it began.")
    beat_at: datetime | None = Field(default=None, description="Of a shift: when it last told that it lives.")
    workflow_id: str | None = Field(default=None, description="The id of the run's workflow in Temporal.")
    workflow_status: str | None = Field(default=None, description="Where that stands, as Temporal has it.")
    workflow_url: str | None = Field(
        default=None, description="Its page in Temporal, if the service was told where Temporal's pages are."
    )
    history_length: int | None = Field(default=None, description="How many events its history has.")
    activities: list[PendingActivity] = Field(default=[], description="The calls that it has under way.")
    timers: list[PendingTimer] = Field(
        default=[], description="What the run waits for, whatever carries it; the next one first."
    )
    progress: list[str] = Field(default=[], description="Its steps as far as they are, a line each.")


_FIND: LiteralString = (
    "select coalesce(r.status, w.status) as run_status, " + SHOWN + " as kind, s.worker_id,"
    " s.started_at as shift_since, s.beat_at, w.progress as stored,"
    " case when w.status <> 'queued' then null when w.held then 'limit'"
    " when w.priority > %s then 'idle_worker' when w.own then 'place'"
    " when w.run_id is not null then 'worker' end as queued_for"
    " from runs r left join run_work w on w.run_id = r.id left join shifts s on s.id = w.carrier"
    " where r.account_id = %s and r.id = %s"
)


async def get(connection: Connection, account_id: UUID, run_id: UUID) -> CarrierView:
    """Return the view of a run's carrier, as far as it is in the rows.

    Raises:
        NotFound: the run is unknown, or another account's.
    """
    cursor = await connection.execute(_FIND, (ALONE, account_id, run_id))
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("run")
    return CarrierView(timers=_find_timers(row.pop("stored")), **row)


def _find_timers(stored: Any) -> list[PendingTimer]:
    """Return the waits in the progress of a run; none if another build wrote it."""
    try:
        steps = read_progress(stored).steps
    except ValidationError:
        return []
    timers = [
        PendingTimer(step=step_id, until=step.until)
        for step_id, step in steps.items()
        if step.until is not None and not step.at_work
    ]
    timers += [
        PendingTimer(step=f"{step_id}[{item}]", until=wait.until)
        for step_id, step in steps.items()
        for item, wait in step.items.items()
    ]
    return sorted(timers, key=lambda timer: timer.until)
