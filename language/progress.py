"""The progress of a run beyond its finished steps: written with every wait, and read to continue."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from language.records import FailedAttempt, LiveStep

VERSION = 2


class ItemWait(BaseModel, frozen=True):
    """A failed item that is to be retried: the number of attempts, and the time of the next."""

    attempts: int
    until: datetime


class StepProgress(BaseModel, frozen=True):
    """A step that has begun and is not done.

    Attributes:
        began: the start of its first attempt.
        attempts: the number of ended attempts.
        until: the end of its delay, or the time of its next attempt.
        items: its items that are to be retried.
        at_work: whether it was being executed when this was written.
        decided: whether its `if` was evaluated to true.
        attempt_log: the failed attempts.
        attempt_began: the begin of the attempt under way.
    """

    began: datetime
    attempts: int = 0
    until: datetime | None = None
    items: dict[int, ItemWait] = Field(default_factory=dict[int, ItemWait])
    at_work: bool = False
    decided: bool = False
    attempt_log: tuple[FailedAttempt, ...] = ()
    attempt_began: datetime | None = None


class Progress(BaseModel, frozen=True):
    """The steps that have begun and are not done. `version` is the version of this format."""

    version: Literal[2] = VERSION
    steps: dict[str, StepProgress] = Field(default_factory=dict[str, StepProgress])


class _Pause(BaseModel, frozen=True):
    since: datetime
    until: datetime


class _ItemPause(BaseModel, frozen=True):
    attempts: int
    resume_at: datetime


class _FirstForm(BaseModel, frozen=True):
    """The previous format: a member for each kind of fact, by step."""

    attempts: dict[str, int] = Field(default_factory=dict[str, int])
    began: dict[str, datetime] = Field(default_factory=dict[str, datetime])
    backoffs: dict[str, datetime] = Field(default_factory=dict[str, datetime])
    pauses: dict[str, _Pause] = Field(default_factory=dict[str, _Pause])
    items: dict[str, dict[int, _ItemPause]] = Field(default_factory=dict[str, dict[int, _ItemPause]])


def read_progress(stored: Any) -> Progress:
    """Read stored progress, in this format or the previous one.

    Raises:
        pydantic.ValidationError: this build cannot read the format.
    """
    if stored is None:
        return Progress()
    if isinstance(stored, Mapping) and "version" not in stored:
        return _from_first_form(stored)
    return Progress.model_validate(stored)


def _from_first_form(stored: Any) -> Progress:
    first = _FirstForm.model_validate(stored)
    steps: dict[str, StepProgress] = {}
    for step_id, began in first.began.items():
        pause = first.pauses.get(step_id)
        items = first.items.get(step_id, {})
        steps[step_id] = StepProgress(
            began=began if pause is None else pause.since,
            attempts=first.attempts.get(step_id, 0),
            until=first.backoffs.get(step_id) if pause is None else pause.until,
            items={item: ItemWait(attempts=one.attempts, until=one.resume_at) for item, one in items.items()},
        )
    return Progress(steps=steps)


def steps_under_way(progress: Progress) -> list[LiveStep]:
    """Return the steps that were in progress when this was written, in the form for watchers."""
    return [
        LiveStep(
            step_id=step_id,
            status="running" if until is None else "waiting",
            # A step at work has started one more attempt than have ended.
            attempts=max(1, step.attempts + (until is None)),
            started_at=step.began,
            until=until,
            attempt_log=step.attempt_log,
            attempt_began=step.attempt_began,
        )
        for step_id, step in progress.steps.items()
        for until in (_find_wait_end(step),)
    ]


def _find_wait_end(step: StepProgress) -> datetime | None:
    if step.at_work:
        return None
    return step.until or min((item.until for item in step.items.values()), default=None)
