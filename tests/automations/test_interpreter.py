"""What a run gets never depends on its batch mates: random workflows, in batches of 1, 7 and 64.

The interpreter is driven without Temporal, by a small world that answers calls, keeps records and moves the
clock; what the activities report goes through their own code.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any
from uuid import UUID, uuid5

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from activities.outcome import Outcome, failure
from activities.reports import Report
from activities.steps import Job, jobs_of
from workflows import pure
from workflows.calls import Call, Command, End, Leave, Timer
from workflows.definition import Definition
from workflows.expressions import Budget, ExpressionError
from workflows.interpreter import Interpreter
from workflows.messages import (
    EVALUATE_MANY,
    PREPARE_MANY,
    Batch,
    BatchRow,
    DoneStep,
    Progress,
    StepCalls,
    StepRecord,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMESPACE = UUID(int=7)
JSONObject = dict[str, Any]


def run_id(payload: JSONObject) -> UUID:
    return uuid5(NAMESPACE, str(payload["n"]))


@dataclass
class World:
    """Answers the same for the same row, step, item and attempt, in whatever batch and order.

    `renew_after`: so many commands, and the batch goes on with a new history.
    """

    definition: JSONObject
    chance: random.Random
    renew_after: int = 0
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

        def take(commands: list[Command]) -> None:
            for command in commands:
                match command:
                    case Timer():
                        heapq.heappush(timers, (command.until, next(order), command))
                    case Call():
                        calls.append(command)
                    case Leave():
                        self._store(command.records)
                        woken.extend(
                            (command.wake_at, rows[run.run_id].model_copy(update={"pauses": run.pauses}))
                            for run in command.runs
                        )
                    case End():
                        self._store(command.endings.records)
                        for ending in command.endings.endings:
                            self.endings[ending.run_id] = (ending.status, ending.error)

        take(interpreter.advance())
        while calls or (timers and not renewing):
            carried_out += 1
            renewing = renewing or 0 < self.renew_after <= carried_out
            if calls and (renewing or not timers or self.chance.random() < 0.7):
                call = calls.pop(self.chance.randrange(len(calls)))
                interpreter.take_results(call, self._answer(call.calls, call.activity))
            else:
                self.now, _, timer = heapq.heappop(timers)
                timer.then()
            take(interpreter.commands() if renewing else interpreter.advance())
        if renewing:
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
            stored_items = self.items.get((call.run_id, calls.step.id), {})
            report.repeat(stored_items.values())
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
            if activity == PREPARE_MANY:
                return Outcome(None, len(pure.items_of(step, job.scope)))
            if activity == EVALUATE_MANY:
                return Outcome(None, pure.evaluate(step, job.scope, Budget()))
        except ExpressionError as error:
            return failure(error.code, error.message)
        key = (job.call.run_id, step.id, job.item)
        self.calls[key] = self.calls.get(key, 0) + 1
        luck = uuid5(job.call.run_id, f"{step.id}/{job.item}").int % 10
        if luck == 0:
            return failure("http_status", "404")
        if (luck in (1, 2) and job.attempt <= luck) or luck == 3:
            return failure("http_status", "503", retryable=True)
        filler = "x" * (70_000 if luck == 9 else 10)
        return Outcome(None, {"luck": luck, "item": job.scope.get("item"), "filler": filler}, credits_used=1)

    def _store(self, records: list[StepRecord]) -> None:
        """As the database does: the first record stands."""
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


@st.composite
def definitions(draw: st.DrawFn) -> JSONObject:
    """Workflows of every step type, with branches, needs, retries, items and errors.

    Where steps run side by side none may fail the run: what the others have done by then is a matter of time.
    """
    steps: list[JSONObject] = []
    side_by_side = draw(st.booleans())
    total = draw(st.integers(1, 8))
    for index in range(total):
        step: JSONObject = {"id": f"s{index}"}
        needs = [one["id"] for one in steps[-1:]]
        if index and side_by_side and draw(st.booleans()):
            needs = draw(st.lists(st.sampled_from([s["id"] for s in steps]), unique=True, max_size=3))
            step["needs"] = needs
        # It reads what it needs; but what a delay gives is a time, and not the same in every batch.
        readable = [one["id"] for one in steps if one["id"] in needs and one["type"] != "delay"]
        earlier = draw(st.sampled_from(["trigger", *readable]))
        kind = draw(st.sampled_from(["transform", "condition", "webhook", "lookup", "delay", "each"]))
        if kind == "transform":
            step |= {"type": "transform", "config": {"expression": f"[trigger.n, {earlier}]"}}
        elif kind == "condition":
            step |= {"type": "condition", "config": {"expression": f"trigger.n > {draw(st.integers(0, 60))}"}}
        elif kind == "webhook":
            url = f"http://h/{{{{ {earlier}.luck }}}}"
            step |= {"type": "webhook", "config": {"url": url}, "retry": {"max_attempts": 2}}
        elif kind == "lookup":
            step |= {"type": "ip_lookup", "config": {"field": f"{earlier}.ip"}}
        elif kind == "delay":
            step |= {"type": "delay", "config": {"seconds": draw(st.sampled_from([1, 60, 3600]))}}
        else:
            array = draw(st.sampled_from(["trigger.items", "[1, 2]", f"{earlier}.filler", f"[{earlier}]"]))
            step |= {"type": "webhook", "config": {"url": "http://h/{{ item }}"}, "for_each": array}
            step |= {"max_concurrency": draw(st.sampled_from([1, 3, 50]))}
        if side_by_side or kind == "each" or draw(st.booleans()):
            step["on_error"] = "continue"
        steps.append(step)
    free: list[str] = [step["id"] for step in steps]
    for index, step in enumerate(steps):
        if step["type"] == "condition" and draw(st.booleans()):
            for branch in ("then", "else"):
                later = [step_id for step_id in free if int(step_id[1:]) > index]
                members = draw(st.lists(st.sampled_from(later), unique=True, max_size=2)) if later else []
                step["config"][branch] = members
                free = [step_id for step_id in free if step_id not in members]
    definition = {"name": "random", "steps": steps}
    Definition.model_validate(definition)
    return definition


def payloads(numbers: int) -> list[JSONObject]:
    return [{"n": n, "ip": "8.8.8.8", "items": list(range(n % 9))} for n in range(numbers)]


def outcomes(
    definition: JSONObject, rows: list[JSONObject], size: int, seed: int, renew: int = 0
) -> list[Any]:
    """What each row comes to in batches of `size`."""
    found: list[Any] = []
    for start in range(0, len(rows), size):
        world = World(definition, random.Random(seed), renew)
        world.run(rows[start : start + size])
        found += [world.outcome(row) for row in rows[start : start + size]]
    return found


def same(definition: JSONObject, found: list[Any], expected: list[Any]) -> None:
    """The outcomes are equal; else say for the first row in what they differ."""
    for one, other in zip(found, expected, strict=True):
        if one != other:
            parts = [(str(a)[:2000], str(b)[:2000]) for a, b in zip(one, other, strict=True) if a != b]
            pytest.fail(f"{definition}: {parts}")


# Without shrinking: that would take minutes, and the first example found says enough.
@settings(max_examples=25, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(definitions(), st.integers(0, 2**32))
def test_a_run_comes_to_the_same_in_batches_of_1_7_and_64(definition: JSONObject, seed: int) -> None:
    rows = payloads(64)
    alone = outcomes(definition, rows, 1, seed)
    assert all(ending is not None for ending, _, _ in alone)
    same(definition, outcomes(definition, rows, 7, seed), alone)
    same(definition, outcomes(definition, rows, 64, seed), alone)


@settings(max_examples=50, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(definitions(), st.integers(0, 2**32), st.integers(1, 40))
def test_a_run_comes_to_the_same_with_a_new_history_half_way(
    definition: JSONObject, seed: int, renew_after: int
) -> None:
    rows = payloads(7)
    same(definition, outcomes(definition, rows, 7, seed, renew_after), outcomes(definition, rows, 1, seed))


def test_one_row_with_much_to_evaluate_is_done_in_several_tasks() -> None:
    heavy = "length(map(&to_string(@), trigger.items))"
    steps = [{"id": f"s{n}", "type": "transform", "config": {"expression": heavy}} for n in range(100)]
    world = World({"name": "heavy", "steps": steps}, random.Random(1))
    row = {"n": 1, "items": list(range(12_000))}
    world.run([row])
    (status, _), done, _ = world.outcome(row)
    assert status == "completed" and len(done) == 100
    assert world.now > START
