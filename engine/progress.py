"""How far a run is beside the steps that are done: what is written with every wait, and read to go on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from workflows.messages import Progress as _FirstForm

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
    """

    began: datetime
    attempts: int = 0
    until: datetime | None = None
    items: dict[int, ItemWait] = Field(default_factory=dict[int, ItemWait])


class Progress(BaseModel, frozen=True):
    """The steps that have begun and are not done. `version` is that of this form."""

    version: Literal[2] = VERSION
    steps: dict[str, StepProgress] = Field(default_factory=dict[str, StepProgress])


def read_progress(stored: Mapping[str, Any] | None) -> Progress:
    """Read what was stored, of this form or the one before.

    Raises:
        pydantic.ValidationError: it is of no form that this build can read.
    """
    if stored is None:
        return Progress()
    return Progress.model_validate(stored) if "version" in stored else _from_first_form(stored)


def _from_first_form(stored: Mapping[str, Any]) -> Progress:
    """The first form had a member for each kind of fact, by step."""
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
