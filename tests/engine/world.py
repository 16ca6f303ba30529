"""A world for one run: it does the driver's calls in any order, keeps its records and moves the clock.

At a crash all is lost that was not written, and a new driver goes on from the record.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid5

from engine.calls import Call, JSONObject, Outcome, failure, item_output, not_evaluated
from engine.driver import Driver, Ended
from engine.plan import Plan
from engine.state import RunInput
from language import step_evaluation
from language.definition import Definition, DelayStep
from language.expressions import ExpressionError
from language.progress import Progress, read_progress
from language.records import DoneStep, StepRecord

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMESPACE = UUID(int=7)
Key = tuple[str, int | None]


def outcome_of(run_id: UUID, call: Call, values: JSONObject) -> Outcome:
    """What comes of a call: always the same for the same run, step, item and attempt."""
    step: Any = call.step
    scope = call.complete_scope(values)
    try:
        if call.kind == "prepare" and isinstance(step, DelayStep):
            return Outcome(None, step_evaluation.until_of(step.config, scope))
        if call.kind == "prepare":
            return Outcome(None, step_evaluation.items_of(step, scope))
        if call.kind == "evaluate":
            return Outcome(None, step_evaluation.evaluate(step, scope, step_evaluation.budget_of(step)))
    except ExpressionError as error:
        return not_evaluated(error)
    luck = uuid5(run_id, f"{step.id}/{call.item}").int % 10
    if luck == 0:
        return failure("http_status", "404")
    if (luck in (1, 2) and call.attempt <= luck) or luck == 3:
        refused = failure("http_status", "503", retryable=True)
        return refused._replace(retry_after=600.0 if luck == 1 else 0.0)
    filler = "x" * (70_000 if luck == 9 else 10)
    return Outcome(None, {"luck": luck, "item": scope.get("item"), "filler": filler}, credits_used=1)


@dataclass(repr=False)
class World:
    """`crashes` and `cancels`: how likely each is at any moment."""

    definition: JSONObject
    payload: JSONObject
    chance: random.Random
    crashes: float = 0.0
    cancels: float = 0.0
    now: datetime = START
    records: dict[str, StepRecord] = field(default_factory=dict[str, StepRecord])
    items: dict[str, dict[int, StepRecord]] = field(default_factory=dict[str, dict[int, StepRecord]])
    progress: Any = None
    calls: dict[Key, int] = field(default_factory=dict[Key, int])
    most_at_work: int = 0

    @property
    def run_id(self) -> UUID:
        return uuid5(NAMESPACE, str(self.payload["n"]))

    def run(self) -> Ended:
        driver, at_work = self._driver(), list[Call]()
        for _ in range(100_000):
            begun = driver.advance(self.now)
            self._write(driver)
            if driver.ended is not None:
                return driver.ended
            at_work += begun
            self.most_at_work = max(self.most_at_work, len(at_work))
            assert driver.at_work == bool(at_work)
            if self.chance.random() < self.crashes:
                driver, at_work = self._driver(), []
            elif self.chance.random() < self.cancels:
                driver.cancel(self.now)
            elif at_work and (driver.wakes_at is None or self.chance.random() < 0.7):
                call = at_work.pop(self.chance.randrange(len(at_work)))
                driver.take(call, self._outcome(call), self.now)
            else:
                assert driver.wakes_at is not None, "nothing is at work, and nothing wakes"
                self.now = max(self.now, driver.wakes_at)
        raise AssertionError("it does not end")

    def _driver(self) -> Driver:
        """A driver that knows what was written."""
        done = [
            DoneStep(
                step_id=step_id, status=record.status, output=record.output, error=record.error,
                size=len(str(record.output)),
            )
            for step_id, record in self.records.items()
        ]  # fmt: skip
        items = {
            step_id: {item: record.error for item, record in found.items()}
            for step_id, found in self.items.items()
        }
        run = RunInput(
            self.run_id, START, trigger=self.payload, size=50, done=done, items=items,
            progress=read_progress(self.progress),
        )  # fmt: skip
        plan = Plan(Definition.model_validate(self.definition))
        return Driver(plan, run, {"id": str(NAMESPACE), "name": self.definition["name"]})

    def _write(self, driver: Driver) -> None:
        """As the database does: the first record of a step stands."""
        for record in driver.take_records():
            if record.item is not None:
                self.items.setdefault(record.step_id, {}).setdefault(record.item, record)
            else:
                whole = self._gathered(record) if record.gathered else record
                assert record.step_id not in self.records
                self.records[record.step_id] = whole
        self.progress = Progress.model_validate(driver.progress()).model_dump(mode="json")

    def _gathered(self, record: StepRecord) -> StepRecord:
        items = [one for _, one in sorted(self.items.get(record.step_id, {}).items())]
        outputs = [item_output(one.output, one.error) for one in items]
        credits = sum(one.credits_used for one in items)
        output = outputs if record.status == "completed" else None
        return record._replace(output=output, credits_used=credits)

    def _outcome(self, call: Call) -> Outcome:
        if call.kind in ("send", "look_up"):
            key = (call.step.id, call.item)
            self.calls[key] = self.calls.get(key, 0) + 1
        return outcome_of(self.run_id, call, {name: self._stored(name) for name in call.stored})

    def _stored(self, name: str) -> Any:
        return self.payload if name == "trigger" else self.records[name].output

    def outcome(self, ended: Ended) -> Any:
        """All that the run came to, but for when: as the world of the batches tells it."""
        delays = [step["id"] for step in self.definition["steps"] if step["type"] == "delay"]
        steps = {
            step_id: (
                record.status,
                None if step_id in delays else record.output,
                record.error,
                record.credits_used,
            )
            for step_id, record in self.records.items()
        }
        return (ended.status, ended.error), steps, self.calls
