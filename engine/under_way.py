"""The state of a step that has begun and is not done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from engine.window import Window
from language.progress import ItemWait
from language.records import FailedAttempt, StepError


class StepWait(NamedTuple):
    """A step, or an item of it, that continues by itself at a moment."""

    step_id: str
    item: int | None
    until: datetime


@dataclass
class StepUnderWay:
    """A step that has begun and is not done.

    Attributes:
        began: when its first attempt began.
        attempts: the number of attempts begun so far.
        calling: whether an attempt, or its preparation, is under way.
        until: the end of its delay, or the time of its next attempt.
        window: its items, once they are known.
        items: its waiting items, until there is a window.
        decided: whether its `if` was true, or it has none.
        attempt_log: the attempts that have failed and are followed by another.
        attempt_began: when its carrier began the attempt under way.
    """

    began: datetime
    attempts: int = 0
    calling: bool = False
    until: datetime | None = None
    window: Window | None = None
    items: Mapping[int, ItemWait] = field(default_factory=dict[int, ItemWait])
    decided: bool = True
    attempt_log: tuple[FailedAttempt, ...] = ()
    attempt_began: datetime | None = None

    def log_failure(self, attempt: int, error: StepError, now: datetime) -> None:
        """Log a failed attempt; the next one is due at `until`."""
        began, self.attempt_began = self.attempt_began, None
        failed = FailedAttempt(
            attempt=attempt,
            at=now if began is None else max(now, began),
            error=error,
            started_at=began,
            next_attempt_at=self.until,
        )
        self.attempt_log = (*self.attempt_log, failed)

    @property
    def at_work(self) -> bool:
        """Return whether a call of it is under way."""
        return self.calling or (self.window is not None and self.window.calling)

    def waits(self, step_id: str) -> Iterator[StepWait]:
        """Yield its waits, under this name."""
        if self.window is not None:
            for item, until in self.window.pausing.items():
                yield StepWait(step_id, item, until)
        elif self.until is not None and not self.calling:
            yield StepWait(step_id, None, self.until)
