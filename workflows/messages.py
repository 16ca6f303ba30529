"""What goes in and out of workflows and activities: small frozen models, ids and values only."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from language.definition import Step
from language.records import INLINE_BYTES, DoneStep, StepError, StepRecord

LOOKUP_MANY, SEND_MANY, EVALUATE_MANY = "lookup_many", "send_many", "evaluate_many"
PREPARE_MANY, END_RUNS = "prepare_many", "end_runs"
TAKE_EARLY_RESULTS = "take_early_results"
PARK_RUNS, WAKE_RUNS = "park_runs", "wake_runs"
AUTOMATION_BATCH = "AutomationBatch"
REFRESH_DATASETS, PURGE_LOOKUPS = "refresh_datasets", "purge_lookups"


PART_BYTES = 512 * 1024
"""How much data one message carries; what is more goes in parts."""
LIVE_BYTES = 1024 * 1024
"""How much output a batch keeps for later steps; what is more stays in its rows."""
_SMALL_BYTES = 1000


def most_inline(room: int) -> int:
    """How large an output may be that travels, with so much room left; what is small always does."""
    return min(INLINE_BYTES, max(room, _SMALL_BYTES))


class Ending(BaseModel, frozen=True):
    """How a run ends, as its batch sees it."""

    run_id: UUID
    status: Literal["completed", "failed", "cancelled"]
    error: StepError | None = None


class Pause(BaseModel, frozen=True):
    """A delay step that is under way."""

    since: datetime
    until: datetime


class ItemProgress(BaseModel, frozen=True):
    """An item that has failed and is to be tried again: how often so far, and when next."""

    attempts: int
    resume_at: datetime


class Progress(BaseModel, frozen=True):
    """How far a row is, beside the steps that are done: for a new history, or for a batch that wakes later.

    Attributes:
        attempts: begun, by step.
        began: when each step at work began.
        backoffs: when each step that has failed is tried again.
        pauses: the delay steps under way.
        items: by iterating step, the items that are to be tried again.
    """

    attempts: dict[str, int] = Field(default_factory=dict[str, int])
    began: dict[str, datetime] = Field(default_factory=dict[str, datetime])
    backoffs: dict[str, datetime] = Field(default_factory=dict[str, datetime])
    pauses: dict[str, Pause] = Field(default_factory=dict[str, Pause])
    items: dict[str, dict[int, ItemProgress]] = Field(default_factory=dict[str, dict[int, ItemProgress]])


class BatchRow(BaseModel, frozen=True):
    """One run of a batch: what triggered it, and how far an earlier batch has brought it.

    Attributes:
        size: of trigger and request together, in bytes.
        stored: trigger and request are in their row only.
        done: the steps that are done.
        items: by iterating step under way, the items that are done.
        progress: what was under way when the run was parked, if it was.
    """

    run_id: UUID
    trigger: Any = None
    request: Any = None
    size: int = 0
    stored: bool = False
    started_at: datetime
    done: list[DoneStep] = Field(default_factory=list[DoneStep])
    items: dict[str, list[int]] = Field(default_factory=dict[str, list[int]])
    progress: Progress = Progress()


class Batch(BaseModel, frozen=True):
    """The input of `AutomationBatch`: one definition and the rows to run it over.

    A batch that wakes after a long delay, or goes on with a new history, is started with its ids alone;
    `wake_runs` gives it the rest.

    Attributes:
        trigger: what started its runs: `manual`, `webhook` … or `mixed`.
        progress: by run, what the former history knew: more than what was stored when a run was parked.
    """

    batch_id: UUID
    account_id: UUID
    automation_id: UUID
    version: int
    priority: int
    trigger: str = ""
    definition: dict[str, Any] | None = None
    rows: list[BatchRow] = Field(default_factory=list[BatchRow])
    progress: dict[UUID, Progress] = Field(default_factory=dict[UUID, Progress])


class ItemCall(BaseModel, frozen=True):
    """One item of an iterating step; without its value if the activity evaluates the array."""

    item: int
    attempt: int
    value: Any = None


class StepCall(BaseModel, frozen=True):
    """One row of a step: what the step's expressions may read of it, and which attempt this is (from 1).

    Attributes:
        stored: the roots of the scope that are to be read from their rows.
        items: the items to do, if the step iterates.
        evaluates_items: the array does not travel: `for_each` is to be evaluated over the scope.
        deadline: when the step must be over, with all its attempts.
    """

    run_id: UUID
    scope: dict[str, Any]
    attempt: int
    started_at: datetime
    stored: list[str] = Field(default_factory=list[str])
    items: list[ItemCall] = Field(default_factory=list[ItemCall])
    evaluates_items: bool = False
    deadline: datetime | None = None


class StepCalls(BaseModel, frozen=True):
    """The input of the activities of steps: one step over the rows that are ready for it.

    Attributes:
        records: steps that the workflow did by itself, to be stored in the same transaction.
        keep_output: whether a later step reads the output; else it stays in its row.
        room: how many bytes of outputs the results may bring; what is more stays in its row.
    """

    batch_id: UUID
    account_id: UUID
    step: Step
    position: int
    calls: list[StepCall]
    records: list[StepRecord]
    keep_output: bool
    room: int = PART_BYTES


class StepResult(BaseModel, frozen=True):
    """How one call went; `cancelled`: somebody wants the run to end.

    Attributes:
        item: which item of an iterating step.
        attempt: which attempt has ended; 0: the one that was called for.
        retry_after: seconds, if the failure may be tried again.
        size: of the output, in bytes of JSON, if a later step reads it.
        stored: the output is in its row only.
    """

    run_id: UUID
    item: int | None = None
    attempt: int = 0
    status: Literal["completed", "failed", "cancelled"]
    output: Any = None
    error: StepError | None = None
    retry_after: float | None = None
    size: int = 0
    stored: bool = False


class StepResults(BaseModel, frozen=True):
    """One result a row; a row without one is no longer held by this batch."""

    results: list[StepResult]


class EarlyResults(BaseModel, frozen=True):
    """The signal of an activity that is still waiting for other rows: what is done, and of which attempt."""

    step_id: str
    attempts: dict[UUID, int] = Field(default_factory=dict[UUID, int])
    results: list[StepResult]


class RunEndings(BaseModel, frozen=True):
    """The input of `end_runs`: how rows end, and the last steps that the workflow did by itself."""

    batch_id: UUID
    endings: list[Ending]
    records: list[StepRecord]


class ParkedRun(BaseModel, frozen=True):
    """A run in which nothing is under way but long waits."""

    run_id: UUID
    progress: Progress


class Parking(BaseModel, frozen=True):
    """The input of `park_runs`: rows that leave `batch`, to go on as the batch `next_id` at `wake_at`."""

    batch: Batch
    next_id: UUID
    wake_at: datetime
    runs: list[ParkedRun]
    records: list[StepRecord]
