"""How far a run is beside the steps that are done: what is written with every wait, and read to go on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from language.records import FailedAttempt, LiveStep

VERSION = 2


class ItemWait(BaseModel, frozen=True):
    """An item that has failed and is to be tried again: after how many attempts, and when."""

    attempts: int
    until: datetime


class StepProgress(BaseModel, frozen=True):
    """A step that has begun and is not done.

    Attributes:
        began: when its first attempt did.
        attempts: that have ended.
        until: when its delay is over, or its next attempt is due.
        items: those of its items that are to be tried again.
        at_work: something of it was being done when this was written.
        decided: its `if` was found true.
        attempt_log: the attempts that have failed.
    """

    began: datetime
    attempts: int = 0
    until: datetime | None = None
    items: dict[int, ItemWait] = Field(default_factory=dict[int, ItemWait])
    at_work: bool = False
    decided: bool = False
    attempt_log: tuple[FailedAttempt, ...] = ()


class Progress(BaseModel, frozen=True):
    """The steps that have begun and are not done. `version` is that of this form."""

    version: Literal[2] = VERSION
    steps: dict[str, StepProgress] = Field(default_factory=dict[str, StepProgress])


class _Pause(BaseModel, frozen=True):
    since: datetime
    until: datetime


class _ItemPause(BaseModel, frozen=True):
    attempts: int
    resume_at: datetime


class _FirstForm(BaseModel, frozen=True):
    """What was written before: a member for each kind of fact, by step."""

    attempts: dict[str, int] = Field(default_factory=dict[str, int])
    began: dict[str, datetime] = Field(default_factory=dict[str, datetime])
    backoffs: dict[str, datetime] = Field(default_factory=dict[str, datetime])
    pauses: dict[str, _Pause] = Field(default_factory=dict[str, _Pause])
    items: dict[str, dict[int, _ItemPause]] = Field(default_factory=dict[str, dict[int, _ItemPause]])


def read_progress(stored: Any) -> Progress:
    """Read what was stored, of this form or the one before.

    Raises:
        pydantic.ValidationError: it is of no form that this build can read.
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
    """Tell what was under way when this was written, as who watches the run sees it."""
    return [
        LiveStep(
            step_id=step_id,
            status="running" if until is None else "waiting",
            # One that is at work has begun one more attempt than have ended.
            attempts=max(1, step.attempts + (until is None)),
            started_at=step.began,
            until=until,
            attempt_log=step.attempt_log,
        )
        for step_id, step in progress.steps.items()
        for until in (_until(step),)
    ]


def _until(step: StepProgress) -> datetime | None:
    if step.at_work:
        return None
    return step.until or min((item.until for item in step.items.values()), default=None)
