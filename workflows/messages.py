"""What goes in and out of workflows and activities: small frozen models, ids and values only."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from workflows.definition import ActivityStep

LOOKUP_MANY, SEND_MANY, END_RUNS = "lookup_many", "send_many", "end_runs"
TAKE_EARLY_RESULTS = "take_early_results"
PARK_RUNS, WAKE_RUNS = "park_runs", "wake_runs"
AUTOMATION_BATCH = "AutomationBatch"
REFRESH_DATASETS, PURGE_LOOKUPS = "refresh_datasets", "purge_lookups"


class StepError(BaseModel, frozen=True):
    """Why a step or a run failed: a stable code and a sentence; for a run also the step."""

    code: str
    message: str
    step: str | None = None
    attempt: int | None = None


class StepRecord(BaseModel, frozen=True):
    """What one step did in one run, as it is stored. Times are UTC."""

    run_id: UUID
    step_id: str
    position: int
    status: Literal["completed", "failed", "cancelled"]
    input: Any = None
    output: Any = None
    error: StepError | None = None
    attempts: int = 1
    credits_used: int = 0
    started_at: datetime
    completed_at: datetime


class Ending(BaseModel, frozen=True):
    """How a run ends, as its batch sees it."""

    run_id: UUID
    status: Literal["completed", "failed", "cancelled"]
    error: StepError | None = None


class Pause(BaseModel, frozen=True):
    """A delay step that is under way."""

    since: datetime
    until: datetime


class BatchRow(BaseModel, frozen=True):
    """One run of a batch: what triggered it, and how far an earlier batch has brought it.

    Attributes:
        done: the steps that are done.
        pauses: the delay steps that are under way.
    """

    run_id: UUID
    trigger: Any = None
    request: Any = None
    started_at: datetime
    done: list[StepRecord] = Field(default_factory=list[StepRecord])
    pauses: dict[str, Pause] = Field(default_factory=dict[str, Pause])


class Batch(BaseModel, frozen=True):
    """The input of `AutomationBatch`: one definition and the rows to run it over.

    A batch that wakes after a long delay is started with its ids alone; `wake_runs` gives it the rest.
    """

    batch_id: UUID
    account_id: UUID
    automation_id: UUID
    version: int
    priority: int
    definition: dict[str, Any] | None = None
    rows: list[BatchRow] = Field(default_factory=list[BatchRow])


class StepCall(BaseModel, frozen=True):
    """One row of a step: what the step's templates may read of it, and which attempt this is (from 1)."""

    run_id: UUID
    scope: dict[str, Any]
    attempt: int
    started_at: datetime


class StepCalls(BaseModel, frozen=True):
    """The input of `lookup_many` and `send_many`: one step over the rows that are ready for it.

    Attributes:
        records: steps that the workflow did by itself, to be stored in the same transaction.
        keep_output: whether a later step reads the output; else it stays in its row.
    """

    batch_id: UUID
    account_id: UUID
    step: ActivityStep = Field(discriminator="type")
    position: int
    calls: list[StepCall]
    records: list[StepRecord]
    keep_output: bool


class StepResult(BaseModel, frozen=True):
    """How one call went; `cancelled`: somebody wants the run to end.

    `retry_after` (seconds) is set when the failure may be tried again.
    """

    run_id: UUID
    status: Literal["completed", "failed", "cancelled"]
    output: Any = None
    error: StepError | None = None
    retry_after: float | None = None


class StepResults(BaseModel, frozen=True):
    """One result a row; a row without one is no longer held by this batch."""

    results: list[StepResult]


class EarlyResults(BaseModel, frozen=True):
    """The signal of an activity that is still waiting for other rows: what is done, and of which attempt."""

    step_id: str
    attempts: dict[UUID, int]
    results: list[StepResult]


class RunEndings(BaseModel, frozen=True):
    """The input of `end_runs`: how rows end, and the last steps that the workflow did by itself."""

    batch_id: UUID
    endings: list[Ending]
    records: list[StepRecord]


class ParkedRun(BaseModel, frozen=True):
    """A run that waits for nothing but its delays."""

    run_id: UUID
    pauses: dict[str, Pause]


class Parking(BaseModel, frozen=True):
    """The input of `park_runs`: rows that leave `batch`, to go on as the batch `next_id` at `wake_at`."""

    batch: Batch
    next_id: UUID
    wake_at: datetime
    runs: list[ParkedRun]
    records: list[StepRecord]
