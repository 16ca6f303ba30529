"""Which step of which row may run: the rules of needs, branches and stops, and what a step reads.

Pure and free of Temporal, so that every rule can be tested by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from math import inf
from typing import Any, NamedTuple
from uuid import UUID

from engine.plan import Plan
from language.definition import ConditionStep, Step
from language.delays import written
from language.records import INLINE_BYTES, LiveStep, StepError, StepRecord
from workflows.iteration import Iteration
from workflows.messages import BatchRow, ItemProgress, Progress

JSONObject = dict[str, Any]

# What a message says of a step or a call beside the data: ids, times, the names of the fields.
_ENVELOPE_BYTES = 400
# What it says of a step or an item that waits: its name, attempts and times.
_WAIT_BYTES = 250


class Reading(NamedTuple):
    """What a step reads of one row.

    Attributes:
        scope: the names and their values.
        stored: the names whose values are in the database only.
        size: of the values, in bytes of JSON.
    """

    scope: JSONObject
    stored: list[str]
    size: int


class Wait(NamedTuple):
    """A step, or an item of it, that goes on by itself at a moment."""

    step_id: str
    item: int | None
    until: datetime


class RowState:
    """How far one run is: each step's status, and the outputs that later steps read.

    Attributes:
        at_work: the steps under way, whether they run or wait.
        pauses: the delays that are under way.
        backoffs: when a step that has failed is tried again.
        timed: the waits, by step and item, that a timer of the batch will end.
        prepared: what an activity found out that a step needs to begin, since it reads what is stored.
        iterations: how far the steps with `for_each` are.
        record_bytes: how much the workflow did by itself that is to be stored yet.
        kept_bytes: how much output is kept for later steps.
    """

    def __init__(
        self, plan: Plan, row: BatchRow, workflow: JSONObject, progress: Progress | None = None
    ) -> None:
        progress = progress or row.progress
        self.run_id: UUID = row.run_id
        self.error: StepError | None = None
        self.ended = False
        self.at_work: set[str] = set()
        self.pauses = dict(progress.pauses)
        self.attempts = dict(progress.attempts)
        # What was begun before has ended, also if a lost activity tells of it later.
        self.taken: dict[str, int] = dict(progress.attempts)
        self.began: dict[str, datetime] = dict(progress.began)
        self.backoffs: dict[str, datetime] = dict(progress.backoffs)
        self.timed: set[tuple[str, int | None]] = set()
        self.prepared: JSONObject = {}
        self.iterations: dict[str, Iteration] = {}
        self.items_done = row.items
        self.items_tried = progress.items
        self.record_bytes = self.kept_bytes = 0
        self._records: dict[str, tuple[StepRecord, int]] = {}
        self._sent: dict[str, tuple[StepRecord, int]] = {}
        self.scope: JSONObject = {
            "run": {"id": str(row.run_id), "started_at": written(row.started_at)},
            "workflow": workflow,
            "steps": {},
        }
        self._sizes: dict[str, int] = {"trigger": row.size}
        self._stored: dict[str, None] = dict.fromkeys(("trigger", "request")) if row.stored else {}
        if not row.stored:
            self.scope |= {"trigger": row.trigger, "request": row.request}
        self._plan = plan
        self._settled: dict[str, str] = {}
        self._outcomes: dict[str, str] = {}
        self._stopped: set[str] = set()
        for step in row.done:
            self.settle(step.step_id, step.status, step.output, step.error, step.size, stored=step.stored)

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
        """Note how a step ended. A failed step fails the run, unless its `on_error` says otherwise."""
        for state in (self.pauses, self.backoffs, self.iterations, self.prepared):
            state.pop(step_id, None)
        self.at_work.discard(step_id)
        self._settled[step_id] = status
        if self._plan.keeps(step_id):
            self._keep(step_id, status, output, error, size, stored=stored)
        step = self._plan.steps[self._plan.position[step_id]]
        if status == "failed":
            self._outcomes[step_id] = "on_error"
            if step.on_error == "fail" and error is not None and self.error is None:
                self.error = error.model_copy(update={"step": step_id})
        elif isinstance(step, ConditionStep) and status == "completed":
            self._outcomes[step_id] = "then" if output["result"] else "else"
            if not output["result"] and step.config.then is None and step.config.otherwise is None:
                self._stopped.add(step_id)

    def _keep(
        self, step_id: str, status: str, output: Any, error: StepError | None, size: int, *, stored: bool
    ) -> None:
        self._sizes[step_id] = size
        kept: JSONObject = {
            "status": status, "output": output,
            "error": error and error.model_dump(include={"code", "message"}),
        }  # fmt: skip
        # Outputs may hold the scope, or `steps`, as it was: adding to these would put an output into itself.
        self.scope = {**self.scope, "steps": {**self.scope["steps"], step_id: kept}}
        if stored:
            self._stored[step_id] = None
        else:
            self.scope[step_id] = output
            self.kept_bytes += size

    def read(self, roots: Iterable[str], room: float = inf) -> Reading:
        """What a step that reads these roots of the scope gets; what does not fit into `room` is stored.

        What the workflow did by itself is stored along with the call that reads it.
        """
        wanted = list(roots)
        names = [*wanted, *self.scope["steps"]] if "steps" in wanted else wanted
        stored: list[str] = []
        size = 0
        for name in dict.fromkeys(names):
            its_size = self._sizes.get(name, 0)
            if name in self._stored or size + its_size > room:
                stored.append(name)
            else:
                size += its_size
        scope = {root: self.scope.get(root) for root in wanted if root not in stored}
        if stored and "steps" in scope:
            scope["steps"] = {
                step_id: {**step, "output": None} if step_id in stored else step
                for step_id, step in self.scope["steps"].items()
            }
        return Reading(scope, stored, size)

    def add_record(self, record: StepRecord, size: int = 0) -> None:
        """Keep what the workflow did by itself, with so many bytes of output, until an activity stores it."""
        size += _ENVELOPE_BYTES + (2 * len(record.error.message) if record.error else 0)
        self._add(record, size)

    def _add(self, record: StepRecord, size: int) -> None:
        self._records[record.step_id] = (record, size)
        self.record_bytes += size

    def send_records(self, read: Iterable[str] = ()) -> list[StepRecord]:
        """What is to be stored by the activity that it is handed to, which reads these steps' rows.

        Twice is as good as once: another activity may have a record to store, and not have done so yet.
        """
        again = [self._sent[name][0] for name in read if name in self._sent]
        records = [record for record, _ in self._records.values()]
        self._sent |= self._records
        self._records, self.record_bytes = {}, 0
        return again + records

    def note_stored(self, record: StepRecord) -> None:
        """Note that the activity has stored it."""
        self._sent.pop(record.step_id, None)

    def weigh_records(self, read: Iterable[str] = ()) -> int:
        """About how many bytes `send_records` would give."""
        return self.record_bytes + sum(self._sent[name][1] for name in read if name in self._sent)

    def recall_records(self) -> None:
        """Take back what is not known to be stored: twice is as good as once."""
        for step_id in self._sent:
            self.recall_record(step_id)

    def recall_record(self, step_id: str) -> None:
        """Take back what is not known to be stored of one step."""
        if step_id in self._sent and step_id not in self._records:
            self._add(*self._sent[step_id])

    def _skipped(self, step_id: str) -> bool:
        """Whether the step is on a branch not taken, or depends on a condition that ended the run."""
        if any(need in self._stopped for need in self._plan.needs[step_id]):
            self._stopped.add(step_id)
            return True
        if step_id not in self._plan.branch_of:
            return False
        source, wanted = self._plan.branch_of[step_id]
        return self._outcomes.get(source) != wanted

    def live(self, step_id: str) -> LiveStep:
        """How a step that is under way looks from outside."""
        pause = self.pauses.get(step_id)
        until = pause.until if pause else self.backoffs.get(step_id)
        return LiveStep(
            step_id=step_id,
            status="running" if until is None else "waiting",
            attempts=self.attempts.get(step_id, 1),
            started_at=self.began[step_id],
            until=until,
        )

    def progress(self) -> Progress:
        """What the database does not know of this row, for the next run of the workflow."""
        return Progress(
            attempts=self.attempts,
            began={step_id: self.began[step_id] for step_id in self.under_way},
            backoffs=self.backoffs,
            pauses=self.pauses,
            items={step_id: tried for step_id in self.under_way if (tried := self._items_tried(step_id))},
        )

    def _items_tried(self, step_id: str) -> dict[int, ItemProgress]:
        iteration = self.iterations.get(step_id)
        return iteration.progress() if iteration is not None else self.items_tried.get(step_id, {})

    @property
    def progress_bytes(self) -> int:
        """About how many bytes `progress` has."""
        waits = len(self.at_work) + sum(len(one.pausing) for one in self.iterations.values())
        return _WAIT_BYTES * waits

    @property
    def full(self) -> bool:
        """Whether so much waits to be stored that an activity should do that first."""
        return self.record_bytes > 4 * INLINE_BYTES

    def waits(self) -> Iterator[Wait]:
        """What goes on by itself, in the order of the steps."""
        for step_id in self.under_way:
            if step_id in self.pauses:
                yield Wait(step_id, None, self.pauses[step_id].until)
            elif step_id in self.backoffs:
                yield Wait(step_id, None, self.backoffs[step_id])
            elif step_id in self.iterations:
                for item, until in self.iterations[step_id].pausing.items():
                    yield Wait(step_id, item, until)

    @property
    def under_way(self) -> list[str]:
        """The steps that have begun and are not done, whether at work or yet to go on; in order."""
        return sorted(self.began.keys() - self._settled.keys(), key=self._plan.position.__getitem__)

    @property
    def rests(self) -> bool:
        """Whether all that is at work waits."""
        return all(self._rests(step_id) for step_id in self.at_work)

    def _rests(self, step_id: str) -> bool:
        if step_id in self.iterations:
            return self.iterations[step_id].rests
        return step_id in self.pauses or step_id in self.backoffs

    @property
    def finished(self) -> bool:
        """Whether nothing of the run is left to do."""
        return not self.at_work and (self.error is not None or len(self._settled) == len(self._plan.steps))
