"""The state of one run: the results of its steps, the outputs for later steps, and the steps under way."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from engine.calls import Call, CallKind, JSONObject
from engine.plan import Plan
from engine.run_room import RunRoom
from engine.under_way import StepUnderWay, StepWait
from engine.window import BegunItem
from language.delays import write_time
from language.items import failure_fails_run
from language.progress import Progress, StepProgress
from language.records import DoneStep, LiveStep, StepError
from language.steps import CallingStep, ConditionStep, Step, WaitStep, WorkflowStep


@dataclass(frozen=True)
class RunInput:
    """The initial or recorded state of a run.

    Attributes:
        size: of trigger and request together, in bytes of JSON.
        stored: whether trigger and request are only in their row.
        done: the finished steps.
        items: the finished items of each unfinished iterating step, each with its error if it failed.
        progress: of the steps that have begun.
        queued_at: when it was accepted; if unknown, when it began.
    """

    run_id: UUID
    started_at: datetime
    trigger: Any = None
    request: Any = None
    size: int = 0
    stored: bool = False
    done: Collection[DoneStep] = ()
    items: Mapping[str, Mapping[int, StepError | None]] = field(
        default_factory=dict[str, Mapping[int, StepError | None]]
    )
    progress: Progress = field(default_factory=Progress)
    queued_at: datetime | None = None


class RunState:
    """The rules of needs, branches and stops, applied to one run.

    Attributes:
        error: of the step that has failed the run.
        statuses: of the settled steps.
        under_way: the steps that have begun and are not done.
        scope: the values for expressions: the roots, and outputs that are not only stored.
    """

    def __init__(self, plan: Plan, run: RunInput, workflow: JSONObject, room: RunRoom) -> None:
        self.error: StepError | None = None
        self.under_way = {
            step_id: StepUnderWay(
                step.began,
                step.attempts,
                until=step.until,
                items=step.items,
                decided=step.decided,
                attempt_log=step.attempt_log,
                attempt_began=step.attempt_began,
            )
            for step_id, step in run.progress.steps.items()
            if step_id in plan.position
        }
        self.last_completed: str | None = None
        self.scope: JSONObject = {
            "run": {
                "id": str(run.run_id),
                "queued_at": write_time(run.queued_at or run.started_at),
                "started_at": write_time(run.started_at),
            },
            "workflow": workflow,
            "steps": {},
        }
        self._room = room
        self._stored = set[str]()
        if run.stored or not room.keep(run.size):
            self._stored |= {"trigger", "request"}
        else:
            self.scope |= {"trigger": run.trigger, "request": run.request}
        self._plan = plan
        self.statuses: dict[str, str] = {}
        # The number of steps that each step still waits for, and the positions of those that wait for none.
        self._awaited = {step_id: len(needs) for step_id, needs in plan.needs.items()}
        self._open = [plan.position[step_id] for step_id, awaited in self._awaited.items() if not awaited]
        self._outcomes: dict[str, str] = {}
        self._stopped: set[str] = set()
        for step in run.done:
            self.settle(step.step_id, step.status, step.output, step.error, step.size, stored=step.stored)

    def ready(self) -> Iterator[Step]:
        """Yield the steps that may begin now, in list order; settle those that never will."""
        position = -1
        # Settling a step may open later ones, which are visited too.
        while self.error is None and (at := bisect_right(self._open, position)) < len(self._open):
            position = self._open[at]
            step = self._plan.steps[position]
            if self._is_skipped(step.id):
                self.settle(step.id, "skipped")
            else:
                yield step

    def _is_skipped(self, step_id: str) -> bool:
        """Return whether the step is on a branch not taken, or depends on a condition that ended the run."""
        if any(need in self._stopped for need in self._plan.needs[step_id]):
            self._stopped.add(step_id)
            return True
        if step_id not in self._plan.branch_of:
            return False
        source, wanted = self._plan.branch_of[step_id]
        return self._outcomes.get(source) != wanted

    def settle(
        self,
        step_id: str,
        status: str,
        output: Any = None,
        error: StepError | None = None,
        size: int = 0,
        *,
        stored: bool = False,
    ) -> None:
        """Settle a step. A failed step fails the run, unless its `on_error` prevents that.

        Args:
            step_id: the step.
            status: completed, failed, skipped or cancelled.
            output: of a completed step; for a condition always, even with `stored`.
            error: of a failed one.
            size: of the output, in bytes of JSON.
            stored: whether the output must be read from its row, even if there is room for it.
        """
        self.under_way.pop(step_id, None)
        self._close(step_id)
        self.statuses[step_id] = status
        step = self._plan.steps[self._plan.position[step_id]]
        if self._plan.keeps(step_id):
            self._keep(step_id, status, output, error, size, stored=stored)
        if status == "completed":
            self._complete(step, output)
        elif status == "failed":
            self._outcomes[step_id] = "on_error"
            if failure_fails_run(step) and error is not None and self.error is None:
                self.error = error.model_copy(update={"step": step_id})

    def _close(self, step_id: str) -> None:
        """Remove a step from the open ones, and add those that waited for it alone."""
        position = self._plan.position
        if position[step_id] in self._open:
            self._open.remove(position[step_id])
        if step_id in self.statuses:
            return
        for later in self._plan.needed_by[step_id]:
            self._awaited[later] -= 1
            # Of a continued run, a step can be done before one that it waits for is found to be skipped.
            if not self._awaited[later] and later not in self.statuses:
                insort(self._open, position[later])

    def _complete(self, step: Step, output: Any) -> None:
        last = self.last_completed
        if last is None or self._plan.position[last] < self._plan.position[step.id]:
            self.last_completed = step.id
        if isinstance(step, ConditionStep):
            self._outcomes[step.id] = "then" if output["result"] else "else"
            if not output["result"] and step.config.then is None and step.config.otherwise is None:
                self._stopped.add(step.id)

    def _keep(
        self, step_id: str, status: str, output: Any, error: StepError | None, size: int, *, stored: bool
    ) -> None:
        stored = status == "completed" and (stored or not self._room.keep(size))
        kept: JSONObject = {
            "status": status,
            "output": None if stored else output,
            "error": error and error.model_dump(include={"code", "message"}),
        }
        # Copied, because outputs may contain the scope, or `steps`: a change in place would put an output
        # into itself.
        self.scope = {**self.scope, "steps": {**self.scope["steps"], step_id: kept}}
        if stored:
            self._stored.add(step_id)
        else:
            self.scope[step_id] = output

    def begin(self, step_id: str, now: datetime) -> StepUnderWay:
        """Return the state of a step under way, which begins now if it has not begun."""
        return self.under_way.setdefault(step_id, StepUnderWay(now))

    def stop_beginning(self, calls: list[Call], begun_before: set[str]) -> None:
        """Undo the begin of these calls, and begin no further items, because a step has failed the run.

        A step that had not begun before is removed; any other is cancelled in the end.
        """
        for call in calls:
            under_way = self.under_way[call.step.id]
            if under_way.window is not None and call.item is not None:
                under_way.window.take_back(call.item)
            elif under_way.window is not None:
                under_way.calling = False
            else:
                under_way.calling, under_way.attempts = False, max(0, under_way.attempts - 1)
                if call.step.id not in begun_before:
                    del self.under_way[call.step.id]
        for under_way in self.under_way.values():
            if under_way.window is not None:
                under_way.window.stop()

    def recheck_answers(self) -> None:
        """End the waits for answers from outside, so that the steps check for them again."""
        for step_id, under_way in self.under_way.items():
            step = self._plan.steps[self._plan.position[step_id]]
            if isinstance(step, WorkflowStep) and under_way.window is not None:
                under_way.window.recheck_answers()
            elif isinstance(step, WorkflowStep):
                waits = under_way.items.items()
                under_way.items = {
                    item: wait.model_copy(update={"until": under_way.began}) for item, wait in waits
                }
            if isinstance(step, WorkflowStep | WaitStep):
                under_way.until = None

    def read_roots(self, step_id: str, roots: Iterable[str]) -> tuple[JSONObject, tuple[str, ...]]:
        """Return the values of these roots for a step, and those roots whose values are stored.

        Of other steps it sees those that it waits for.
        """
        awaited, steps = self._plan.awaits[step_id], self.scope["steps"]
        wanted = [root for root in roots if root not in self._plan.position or root in awaited]
        names = [*wanted, *(step for step in steps if step in awaited)] if "steps" in wanted else wanted
        stored = tuple(name for name in dict.fromkeys(names) if name in self._stored)
        # A step that reads the whole scope also names steps that were skipped.
        scope = {root: self.scope[root] for root in wanted if root in self.scope and root not in stored}
        if "steps" in scope:
            scope["steps"] = {step: kept for step, kept in steps.items() if step in awaited}
        return scope, stored

    def build_call(
        self, step: Step, kind: CallKind, item: BegunItem | None = None, roots: tuple[str, ...] | None = None
    ) -> Call:
        """Return a call of a step under way.

        Args:
            step: the step.
            kind: of the call.
            item: its item, in a step with `for_each`.
            roots: the values that it reads; by default those of the step.
        """
        plan, under_way = self._plan, self.under_way[step.id]
        if roots is None:
            iterated = plan.iterates[step.id] if item is None or item.lacks_value else ()
            roots = tuple(dict.fromkeys((*plan.reads[step.id], *iterated)))
        sends = step.id in plan.sends_run_data
        output_of = self.find_last_completed(plan.awaits[step.id]) if sends else None
        if output_of is not None and kind == "send":
            roots = tuple(dict.fromkeys((*roots, output_of)))
        scope, stored = self.read_roots(step.id, roots)
        timeout = step.timeout if isinstance(step, CallingStep) else None
        return Call(
            kind=kind,
            step=step,
            attempt=max(1, under_way.attempts) if item is None else item.attempt,
            scope=scope if item is None else {**scope, "item": item.value},
            stored=stored,
            started_at=under_way.began,
            item=item and item.item,
            deadline=None if timeout is None else under_way.began + timedelta(seconds=timeout),
            output_of=output_of,
            items_total=0 if item is None or under_way.window is None else under_way.window.tally.total,
            lacks_item=item is not None and item.lacks_value,
        )

    def find_last_completed(self, step_ids: Collection[str]) -> str | None:
        """Return the last, in list order, of these steps that completed; their outputs must be kept."""
        steps = self.scope["steps"]
        completed = [one for one in step_ids if one in steps and steps[one]["status"] == "completed"]
        return max(completed, key=self._plan.position.__getitem__, default=None)

    @property
    def in_order(self) -> list[str]:
        """The steps under way, in list order."""
        return sorted(self.under_way, key=self._plan.position.__getitem__)

    @property
    def at_work(self) -> bool:
        """Return whether a call is under way."""
        return any(step.at_work for step in self.under_way.values())

    @property
    def finished(self) -> bool:
        """Return whether the run has no work left, except to end waiting steps if it has failed."""
        if self.at_work:
            return False
        return self.error is not None or len(self.statuses) == len(self._plan.steps)

    @property
    def waits(self) -> frozenset[StepWait]:
        """The steps and items that continue by themselves at a time."""
        return frozenset(wait for step_id, step in self.under_way.items() for wait in step.waits(step_id))

    def progress(self) -> Progress:
        """Return the state of the run that is not in its records."""
        return Progress(
            steps={
                step_id: StepProgress(
                    began=step.began,
                    # An attempt under way does not count: it is repeated, under the same id, if its end is
                    # lost.
                    attempts=max(0, step.attempts - step.calling),
                    until=step.until,
                    items=step.window.waits() if step.window is not None else dict(step.items),
                    at_work=step.at_work,
                    decided=step.decided,
                    attempt_log=step.attempt_log,
                    attempt_began=step.attempt_began,
                )
                for step_id, step in self.under_way.items()
            }
        )

    def live_steps(self) -> list[LiveStep]:
        """Return the steps under way for watchers of the run; a step without a call under way is waiting."""
        return [
            LiveStep(
                step_id=step_id,
                status="running" if step.at_work else "waiting",
                attempts=max(1, step.attempts),
                started_at=step.began,
                until=None if step.at_work else min((w.until for w in step.waits(step_id)), default=None),
                attempt_log=step.attempt_log,
                attempt_began=step.attempt_began,
            )
            for step_id, step in ((step_id, self.under_way[step_id]) for step_id in self.in_order)
        ]
