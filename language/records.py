"""The records of a run: its finished steps, and those in progress."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from pydantic import BaseModel

INLINE_BYTES = 64 * 1024
"""The size limit of inline values, as JSON: a larger one stays in its row, and only a reference is passed."""


class StepError(BaseModel, frozen=True):
    """The reason why a step or a run failed: a stable code and a sentence; for a run also the step."""

    code: str
    message: str
    step: str | None = None
    attempt: int | None = None


class FailedAttempt(BaseModel, frozen=True):
    """An attempt at a call that was followed by another: the time of its failure, and the reason.

    Attributes:
        started_at: its begin; unknown in records of earlier releases, like the next two.
        next_attempt_at: the time at which the next attempt was due.
        next_started_at: in the record of a step, the begin of its last attempt; set in the last entry only.
    """

    attempt: int
    at: datetime
    error: StepError
    started_at: datetime | None = None
    next_attempt_at: datetime | None = None
    next_started_at: datetime | None = None


class ItemTally(NamedTuple):
    """The ends of a step's items.

    Attributes:
        total: the number of items.
        failed: the number of failed items.
        first: the first failed item in the array, and its error.
    """

    total: int
    failed: int = 0
    first: tuple[int, StepError] | None = None


class StepRecord(NamedTuple):
    """The stored record of one step in one run. Times are UTC.

    Attributes:
        item: set for one item of an iterating step; items have records of their own.
        gathered: whether the output and the credits are those of all its items.
        items_total: the number of its items, if it iterates.
        items_failed: the number of failed items.
        attempt_log: the attempts before the last.
        performed_by: the carrier of the run then: its own workflow's activity, or a shift.
    """

    run_id: UUID
    step_id: str
    position: int
    status: Literal["completed", "failed", "cancelled"]
    started_at: datetime
    completed_at: datetime
    input: Any = None
    output: Any = None
    error: StepError | None = None
    attempts: int = 1
    credits_used: int = 0
    item: int | None = None
    gathered: bool = False
    items_total: int | None = None
    items_failed: int | None = None
    attempt_log: Sequence[FailedAttempt] = ()
    performed_by: Literal["activity", "shift"] = "shift"


class DoneStep(BaseModel, frozen=True):
    """A finished step, with the data that later steps need; `size` is that of the output in bytes.

    `stored`: whether the output is in its row only.
    """

    step_id: str
    status: Literal["completed", "failed", "cancelled"]
    output: Any = None
    error: StepError | None = None
    size: int = 0
    stored: bool = False


class LiveStep(NamedTuple):
    """A step in progress, for watchers of its run; `until` is the end of its pause.

    `attempt_log`: the failed attempts. `attempt_began`: the begin of the attempt under way, if known.
    """

    step_id: str
    status: Literal["running", "waiting"]
    attempts: int
    started_at: datetime
    until: datetime | None = None
    attempt_log: Sequence[FailedAttempt] = ()
    attempt_began: datetime | None = None
