"""A dry run: the interpreter over one row, where delays pass at once and nothing goes out.

What the workflow leaves to activities is done here: requests are rendered, and not sent; lookups are
answered by the caller. All else is the interpreter itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from language import step_evaluation
from language.definition import ConditionStep, DelayStep, LookupStep, Step, TransformStep, WebhookStep
from language.expressions import JSON, Budget, ExpressionError
from language.records import DoneStep, StepError, StepRecord
from workflows.calls import Call, End, Leave, Timer
from workflows.interpreter import Interpreter
from workflows.messages import PREPARE_MANY, Batch, BatchRow, StepCall, StepResult

MASK = "***"
"""What stands for every secret."""
MAX_CALLS = 1000
"""How many lookups and requests a dry run has; a step that wants more fails."""
MAX_NODES = 5_000_000
"""What the expressions of a dry run may visit, all steps together: about a second's work."""
MAX_BYTES = 4 * 1024 * 1024
"""How large the inputs and outputs of its steps may be as JSON, all together."""

LookUp = Callable[[LookupStep, str], "JSON | StepError"]
"""Answers a lookup step's lookup of a text, or says why it fails."""


class Rehearsed(NamedTuple):
    """How a dry run ended, and what its steps did; steps without a record were skipped."""

    error: StepError | None
    records: list[StepRecord]


class _Done(NamedTuple):
    """What one call came to: its input, and its output or error."""

    input: JSON
    output: JSON = None
    error: StepError | None = None


class _TooMuch(Exception):
    """The dry run has used up what all its steps may have together. The message says what."""


