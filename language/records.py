"""What is recorded of a run: what its steps did, and which are under way."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from pydantic import BaseModel

INLINE_BYTES = 64 * 1024
"""What is larger, as JSON, stays in its row: only a reference to it travels."""


class StepError(BaseModel, frozen=True):
    """Why a step or a run failed: a stable code and a sentence; for a run also the step."""

    code: str
    message: str
    step: str | None = None
    attempt: int | None = None


class FailedAttempt(BaseModel, frozen=True):
    """An attempt at a call that was followed by another: when it had failed, and why."""

    attempt: int
    at: datetime
    error: StepError


class ItemTally(NamedTuple):
    """How the items of a step ended.

    Attributes:
        total: how many there are.
        failed: how many have failed.
        first: of those the first in the array, and its error.
    """

    total: int
    failed: int = 0
    first: tuple[int, StepError] | None = None


class StepRecord(NamedTuple):
    """What one step did in one run, as it is stored. Times are UTC.

    Attributes:
        item: set for one item of an iterating step; these have records of their own.
        gathered: the output and the credits are those of all its items.
        items_total: how many items it has, if it has any number of them.
        items_failed: how many of them have failed.
        attempt_log: the attempts before the last.
        performed_by: what took the run forward then: its own workflow's activity, or a shift.
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
    """A step that is done, as far as later steps need to know; `size` is that of the output in bytes.

    `stored`: the output is in its row only.
    """

    step_id: str
    status: Literal["completed", "failed", "cancelled"]
    output: Any = None
    error: StepError | None = None
    size: int = 0
    stored: bool = False


class LiveStep(NamedTuple):
    """A step that is under way, for those who watch its run: `until` when it pauses till then.

    `attempt_log`: the attempts that have failed.
    """

    step_id: str
    status: Literal["running", "waiting"]
    attempts: int
    started_at: datetime
    until: datetime | None = None
    attempt_log: Sequence[FailedAttempt] = ()
