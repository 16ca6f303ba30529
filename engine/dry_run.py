"""The dry run: the driver over one run, in which delays pass at once and nothing is sent.

Requests are rendered but not sent; the caller answers lookups, and a mock can replace any step. Everything
else is the driver itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple, cast

import orjson

from engine.calls import AttemptResult, Call, JSONObject, failed_attempt, item_output, unevaluated_attempt
from engine.driver import Driver
from engine.plan import Plan
from engine.records import RunEnd
from engine.run_room import ProcessRoom, RunRoom
from engine.state import RunInput
from language import step_evaluation
from language.definition import Definition
from language.delays import write_time
from language.expressions import JSON, Budget, ExpressionError
from language.records import INLINE_BYTES, StepError, StepRecord
from language.steps import (
    ConditionStep,
    DelayStep,
    EmitStep,
    IteratingStep,
    LookupStep,
    RememberStep,
    Step,
    TransformStep,
    WaitStep,
    WebhookStep,
    WorkflowStep,
)
from language.webhook_requests import Request, RequestTemplates

MASK = "***"
"""The replacement for every secret."""
MAX_CALLS = 1000
"""The highest number of lookups, requests and other calls in a dry run; a step that needs more fails."""
MAX_NODES = 5_000_000
"""The nodes that the expressions of all steps may visit together: about a second of work."""
MAX_BYTES = 4 * 1024 * 1024
"""The highest size of the inputs and outputs of all steps together, as JSON."""

LookUp = Callable[[LookupStep, str], "JSON | StepError"]
"""Answers the lookup of a text by a lookup step, or returns why it fails."""
RefuseRequest = Callable[[Request], "StepError | None"]
"""Returns why a rendered request would not be sent."""
RefuseChild = Callable[[WorkflowStep, JSON], "StepError | None"]
"""Returns why the workflow of a step would not run with an input."""

_Attempted = LookupStep | WebhookStep | WaitStep | WorkflowStep | RememberStep | EmitStep


@dataclass(frozen=True, slots=True)
class OutsideAnswers:
    """The answers that a dry run gets instead of reaching outside.

    Attributes:
        look_up: answers lookups.
        secrets: the names of the account's secrets.
        mocks: outputs by step, which replace the outputs of those steps: for a condition
            `{"result": bool}`, for a step with `for_each` the whole array, for a delay none.
        refuse_request: refuses requests.
        refuse_child: refuses runs of other workflows.
    """

    look_up: LookUp
    secrets: Collection[str]
    mocks: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    refuse_request: RefuseRequest = lambda request: None
    refuse_child: RefuseChild = lambda step, given: None


class DryRunResult(NamedTuple):
    """The end of a dry run, and the records of its steps; steps without a record were skipped."""

    ended: RunEnd
    records: list[StepRecord]


class _TooMuch(Exception):
    """The dry run has exceeded a bound for all its steps together. The message names it."""


class DryRun:
    """A dry run of one definition."""

    def __init__(
        self,
        definition: Definition,
        run: RunInput,
        workflow: JSONObject,
        answers: OutsideAnswers,
        now: Callable[[], datetime],
    ) -> None:
        """Create the dry run.

        Args:
            definition: of the workflow.
            run: its initial state: trigger and request, of any size.
            workflow: the value of `workflow` in expressions.
            answers: what it gets instead of reaching outside.
            now: returns the time.
        """
        self._answers = answers
        self._mocks = answers.mocks
        self._plan = Plan(_with_stand_ins(definition, self._mocks))
        # A real run begins without large inputs: they are stored, and only calls read them.
        room = RunRoom(ProcessRoom(values=sys.maxsize, largest=sys.maxsize))
        self._driver = Driver(self._plan, replace(run, stored=run.size > INLINE_BYTES), workflow, room)
        self._given: JSONObject = {"trigger": run.trigger, "request": run.request}
        self._now = now
        self._secrets: JSONObject = {"secrets": dict.fromkeys(answers.secrets, MASK)}
        self._skipped = timedelta()
        self._calls_left = MAX_CALLS
        self._nodes_left = MAX_NODES
        self._bytes_left = MAX_BYTES
        self._step: str | None = None
        self._records: dict[str, StepRecord] = {}
        self._items: dict[str, dict[int, StepRecord]] = {}

    def run(self) -> DryRunResult:
        """Execute the run to its end, or until it exceeds a bound."""
        try:
            ended = self._run()
        except _TooMuch as reason:
            error = StepError(code="dry_run_too_large", message=str(reason), step=self._step)
            ended = RunEnd("failed", error, None)
        return DryRunResult(ended, list(self._records.values()))

    def _run(self) -> RunEnd:
        while True:
            calls = self._advance()
            if self._driver.ended is not None:
                return self._driver.ended
            for call in calls:
                self._driver.take(call, self._outcome(call), self._clock())
                self._keep(self._driver.take_records())
            if not calls:
                self._pass_time()

    def _advance(self) -> list[Call]:
        before = self._driver.nodes
        calls = self._driver.advance(self._clock())
        self._keep(self._driver.take_records())
        self._spend(self._driver.nodes - before)
        return calls

    def _clock(self) -> datetime:
        """Return the time, with the delays that have passed."""
        return self._now() + self._skipped

    def _pass_time(self) -> None:
        wakes_at = self._driver.wakes_at
        assert wakes_at is not None, "a run that has not ended makes a call, or waits"
        self._skipped += max(timedelta(), wakes_at - self._clock())

    # ---- what it may use

    def _spend(self, nodes: int) -> None:
        self._nodes_left -= nodes
        if self._nodes_left < 0:
            raise _TooMuch(
                f"The expressions of all steps together do more than a dry run may ({MAX_NODES:,} nodes)."
                " Try fewer steps, or a smaller input."
            )

    @contextmanager
    def _lend_budget(self, budget: Budget) -> Generator[Budget]:
        """Yield a budget within both `budget` and that of the dry run, and charge its use to the latter."""
        least = Budget(min(budget.nodes_left, self._nodes_left + 1), budget.output_left)
        before = least.nodes_left
        try:
            yield least
        finally:
            self._spend(before - least.nodes_left)

    # ---- what its calls come to

    def _outcome(self, call: Call) -> AttemptResult:
        """Return the outcome of a call without reaching outside."""
        step = call.step
        self._step = step.id
        scope = call.complete_scope({name: self._get_output(name) for name in call.stored})
        seen = step_evaluation.Seen()
        try:
            if call.kind in ("decide", "prepare"):
                return self._prepare_step(call, scope)
            if isinstance(step, ConditionStep | TransformStep):
                with self._lend_budget(step_evaluation.budget_of(step)) as budget:
                    output = step_evaluation.evaluate(step, scope, budget, seen)
                return AttemptResult(seen.value, output, items=seen.items)
            assert not isinstance(step, DelayStep), "what a delay needs is prepared"
            return self._attempt(step, scope, call.output_of)
        except ExpressionError as problem:
            return unevaluated_attempt(problem, seen.value)

    def _get_output(self, name: str) -> JSON:
        return self._given[name] if name in self._given else self._records[name].output

    def _prepare_step(self, call: Call, scope: Mapping[str, JSON]) -> AttemptResult:
        """Return the data that a step needs to begin."""
        step = call.step
        with self._lend_budget(Budget()) as budget:
            if call.kind == "decide":
                return AttemptResult(None, step_evaluation.decide(step, scope, budget))
            if isinstance(step, DelayStep):
                return AttemptResult(None, step_evaluation.delay_of(step.config, scope, budget))
            assert isinstance(step, IteratingStep)
            return AttemptResult(None, step_evaluation.items_of(step, scope, budget))

    def _attempt(self, step: _Attempted, scope: Mapping[str, JSON], output_of: str | None) -> AttemptResult:
        """Return the outcome of an attempt: a mock, a local answer, or a sample that is marked as one."""
        if isinstance(step, _StandIn):
            return AttemptResult(None, self._mocks[step.id])
        if self._calls_left == 0:
            message = f"A dry run has at most {MAX_CALLS} lookups, requests and other calls of steps."
            return failed_attempt("too_many_calls", message)
        self._calls_left -= 1
        sent, answer = self._ask_question(step, scope, output_of)
        output = self._mocks[step.id] if step.id in self._mocks else answer()
        return (
            AttemptResult(sent, error=output)
            if isinstance(output, StepError)
            else AttemptResult(sent, output)
        )

    def _ask_question(
        self, step: _Attempted, scope: Mapping[str, JSON], output_of: str | None
    ) -> tuple[JSON, Callable[[], JSON | StepError]]:
        """Return the question, as shown in the step's input, and a function that answers it."""
        if isinstance(step, WebhookStep):
            request = self._render_request(step, scope, output_of)
            return request._asdict(), lambda: self._answers.refuse_request(request) or _sample_answer(step)
        now = write_time(self._clock())
        with self._lend_budget(Budget()) as budget:
            if isinstance(step, WaitStep):
                asked = step.config.model_dump(include={"timeout", "on_timeout"})
                asked |= step_evaluation.prompt_of(step.config, scope, budget)
                return asked, lambda: {"resumed": True, "body": None, "at": now, "sample": True}
            if isinstance(step, LookupStep):
                text = step_evaluation.target_of(step.config, scope, budget)
                return text, lambda: self._answers.look_up(step, text)
            if isinstance(step, RememberStep):
                if step.config.keys is not None:
                    keys: list[JSON] = [*step_evaluation.keys_of(step.config, scope, budget)]
                    return {"keys": keys}, lambda: {"new": keys, "known": [], "sample": True}
                key = step_evaluation.key_of(step.config, scope, budget)
                return {"key": key}, lambda: {"seen": False, "first_at": now, "count": 1, "sample": True}
            if isinstance(step, EmitStep):
                data = step_evaluation.alert_data_of(step.config, scope, budget)
                sent = {"event": step.config.event, "data": data}
                return sent, lambda: {"event_id": None, "webhooks": 0, "sample": True}
            given = step_evaluation.child_input_of(step.config, scope, budget)
        asked = {"workflow_id": str(step.config.workflow_id), "input": given}
        return asked, lambda: self._answers.refuse_child(step, given) or {"sample": True}

    def _render_request(self, step: WebhookStep, scope: Mapping[str, JSON], output_of: str | None) -> Request:
        """Return the request, with a mask for every secret and for every resume URL."""
        hidden: JSONObject = dict(self._secrets)
        if step.id in self._plan.resume_urls:
            urls = {one.id: MASK for one in self._plan.steps if isinstance(one, WaitStep)}
            hidden["run"] = {**cast(JSONObject, scope["run"]), "resume_urls": urls}
        with ExitStack() as charges:
            return RequestTemplates(step.config).render(
                {**scope, **hidden}, lambda: charges.enter_context(self._lend_budget(Budget())), output_of
            )

    # ---- what it shows

    def _keep(self, records: Collection[StepRecord]) -> None:
        """Keep the records of steps and their items."""
        for record in records:
            self._step = record.step_id
            if record.item is not None:
                self._items.setdefault(record.step_id, {})[record.item] = record
            else:
                self._records[record.step_id] = self._show_record(record)
            self._bytes_left -= len(orjson.dumps([record.input, record.output]))
            if self._bytes_left < 0:
                raise _TooMuch(
                    "The inputs and outputs of all steps together are larger than those of a dry run may be"
                    f" ({MAX_BYTES // 1024**2} MiB). Try fewer steps, or a smaller input."
                )

    def _show_record(self, record: StepRecord) -> StepRecord:
        """Return the record with its items gathered, and without delays, because none has really passed."""
        now = self._now()
        update: dict[str, Any] = {
            "started_at": min(record.started_at, now), "completed_at": min(record.completed_at, now),
        }  # fmt: skip
        if record.gathered:
            items = [item for _, item in sorted(self._items.pop(record.step_id, {}).items())]
            if record.status == "completed":
                update["output"] = [item_output(item.output, item.error) for item in items]
        return record._replace(**update)


