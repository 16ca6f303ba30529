"""Which step of which row may run: the rules of needs, branches and stops, and nothing else.

Pure and free of Temporal, so that every rule can be tested by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from workflows.checks import roots_read
from workflows.definition import (
    SCOPE_ROOTS,
    ConditionStep,
    Definition,
    Step,
    branches_of,
    needs_of,
)
from workflows.messages import BatchRow, StepError, StepRecord
from workflows.references import WHOLE_SCOPE

JSONObject = dict[str, Any]


class Plan:
    """A definition, prepared: what each step waits for, which branch it hangs on, what it reads."""

    def __init__(self, definition: Definition) -> None:
        self.steps: list[Step] = list(definition.steps)
        self.position = {step.id: index for index, step in enumerate(self.steps)}
        self.needs = needs_of(definition)
        self.branch_of = {
            member: (branch.step_id, branch.outcome)
            for branch in branches_of(definition)
            for member in branch.members
        }
        everything = (*SCOPE_ROOTS, *self.position)
        self.reads = {
            step.id: everything if WHOLE_SCOPE in roots_read(step) else roots_read(step)
            for step in self.steps
        }
        self.outputs_read = {root for roots in self.reads.values() for root in roots}

    def keeps(self, step_id: str) -> bool:
        """Whether a later step reads this step's output."""
        return step_id in self.outputs_read or "steps" in self.outputs_read


class RowState:
    """How far one run is: each step's status, and the outputs that later steps read."""

    def __init__(self, plan: Plan, row: BatchRow, workflow: JSONObject) -> None:
        self.run_id: UUID = row.run_id
        self.error: StepError | None = None
        self.ended = False
        self.at_work: set[str] = set()
        self.pauses = dict(row.pauses)
        self.attempts: dict[str, int] = {}
        self.taken: dict[str, int] = {}
        self.began: dict[str, Any] = {}
        self.records: list[StepRecord] = []
        self.scope: JSONObject = {
            "trigger": row.trigger,
            "request": row.request,
            "run": {"id": str(row.run_id), "started_at": row.started_at.isoformat()},
            "workflow": workflow,
            "steps": {},
        }
        self._plan = plan
        self._settled: dict[str, str] = {}
        self._outcomes: dict[str, str] = {}
        self._stopped: set[str] = set()
        for record in row.done:
            self.settle(record.step_id, record.status, record.output, record.error)

    def ready(self) -> Iterator[Step]:
        """The steps that may run now, in list order; settles on the way those that never will."""
        for step in self._plan.steps:
            if self.error is not None:
                return
            if step.id in self._settled or step.id in self.at_work:
                continue
            if any(need not in self._settled for need in self._plan.needs[step.id]):
                continue
            if self._skipped(step.id):
                self.settle(step.id, "skipped")
            else:
                yield step

    def settle(self, step_id: str, status: str, output: Any = None, error: StepError | None = None) -> None:
        """Note how a step ended. A failed step fails the run, unless its `on_error` says otherwise."""
        self.at_work.discard(step_id)
        self.pauses.pop(step_id, None)
        self._settled[step_id] = status
        if self._plan.keeps(step_id):
            self.scope[step_id] = output
            self.scope["steps"][step_id] = {
                "status": status, "output": output,
                "error": error and error.model_dump(include={"code", "message"}),
            }  # fmt: skip
        step = self._plan.steps[self._plan.position[step_id]]
        if status == "failed":
            self._outcomes[step_id] = "on_error"
            if step.on_error == "fail" and error is not None:
                self.error = error.model_copy(update={"step": step_id})
        elif isinstance(step, ConditionStep) and status == "completed":
            self._outcomes[step_id] = "then" if output["result"] else "else"
            if not output["result"] and step.config.then is None and step.config.otherwise is None:
                self._stopped.add(step_id)

    def _skipped(self, step_id: str) -> bool:
        """Whether the step is on a branch not taken, or depends on a condition that ended the run."""
        if any(need in self._stopped for need in self._plan.needs[step_id]):
            self._stopped.add(step_id)
            return True
        if step_id not in self._plan.branch_of:
            return False
        source, wanted = self._plan.branch_of[step_id]
        return self._outcomes.get(source) != wanted

    @property
    def only_pauses(self) -> bool:
        """Whether nothing is under way but delays."""
        return bool(self.at_work) and all(step_id in self.pauses for step_id in self.at_work)

    @property
    def finished(self) -> bool:
        """Whether nothing of the run is left to do."""
        return not self.at_work and (self.error is not None or len(self._settled) == len(self._plan.steps))
