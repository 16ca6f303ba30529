"""The interpreter without Temporal: a small world answers its calls, keeps records and moves the clock.

What the activities report goes through their own code.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any
from uuid import UUID, uuid5

from activities.reports import Report
from activities.steps import Job, jobs_of
from engine.calls import Outcome, failure
from language import step_evaluation
from language.definition import DelayStep
from language.expressions import Budget, ExpressionError
from language.records import DoneStep, StepRecord
from workflows.calls import Call, Command, End, Leave, Timer
from workflows.interpreter import Interpreter
from workflows.messages import EVALUATE_MANY, PREPARE_MANY, Batch, BatchRow, EarlyResults, Progress, StepCalls

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMESPACE = UUID(int=7)
JSONObject = dict[str, Any]


def size_of(command: Command) -> int:
    """The bytes of the message that a command sends."""
    match command:
        case Call(_, calls):
            return len(calls.model_dump_json())
        case End(endings):
            return len(endings.model_dump_json())
        case Leave(_, runs, records):
            return sum(len(one.model_dump_json()) for one in [*runs, *records])
        case Timer():
            return 0


def run_id(payload: JSONObject) -> UUID:
    return uuid5(NAMESPACE, str(payload["n"]))


@dataclass(repr=False)
class World:
    """Answers the same for the same row, step, item and attempt, in whatever batch and order.

    `renew_after`: so many commands, and the batch goes on with a new history.
    `trouble`: how likely a run is cancelled, or an activity lost when it is done, at any moment.
    """

    definition: JSONObject
    chance: random.Random
    renew_after: int = 0
    trouble: float = 0.0
    now: datetime = START
    payloads: dict[UUID, JSONObject] = field(default_factory=dict[UUID, JSONObject])
    records: dict[tuple[UUID, str], StepRecord] = field(default_factory=dict[tuple[UUID, str], StepRecord])
    items: dict[tuple[UUID, str], dict[int, StepRecord]] = field(
        default_factory=dict[tuple[UUID, str], dict[int, StepRecord]]
    )
    endings: dict[UUID, tuple[str, Any]] = field(default_factory=dict[UUID, tuple[str, Any]])
    calls: dict[tuple[UUID, str, int | None], int] = field(
        default_factory=dict[tuple[UUID, str, int | None], int]
    )
    begun: dict[UUID, set[str]] = field(default_factory=dict[UUID, set[str]])
    largest: int = 0

    def run(self, payloads: list[JSONObject]) -> None:
        rows = [
            BatchRow(run_id=run_id(payload), trigger=payload, started_at=START, size=50)
            for payload in payloads
        ]
        self.payloads = {run_id(payload): payload for payload in payloads}
        progress: dict[UUID, Progress] = {}
        while rows:
            batch = Batch(
                batch_id=NAMESPACE, account_id=NAMESPACE, automation_id=NAMESPACE, version=1, priority=2,
                definition=self.definition, rows=rows, progress=progress,
            )  # fmt: skip
            interpreter = Interpreter(batch, lambda: self.now)
            rows, progress = self._carry_out(interpreter, {row.run_id: row for row in rows})

    def _carry_out(
        self, interpreter: Interpreter, rows: dict[UUID, BatchRow]
    ) -> tuple[list[BatchRow], dict[UUID, Progress]]:
        """Carry out what the interpreter asks for; gives the rows that a new batch is to go on with."""
        timers: list[tuple[datetime, int, Timer]] = []
        calls: list[Call] = []
        woken: list[tuple[datetime, BatchRow]] = []
        order, carried_out, renewing = count(), 0, False
        bytes_of_largest = [0]

        def take(commands: list[Command]) -> None:
            for command in commands:
                bytes_of_largest.append(size_of(command))
                match command:
                    case Timer():
                        heapq.heappush(timers, (command.until, next(order), command))
                    case Call():
                        assert not any(call.run_id in self.endings for call in command.calls.calls)
                        calls.append(command)
                    case Leave():
                        self._store(command.records)
                        woken.extend(
                            (command.wake_at, rows[run.run_id].model_copy(update={"progress": run.progress}))
                            for run in command.runs
                        )
                    case End():
                        self._store(command.endings.records)
                        for ending in command.endings.endings:
                            assert ending.run_id not in self.endings
                            recorded = {step for run, step in self.records if run == ending.run_id}
                            assert self.begun.get(ending.run_id, set()) <= recorded
                            self.endings[ending.run_id] = (ending.status, ending.error)

            for row in rows if self.trouble else ():
                live = {one.step_id for one in interpreter.live_steps(row)}
                self.begun.setdefault(row, set()).update(live)

        take(interpreter.advance())
        while calls or (timers and not renewing):
            carried_out += 1
            renewing = renewing or 0 < self.renew_after <= carried_out
            if self.trouble and self.chance.random() < self.trouble:
                interpreter.cancel([self.chance.choice(list(rows))])
            if calls and (renewing or not timers or self.chance.random() < 0.7):
                call = calls.pop(self.chance.randrange(len(calls)))
                if self.trouble and self.chance.random() < self.trouble:
                    self._answer(call.calls, call.activity)
                results = self._answer(call.calls, call.activity)
                if call.activity != PREPARE_MANY and self.chance.random() < 0.3:
                    early = [result for result in results if self.chance.random() < 0.5]
                    interpreter.take_early_results(EarlyResults(step_id=call.calls.step.id, results=early))
                    take(interpreter.commands() if renewing else interpreter.advance())
                interpreter.take_results(call, results)
            else:
                until, _, timer = heapq.heappop(timers)
                self.now = max(self.now, until)  # a timer may begin after its moment
                timer.then()
            take(interpreter.commands() if renewing else interpreter.advance())
        self.largest = max(self.largest, *bytes_of_largest)
        if renewing:
            take(interpreter.close())
            self.renew_after = 0
            progress = interpreter.progress()
            left = [self._loaded(rows[run_id]) for run_id in progress]
            left += [self._loaded(row) for _, row in woken]
            return left, progress
        if woken:
            self.now = max(self.now, *(wake_at for wake_at, _ in woken))
        return [self._loaded(row) for _, row in woken], {}

    def _loaded(self, row: BatchRow) -> BatchRow:
        """The row with what is recorded of it."""
        done = [
            DoneStep(
                step_id=step_id, status=record.status, output=record.output, error=record.error,
                size=len(str(record.output)),
            )
            for (run, step_id), record in self.records.items()
            if run == row.run_id
        ]  # fmt: skip
        items = {
            step_id: sorted(item for item, record in found.items() if record.status == "completed")
            for (run, step_id), found in self.items.items()
            if run == row.run_id
        }
        return row.model_copy(update={"done": done, "items": items})

    def _answer(self, calls: StepCalls, activity: str) -> list[Any]:
        report = Report(calls, final=activity != PREPARE_MANY)
        self._store(report.take_records())
        for call in calls.calls:
            values = {(call.run_id, name): self._stored(call.run_id, name) for name in call.stored}
            if call.run_id in self.endings:
                continue
            stored_items = self.items.get((call.run_id, calls.step.id), {})
            recorded = self.records.get((call.run_id, calls.step.id))
            report.repeat([*stored_items.values(), *([recorded] if recorded else [])])
            for job in jobs_of(calls, call, values):
                if job.key not in report.repeated:
                    outcome = self._outcome(calls, activity, job)
                    report.add(call, job.item, job.attempt, outcome)
        self._store(report.take_records())
        return report.results

    def _stored(self, run: UUID, name: str) -> Any:
        return self.payloads[run] if name == "trigger" else self.records[run, name].output

    def _outcome(self, calls: StepCalls, activity: str, job: Job) -> Outcome:
        step: Any = calls.step
        try:
            if activity == PREPARE_MANY and isinstance(step, DelayStep):
                return Outcome(None, step_evaluation.until_of(step.config, job.scope))
            if activity == PREPARE_MANY:
                return Outcome(None, len(step_evaluation.items_of(step, job.scope)))
            if activity == EVALUATE_MANY:
                return Outcome(None, step_evaluation.evaluate(step, job.scope, Budget()))
        except ExpressionError as error:
            return failure(error.code, error.message)
        key = (job.call.run_id, step.id, job.item)
        self.calls[key] = self.calls.get(key, 0) + 1
        luck = uuid5(job.call.run_id, f"{step.id}/{job.item}").int % 10
        if luck == 0:
            return failure("http_status", "404")
        if (luck in (1, 2) and job.attempt <= luck) or luck == 3:
            refused = failure("http_status", "503", retryable=True)
            # Some endpoints ask for more time than a batch waits.
            return refused._replace(retry_after=600.0 if luck == 1 else 0.0)
        filler = "x" * (70_000 if luck == 9 else 10)
        return Outcome(None, {"luck": luck, "item": job.scope.get("item"), "filler": filler}, credits_used=1)

    def _store(self, records: list[StepRecord]) -> None:
        """As the database does: the first record stands, and a run that has ended gets no other."""
        records = [record for record in records if record.run_id not in self.endings]
        for record in records:
            if record.item is not None:
                kept = self.items.setdefault((record.run_id, record.step_id), {})
                kept.setdefault(record.item, record)
        for record in records:
            if record.item is None:
                gathered = self._gathered(record) if record.gathered else record
                self.records.setdefault((record.run_id, record.step_id), gathered)

    def _gathered(self, record: StepRecord) -> StepRecord:
        items = self.items.get((record.run_id, record.step_id), {})
        outputs = [
            one.output if one.error is None else {"error": one.error.model_dump(include={"code", "message"})}
            for _, one in sorted(items.items())
        ]
        credits = sum(one.credits_used for one in items.values())
        output = outputs if record.status == "completed" else None
        return record.model_copy(update={"output": output, "credits_used": credits})

    def outcome(self, payload: JSONObject) -> Any:
        """All that a run came to, but for when."""
        delays = [step["id"] for step in self.definition["steps"] if step["type"] == "delay"]
        steps = {
            step_id: (
                record.status,
                None if step_id in delays else record.output,
                record.error,
                record.credits_used,
            )
            for (run, step_id), record in self.records.items()
            if run == run_id(payload)
        }
        calls = {key[1:]: times for key, times in self.calls.items() if key[0] == run_id(payload)}
        return self.endings.get(run_id(payload)), steps, calls
