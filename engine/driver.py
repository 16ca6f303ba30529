"""The driver of one run: begins ready steps, takes the outcomes of calls, and determines the next wake-up.

It has no clock and executes no calls, so that a worker, a dry run and a test can drive the same code: pass it
the time, execute its calls, return their outcomes, store its records. A run needs no other run's rows.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import UUID

from engine.calls import (
    AttemptResult,
    Call,
    CallKind,
    JSONObject,
    call_kind,
    item_output,
    unevaluated_attempt,
)
from engine.inline import Inline
from engine.plan import Plan
from engine.records import Records, RunEnd, with_attempt
from engine.retries import next_call_at, wait_deadline
from engine.run_room import RunRoom, size_of
from engine.state import RunInput, RunState
from engine.under_way import StepUnderWay, StepWait
from engine.window import Window
from language import delays
from language.delays import write_time
from language.expressions import ExpressionError
from language.items import error_of, item_fails_step
from language.progress import Progress
from language.records import LiveStep, StepRecord
from language.step_evaluation import Seen, decide, delay_of, evaluate, items_of
from language.steps import (
    CallingStep,
    ConditionStep,
    DelayStep,
    IteratingStep,
    Step,
    TransformStep,
    WaitStep,
    WorkflowStep,
)


class Driver:
    """A run. Call `advance`, execute its calls, and `take` their outcomes, until it has `ended`.

    Attributes:
        called_elsewhere: steps that may have calls under way elsewhere; a failed item settles none of these.
    """

    def __init__(self, plan: Plan, run: RunInput, workflow: JSONObject, room: RunRoom | None = None) -> None:
        """Create the driver.

        Args:
            plan: of the definition.
            run: the run's initial or recorded state.
            workflow: the value of `workflow` in expressions.
            room: the room for its values and calls, which the caller releases.
        """
        self.run_id: UUID = run.run_id
        self.ended: RunEnd | None = None
        self.called_elsewhere: frozenset[str] = frozenset()
        self._plan = plan
        self._items_done = run.items
        self._room = room or RunRoom()
        self._state = RunState(plan, run, workflow, self._room)
        self._inline = Inline(self._state)
        self._records = Records(run.run_id, plan.position)
        self.recheck_answers()

    def recheck_answers(self) -> None:
        """Make the next `advance` check again for answers that the run waits for."""
        self._state.recheck_answers()

    def advance(self, now: datetime) -> list[Call]:
        """Do all work that is possible now; return the calls to begin.

        Store the records before you begin them.
        """
        if self.ended is not None:
            return []
        self._inline.refill()
        begun_before = {*self._state.under_way}
        self._wake(now)
        calls = [call for step in self._state.ready() for call in self._begin(step, now)]
        if self._state.error is not None:
            self._state.stop_beginning(calls, begun_before)
            self._room.end_calls(len(calls))
            calls = []
        if self._state.finished:
            self._cancel_steps(now)
            failed = self._state.error is not None
            output_of = None if failed else self._state.last_completed
            self.ended = RunEnd("failed" if failed else "completed", self._state.error, output_of)
        return calls

    def start_attempt(self, call: Call, now: datetime) -> None:
        """Note that its carrier makes a call now, if it is an attempt at a step without items."""
        under_way = self._state.under_way.get(call.step.id)
        if under_way is not None and call.item is None and call.kind in ("send", "look_up"):
            under_way.attempt_began = now

    def take(self, call: Call, outcome: AttemptResult, now: datetime) -> None:
        """Take the outcome of a call. A run that has ended, or will end, ignores it."""
        step, under_way = call.step, self._state.under_way.get(call.step.id)
        self._room.end_calls()
        if self.ended is not None or under_way is None:
            return
        if call.kind == "prepare":
            self._take_prepared(step, under_way, outcome, now)
        elif call.kind == "decide":
            under_way.calling = False
            under_way.decided = outcome.error is None and bool(outcome.output)
            if outcome.error is not None:
                self._settle(step, outcome, now)
            elif not under_way.decided:
                self._state.settle(step.id, "skipped")
        elif under_way.window is not None:
            self._take_item(call, under_way, under_way.window, outcome, now)
        else:
            under_way.calling = False
            under_way.until = next_call_at(call, outcome, now)
            if under_way.until is None:
                self._settle(step, outcome, now)
            elif outcome.error is not None:
                under_way.log_failure(call.attempt, outcome.error, now)

    def cancel(self, now: datetime) -> None:
        """End the run as cancelled, and its steps under way."""
        if self.ended is None:
            self._cancel_steps(now)
            self.ended = RunEnd("cancelled", None, None)

    def take_records(self) -> list[StepRecord]:
        """Return the records of steps since the last call."""
        return self._records.take()

    @property
    def nodes(self) -> int:
        """The nodes of expressions that it has evaluated inline so far."""
        return self._inline.nodes

    @property
    def at_work(self) -> bool:
        """Return whether a call is under way."""
        return self._state.at_work

    @property
    def waits(self) -> frozenset[StepWait]:
        """The steps and items that continue by themselves at a time."""
        return self._state.waits

    @property
    def has_children(self) -> bool:
        """Return whether it may have begun runs of other workflows."""
        return any(isinstance(step, WorkflowStep) for step in self._plan.steps)

    @property
    def wakes_at(self) -> datetime | None:
        """Earliest time at which a wait ends; None if nothing waits."""
        return min((wait.until for wait in self._state.waits), default=None)

    @property
    def settled(self) -> dict[str, str]:
        """The settled steps, each with its status."""
        return self._state.statuses

    def makes_call(self, record: StepRecord) -> bool:
        """Return whether a record is of a step that reaches outside: repeating it needs another call."""
        return isinstance(self._plan.steps[record.position], CallingStep)

    def progress(self) -> Progress:
        """Return the state of the run that is not in its records."""
        return self._state.progress()

    def live_steps(self) -> list[LiveStep]:
        """Return the steps under way."""
        return self._state.live_steps()

    # ---- beginning

    def _wake(self, now: datetime) -> None:
        """End the waits that are over."""
        for step_id in self._state.in_order:
            under_way = self._state.under_way[step_id]
            if under_way.window is not None:
                under_way.window.wake(now)
            elif under_way.until is not None and under_way.until <= now and self._state.error is None:
                step = self._plan.steps[self._plan.position[step_id]]
                if isinstance(step, DelayStep):
                    self._settle(step, AttemptResult(None, {"until": write_time(under_way.until)}), now)
                else:
                    under_way.until = None

    def _begin(self, step: Step, now: datetime) -> list[Call]:
        """Begin a step that is ready, or continue one that has begun."""
        under_way = self._state.under_way.get(step.id)
        is_busy = under_way is not None and (under_way.calling or under_way.until is not None)
        makes_call = not isinstance(step, ConditionStep | TransformStep | DelayStep)
        if is_busy or (makes_call and not self._room.calls):
            return []
        read = Seen()
        try:
            calls = self._begin_or_evaluate(step, read, now)
        except ExpressionError as problem:
            self._settle(step, unevaluated_attempt(problem, read.value), now)
            return []
        self._room.begin_calls(len(calls))
        return calls

    def _begin_or_evaluate(self, step: Step, read: Seen, now: datetime) -> list[Call]:
        """Begin or continue a step; `read` receives the input of a condition or a transform.

        Raises:
            ExpressionError: the step has failed.
        """
        under_way = self._state.under_way.get(step.id)
        if step.condition is not None and not (under_way is not None and under_way.decided):
            if (calls := self._decide(step, now)) is not None:
                return calls
        if isinstance(step, ConditionStep | TransformStep):
            return self._evaluate(step, read, now)
        if isinstance(step, DelayStep):
            return self._begin_delay(step, now)
        if isinstance(step, IteratingStep) and step.for_each is not None:
            return self._begin_items(step, now)
        under_way = self._state.begin(step.id, now)
        under_way.attempts = under_way.attempts + 1 if isinstance(step, CallingStep) else 1
        [call] = self._call(step, call_kind(step), now)
        if isinstance(step, WaitStep):
            call = call._replace(expired=now >= wait_deadline(step, under_way.began))
        return [call]

    def _decide(self, step: Step, now: datetime) -> list[Call] | None:
        """Evaluate the `if` of a step; return None if the step must begin."""
        roots = self._plan.decides[step.id]
        found = self._inline.evaluate(step.id, roots, lambda scope, budget: [decide(step, scope, budget)])
        if found is None:
            self._state.begin(step.id, now).decided = False
            return self._call(step, "decide", now, roots)
        if found[0]:
            return None
        self._state.settle(step.id, "skipped")
        return []

    def _evaluate(self, step: ConditionStep | TransformStep, read: Seen, now: datetime) -> list[Call]:
        roots = (*self._plan.reads[step.id], *self._plan.iterates[step.id])
        found = self._inline.evaluate(
            step.id, roots, lambda scope, budget: [evaluate(step, scope, budget, read)]
        )
        if found is None:
            return self._call(step, "evaluate", now) if self._room.calls else []
        self._settle(step, AttemptResult(read.value, found[0], items=read.items), now)
        return []

    def _begin_delay(self, step: DelayStep, now: datetime) -> list[Call]:
        if step.config.template is None:
            return self._delay_until(step, None, now)
        roots = self._plan.reads[step.id]
        found = self._inline.evaluate(
            step.id, roots, lambda scope, budget: [delay_of(step.config, scope, budget)]
        )
        return self._call(step, "prepare", now) if found is None else self._delay_until(step, found[0], now)

    def _delay_until(self, step: DelayStep, until: Any, now: datetime) -> list[Call]:
        under_way = self._state.begin(step.id, now)
        try:
            under_way.until = delays.end_of(step.config, until, under_way.began)
        except ExpressionError as problem:
            self._settle(step, unevaluated_attempt(problem), now)
            return []
        if under_way.until <= now:
            self._settle(step, AttemptResult(None, {"until": write_time(under_way.until)}), now)
        return []

    def _begin_items(self, step: CallingStep | WorkflowStep, now: datetime) -> list[Call]:
        under_way = self._state.begin(step.id, now)
        if (window := under_way.window) is None:
            if (items := self._find_items(step)) is None:
                return self._call(step, "prepare", now)
            window = self._open_window(step, under_way, items)
        self._close_window(step, window, now)
        kind, calls = call_kind(step), list[Call]()
        while True:
            begun = window.begin_items(self._room.calls - len(calls))
            calls += [self._state.build_call(step, kind, item) for item in begun]
            if not window.needs_page:
                return calls
            if (items := self._find_items(step)) is None:
                return [*calls, *self._call(step, "prepare", now)]
            window.load(items)

    def _open_window(
        self, step: CallingStep | WorkflowStep, under_way: StepUnderWay, items: list[Any]
    ) -> Window:
        done = self._items_done.get(step.id, {})
        under_way.window = window = Window(items, step.max_concurrency, done, under_way.items, self._room)
        for item, error in done.items():
            if error is not None and item_fails_step(step, error):
                window.fail_item(item, error)
        return window

    def _know_items(self, step: Step, under_way: StepUnderWay) -> None:
        """Find the items of a step that ends as it was loaded, without having continued here."""
        if not isinstance(step, CallingStep | WorkflowStep) or under_way.window is not None:
            return
        with suppress(ExpressionError):
            if step.for_each is not None and (items := self._find_items(step)) is not None:
                self._open_window(step, under_way, items)

    def _find_items(self, step: CallingStep | WorkflowStep) -> list[Any] | None:
        """Evaluate the `for_each` of a step; return None if a call must prepare them."""
        roots = self._plan.iterates[step.id]
        return self._inline.evaluate(step.id, roots, lambda scope, budget: items_of(step, scope, budget))

    def _close_window(self, step: Step, window: Window, now: datetime) -> None:
        """Settle the step if its items are done."""
        if window.finished and (window.error is None or step.id not in self.called_elsewhere):
            output = None if window.error is not None else window.output
            outcome = AttemptResult(window.shown, output, window.error, items=window.tally)
            self._settle(step, outcome, now, window)

    def _call(
        self, step: Step, kind: CallKind, now: datetime, roots: tuple[str, ...] | None = None
    ) -> list[Call]:
        """Call for what the step needs to continue, or for its result; `roots` are the values to read."""
        self._state.begin(step.id, now).calling = True
        return [self._state.build_call(step, kind, roots=roots)]

    # ---- taking

    def _take_prepared(
        self, step: Step, under_way: StepUnderWay, outcome: AttemptResult, now: datetime
    ) -> None:
        under_way.calling = False
        window = under_way.window
        if window is not None and outcome.error is not None:
            window.fail(outcome.error)
            self._close_window(step, window, now)
        elif window is not None:
            window.load(outcome.output)
        elif outcome.error is not None:
            self._settle(step, outcome, now)
        elif isinstance(step, DelayStep):
            self._delay_until(step, outcome.output, now)
        elif isinstance(step, CallingStep | WorkflowStep):
            self._open_window(step, under_way, outcome.output)

    def _take_item(
        self, call: Call, under_way: StepUnderWay, window: Window, outcome: AttemptResult, now: datetime
    ) -> None:
        """Take the outcome of an item.

        The last item settles the step; so does a failed one, unless it may fail.
        """
        assert call.item is not None
        again = next_call_at(call, outcome, now)
        if again is not None:
            window.pause(call.item, again)
        else:
            outcome = with_attempt(call.step, outcome, call.attempt)
            self._records.add_item(call, outcome, now, under_way)
            if outcome.error is not None and item_fails_step(call.step, outcome.error):
                window.fail_item(call.item, outcome.error)
            else:
                output = item_output(outcome.output, outcome.error)
                window.settle(call.item, output, size_of(output), outcome.error)
        self._close_window(call.step, window, now)

    def _settle(
        self, step: Step, outcome: AttemptResult, now: datetime, window: Window | None = None
    ) -> None:
        """End a step and record it; `window` contains its items, if it has any."""
        under_way = self._state.under_way.get(step.id) or StepUnderWay(now)
        if outcome.error is None and outcome.items is not None:
            error = error_of(step, outcome.items)
            outcome = outcome if error is None else outcome._replace(output=None, error=error)
        if window is not None:
            window.release()
            size, stored = window.size, window.stored
        else:
            outcome = with_attempt(step, outcome, under_way.attempts)
            size, stored = size_of(outcome.output) if self._plan.keeps(step.id) else 0, False
        self._records.add(step, outcome, now, under_way, gathered=window is not None)
        status = "completed" if outcome.error is None else "failed"
        self._state.settle(step.id, status, outcome.output, outcome.error, size, stored=stored)

    def _cancel_steps(self, now: datetime) -> None:
        for step_id in self._state.in_order:
            step = self._plan.steps[self._plan.position[step_id]]
            self._know_items(step, self._state.under_way[step_id])
            self._records.add_cancelled(step, now, self._state.under_way[step_id])
            self._state.settle(step_id, "cancelled")