class _StandIn(RememberStep):
    """A stand-in for a step whose mock leaves no work."""


def _with_stand_ins(definition: Definition, mocks: Mapping[str, JSON]) -> Definition:
    """Return the definition with a stand-in for each step whose output is entirely its mock."""
    steps = [_stand_in(step, mocks[step.id]) if step.id in mocks else step for step in definition.steps]
    return definition.model_copy(update={"steps": steps})


def _stand_in(step: Step, mock: JSON) -> Step:
    if isinstance(step, ConditionStep):
        assert isinstance(mock, dict)
        decided = {"expression": "true" if mock["result"] else "false"}
        return step.model_copy(update={"config": step.config.model_copy(update=decided)})
    if not isinstance(step, TransformStep) and not (isinstance(step, IteratingStep) and step.for_each):
        return step
    kept = step.model_dump(include={"id", "needs", "condition", "on_error"}, exclude_none=True)
    return _StandIn.model_validate({**kept, "type": "remember", "config": {"key": "mock", "ttl": 1}})


def _sample_answer(step: WebhookStep) -> JSON:
    """Return an answer that counts as a success."""
    success = step.config.success
    first = success if isinstance(success, str) else success[0]
    status = 200 if step.config.is_success(200) else int(first.replace("xx", "00"))
    return {"status": status, "headers": {}, "body": None, "sample": True}