class Rehearsal:
    """One dry run."""

    def __init__(
        self,
        batch: Batch,
        *,
        now: Callable[[], datetime],
        look_up: LookUp,
        secrets: Collection[str],
    ) -> None:
        """Prepare.

        Args:
            batch: a definition and one row.
            now: the time.
            look_up: answers lookups.
            secrets: the names of the account's secrets.
        """
        self._batch = batch
        self._now = now
        self._look_up = look_up
        masked: dict[str, JSON] = dict.fromkeys(secrets, MASK)
        self._secrets: dict[str, JSON] = {"secrets": masked}
        self._skipped = timedelta()
        self._calls_left = MAX_CALLS
        self._nodes_left = MAX_NODES
        self._bytes_left = MAX_BYTES
        self._step: str | None = None
        self._records: dict[str, StepRecord] = {}
        self._items: dict[str, dict[int, _Done]] = {}
        self._timers: list[Timer] = []
        self._interpreter = Interpreter(batch, self._clock)

    def run(self) -> Rehearsed:
        """Run the row to its end, or until it is too much for a dry run."""
        try:
            return self._run()
        except _TooMuch as reason:
            error = StepError(code="dry_run_too_large", message=str(reason), step=self._step)
            return Rehearsed(error, list(self._records.values()))

    def _run(self) -> Rehearsed:
        while True:
            before = self._interpreter.nodes
            commands = self._interpreter.advance()
            self._spend(self._interpreter.nodes - before)
            if not commands:
                self._pass_time()
            for command in commands:
                match command:
                    case Call():
                        self._call(command)
                    case Timer():
                        self._timers.append(command)
                    case Leave():
                        self._wake(command)
                    case End(endings):
                        self._note(endings.records)
                        return Rehearsed(endings.endings[0].error, list(self._records.values()))

    def _spend(self, nodes: int) -> None:
        self._nodes_left -= nodes
        if self._nodes_left < 0:
            raise _TooMuch(
                f"The expressions of all steps together do more than a dry run may ({MAX_NODES:,} nodes)."
                " Try fewer steps, or a smaller input."
            )

    @contextmanager
    def _charged(self, budget: Budget) -> Generator[Budget]:
        """What is left of a budget within that of the dry run, which pays for what is used of it."""
        least = Budget(min(budget.nodes_left, self._nodes_left + 1), budget.output_left)
        before = least.nodes_left
        try:
            yield least
        finally:
            self._spend(before - least.nodes_left)

    def _clock(self) -> datetime:
        """The time, with the delays that have passed."""
        return self._now() + self._skipped

    def _skip_to(self, moment: datetime) -> None:
        self._skipped += max(timedelta(), moment - self._clock())

    def _pass_time(self) -> None:
        timer = min(self._timers, key=lambda timer: timer.until)
        self._timers.remove(timer)
        self._skip_to(timer.until)
        timer.then()

    def _wake(self, leave: Leave) -> None:
        """Go on after a long delay, with what a new batch would know."""
        self._note(leave.records)
        self._skip_to(leave.wake_at)
        done = [
            DoneStep(step_id=record.step_id, status=record.status, output=record.output, error=record.error)
            for record in self._records.values()
        ]
        update: Mapping[str, Any] = {"done": done, "progress": leave.runs[0].progress}
        row = self._batch.rows[0].model_copy(update=update)
        self._timers = []
        self._interpreter = Interpreter(self._batch.model_copy(update={"rows": [row]}), self._clock)

    def _call(self, call: Call) -> None:
        self._note(call.calls.records)
        step, results = call.calls.step, list[StepResult]()
        self._step = step.id
        for one in [self._with_stored(one) for one in call.calls.calls]:
            if call.activity == PREPARE_MANY:
                results.append(_result(one, self._prepared(step, one.scope)))
            elif not one.items:
                done = self._attempt(step, one.scope, one.attempt)
                results.append(_result(one, done))
                self._note([self._record(call, one, done)])
            elif isinstance(step, LookupStep | WebhookStep):
                results += self._do_items(step, one)
        self._interpreter.take_results(call, results)

    def _with_stored(self, call: StepCall) -> StepCall:
        """The call with what did not travel with it."""
        scope = dict(call.scope)
        for name in call.stored:
            row = self._batch.rows[0]
            given = {"trigger": row.trigger, "request": row.request}
            scope[name] = given[name] if name in given else self._records[name].output
            if name in scope.get("steps", {}):
                scope["steps"] = {**scope["steps"], name: {**scope["steps"][name], "output": scope[name]}}
        return call.model_copy(update={"scope": scope})

    def _do_items(self, step: LookupStep | WebhookStep, call: StepCall) -> list[StepResult]:
        values = None
        if call.evaluates_items:
            with self._charged(Budget()) as budget:
                values = step_evaluation.items_of(step, call.scope, budget)
        results: list[StepResult] = []
        for item in call.items:
            value = values[item.item] if values is not None else item.value
            done = self._attempt(step, {**call.scope, "item": value}, item.attempt)
            self._items.setdefault(step.id, {})[item.item] = done
            results.append(_result(call, done, item.item))
        return results

    def _attempt(self, step: Step, scope: Mapping[str, JSON], attempt: int) -> _Done:
        done = self._done(step, scope)
        if done.error is None:
            return done
        return done._replace(error=done.error.model_copy(update={"attempt": attempt}))

    def _done(self, step: Step, scope: Mapping[str, JSON]) -> _Done:
        try:
            if isinstance(step, ConditionStep | TransformStep):
                with self._charged(step_evaluation.budget_of(step)) as budget:
                    return _Done(None, step_evaluation.evaluate(step, scope, budget))
            if self._calls_left == 0:
                message = f"A dry run has at most {MAX_CALLS} lookups and requests."
                return _Done(None, error=StepError(code="too_many_calls", message=message))
            self._calls_left -= 1
            if isinstance(step, WebhookStep):
                with ExitStack() as charges:
                    request = step_evaluation.RequestTemplates(step.config).render(
                        {**scope, **self._secrets},
                        lambda: charges.enter_context(self._charged(Budget())),
                    )
                return _Done(request._asdict(), _sample_answer(step))
            assert isinstance(step, LookupStep)
            with self._charged(Budget()) as budget:
                text = step_evaluation.target_of(step.config, scope, budget)
        except ExpressionError as problem:
            return _Done(None, error=StepError(code=problem.code, message=problem.message))
        answer = self._look_up(step, text)
        return _Done(text, error=answer) if isinstance(answer, StepError) else _Done(text, answer)

    def _prepared(self, step: Step, scope: Mapping[str, JSON]) -> _Done:
        """What a step needs to begin: how many items, or until when to wait."""
        try:
            with self._charged(Budget()) as budget:
                if isinstance(step, DelayStep):
                    return _Done(None, step_evaluation.until_of(step.config, scope, budget))
                assert isinstance(step, LookupStep | WebhookStep | TransformStep)
                return _Done(None, len(step_evaluation.items_of(step, scope, budget)))
        except ExpressionError as problem:
            return _Done(None, error=StepError(code=problem.code, message=problem.message))

    def _record(self, call: Call, one: StepCall, done: _Done) -> StepRecord:
        return StepRecord(
            run_id=one.run_id,
            step_id=call.calls.step.id,
            position=call.calls.position,
            status="completed" if done.error is None else "failed",
            input=done.input,
            output=done.output,
            error=done.error,
            started_at=one.started_at,
            completed_at=self._clock(),
        )

    def _note(self, records: Collection[StepRecord]) -> None:
        """Keep what steps did. No delay has really passed; the items of a step are gathered."""
        for record in records:
            now = self._now()
            update: dict[str, Any] = {
                "started_at": min(record.started_at, now), "completed_at": min(record.completed_at, now),
            }  # fmt: skip
            if record.gathered:
                items = [done for _, done in sorted(self._items.get(record.step_id, {}).items())]
                update["input"] = [done.input for done in items]
                if record.status == "completed":
                    update["output"] = [_item_output(done) for done in items]
            done = self._records[record.step_id] = record.model_copy(update=update)
            self._bytes_left -= len(orjson.dumps([done.input, done.output]))
            if self._bytes_left < 0:
                raise _TooMuch(
                    "The inputs and outputs of all steps together are larger than those of a dry run may be"
                    f" ({MAX_BYTES // 1024**2} MiB). Try fewer steps, or a smaller input."
                )


def batch_of_one(
    definition: dict[str, Any], *, account_id: UUID, automation_id: UUID, version: int, row: BatchRow
) -> Batch:
    """The batch that a dry run is of."""
    return Batch(
        batch_id=row.run_id,
        account_id=account_id,
        automation_id=automation_id,
        version=version,
        priority=0,
        definition=definition,
        rows=[row],
    )


def _result(call: StepCall, done: _Done, item: int | None = None) -> StepResult:
    attempt = next((one.attempt for one in call.items if one.item == item), call.attempt)
    status = "completed" if done.error is None else "failed"
    return StepResult(
        run_id=call.run_id, item=item, attempt=attempt, status=status, output=done.output, error=done.error
    )


def _item_output(done: _Done) -> JSON:
    """An item's part of the output of its step."""
    if done.error is None:
        return done.output
    return {"error": done.error.model_dump(include={"code", "message"})}


def _sample_answer(step: WebhookStep) -> JSON:
    """An answer that counts as a success."""
    success = step.config.success
    first = success if isinstance(success, str) else success[0]
    status = 200 if step.config.is_success(200) else int(first.replace("xx", "00"))
    return {"status": status, "headers": {}, "body": None}
