"""A world for one run: it does the driver's calls in any order, keeps its records and moves the clock.

At a crash all is lost that was not written, and a new driver goes on from the record.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn
from uuid import UUID, uuid5

from engine.calls import AttemptResult, Call, JSONObject, failed_attempt, item_output, unevaluated_attempt
from engine.driver import Driver
from engine.evaluation import evaluate_call
from engine.plan import Plan
from engine.records import RunEnd
from engine.run_room import ALWAYS_BYTES, ProcessRoom, RunRoom
from engine.state import RunInput
from language import step_evaluation
from language.definition import Definition
from language.expressions import ExpressionError
from language.progress import Progress, read_progress
from language.records import INLINE_BYTES, DoneStep, StepRecord
from language.steps import EmitStep, RememberStep, WaitStep, WorkflowStep

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMESPACE = UUID(int=7)
Key = tuple[str, int | None]


def outcome_of(run_id: UUID, call: Call, values: JSONObject, *, come: bool = True) -> AttemptResult:
    """Return what comes of a call: always the same for the same run, step, item and attempt.

    What others bring may be late: it is pending until it has `come`, or until the time for it is over.
    """
    scope = call.complete_scope(values)
    if call.lacks_item:
        scope["item"] = evaluate_call(_ask_nobody, call, scope).output
    luck = uuid5(run_id, f"{call.step.id}/{call.item}").int % 10
    try:
        if call.kind in ("evaluate", "prepare", "decide"):
            return evaluate_call(_ask_nobody, call, scope)
        if isinstance(call.step, RememberStep):
            if call.step.config.keys is not None:
                keys = step_evaluation.keys_of(call.step.config, scope)
                return AttemptResult({"keys": keys}, {"new": keys, "known": [], "ip": "8.8.8.8"})
            key = step_evaluation.key_of(call.step.config, scope)
            return AttemptResult({"key": key}, {"seen": luck > 5, "luck": luck, "ip": "8.8.8.8"})
        if isinstance(call.step, EmitStep):
            step_evaluation.alert_data_of(call.step.config, scope)
            return AttemptResult(None, {"event_id": None, "webhooks": luck, "ip": "8.8.8.8"})
        if isinstance(call.step, WorkflowStep):
            step_evaluation.child_input_of(call.step.config, scope)
    except ExpressionError as error:
        return unevaluated_attempt(error)
    if isinstance(call.step, WaitStep):
        return _resumed(call, call.step, luck, come=come)
    if call.kind == "run_child" and luck % 2 and not come:
        return AttemptResult(None, pending=True)
    if luck == 0:
        return failed_attempt("http_status", "404")
    if call.kind != "run_child" and ((luck in (1, 2) and call.attempt <= luck) or luck == 3):
        refused = failed_attempt("http_status", "503", retryable=True)
        return refused._replace(retry_after=600.0 if luck == 1 else 0.0)
    filler = "x" * (70_000 if luck == 9 else 10)
    return AttemptResult(None, {"luck": luck, "item": scope.get("item"), "filler": filler}, credits_used=1)


def new_room(chance: random.Random, crowded: float, *, limits_calls: bool = True) -> RunRoom:
    """Return the room of a run: in `crowded` of all cases for few values and calls, or none."""
    if not crowded or chance.random() >= crowded:
        return RunRoom()
    if chance.random() < 0.5:
        calls, largest = chance.choice((0, 4, 20)), chance.choice((10, 40, 150, INLINE_BYTES))
        return RunRoom(ProcessRoom(calls=calls, largest=largest), limits_calls=limits_calls)
    room = RunRoom(ProcessRoom(values=0))
    room.keep(ALWAYS_BYTES)
    return room


def _resumed(call: Call, step: WaitStep, luck: int, *, come: bool) -> AttemptResult:
    nobody = luck in (0, 1)
    if not call.expired and (nobody or (luck % 2 and not come)):
        return AttemptResult(None, pending=True)
    if nobody and step.config.on_timeout == "fail":
        return failed_attempt("wait_timeout", "Nobody came.")
    return AttemptResult(None, {"resumed": not nobody, "luck": luck, "ip": "8.8.8.8"})


def _ask_nobody(_: object) -> NoReturn:
    raise AssertionError("what is evaluated asks nobody")


@dataclass(repr=False)
class World:
    """`crashes` and `cancels`: how likely each is at any moment; `crowded`: that there is no room for values.

    Attributes:
        pending: what steps, and items of them, wait for from others.
        come: what has come of that.
        asked: the steps of which anything was asked, so far.
    """

    definition: JSONObject
    payload: JSONObject
    chance: random.Random
    crashes: float = 0.0
    cancels: float = 0.0
    crowded: float = 0.0
    now: datetime = START
    records: dict[str, StepRecord] = field(default_factory=dict[str, StepRecord])
    items: dict[str, dict[int, StepRecord]] = field(default_factory=dict[str, dict[int, StepRecord]])
    progress: Any = None
    calls: dict[Key, int] = field(default_factory=dict[Key, int])
    most_at_work: int = 0
    pending: set[Key] = field(default_factory=set[Key])
    come: set[Key] = field(default_factory=set[Key])
    asked: set[str] = field(default_factory=set[str])

    @property
    def run_id(self) -> UUID:
        return uuid5(NAMESPACE, str(self.payload["n"]))

    def run(self) -> RunEnd:
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
            elif self.pending and self.chance.random() < 0.5:
                self.come |= self.pending
                self.pending.clear()
                driver.recheck_answers()
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
        room = new_room(self.chance, self.crowded)
        return Driver(plan, run, {"id": str(NAMESPACE), "name": self.definition["name"]}, room)

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

    def _outcome(self, call: Call) -> AttemptResult:
        key = (call.step.id, call.item)
        if call.kind not in ("evaluate", "prepare", "decide"):
            self.asked.add(call.step.id)
        if call.kind in ("send", "look_up"):
            self.calls[key] = self.calls.get(key, 0) + 1
        if isinstance(call.step, WaitStep) and call.expired:
            assert self.now >= call.started_at + timedelta(seconds=call.step.config.timeout)
        values = {name: self._stored(name) for name in call.stored}
        outcome = outcome_of(self.run_id, call, values, come=key in self.come)
        if outcome.pending:
            self.pending.add(key)
        return outcome

    def _stored(self, name: str) -> Any:
        return self.payload if name == "trigger" else self.records[name].output

    def outcome(self, ended: RunEnd) -> Any:
        """All that the run came to, but for when: as the world of the batches tells it."""
        delays = [step["id"] for step in self.definition["steps"] if step["type"] == "delay"]
        steps = {
            step_id: (
                record.status,
                None if step_id in delays else record.output,
                record.error,
                record.credits_used,
                record.items_total,
                record.items_failed,
            )
            for step_id, record in self.records.items()
        }
        return (ended.status, ended.error), steps, self.calls
