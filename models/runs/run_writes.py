"""Fenced writes: a carrier's changes to its runs are stored only if it still has their claims.

The fence is the `claim_id` in the run's own row, set by its last claim. A write is one short transaction, in
two round trips of plain statements. The first locks the runs, then the parents to wake, and determines which
changes are allowed; if a row is missing, another statement finds out why. The last one writes, commits and
announces.

No statement both locks rows and reads a partitioned table. When one did, and a lock had to wait, Postgres 18
checked the row again and crashed as it chose partitions of `runs` (`perform_pruning_base_step`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, LiteralString, NamedTuple
from uuid import UUID

import orjson
from psycopg import AsyncCursor
from psycopg.rows import DictRow

import metrics
from database import Connection
from language.records import StepError, StepRecord
from models import gates
from models.priorities import ALONE, BULK
from models.runs import search_values
from models.runs.own_runs import WORKFLOW
from pipelined import Notifications, pipelined_transaction

Cursor = AsyncCursor[DictRow]

MAX_DEPTH = 5
"""The highest number of runs above one: those of which it is a step, and those whose failure it handles."""


@dataclass(frozen=True)
class Wait:
    """The run waits, or a call has been under way for so long that its progress must be visible.

    Attributes:
        wake_at: when it continues, if it only waits.
        progress: as JSON, in the form of `language.progress`.
        leaves: whether its carrier releases it.
    """

    wake_at: datetime | None
    progress: str
    leaves: bool = False


@dataclass(frozen=True)
class End:
    """The run has ended. Its output is stored once: it is that of the step `output_of`.

    Attributes:
        handler: for a failed run, the workflow that handles the failure.
        has_children: whether runs that it has begun as steps may be under way; they are cancelled.
        waited_version: if a client waits for its answer, the version of the workflow that it executed.
    """

    status: Literal["completed", "failed", "cancelled"]
    error: StepError | None = None
    output_of: str | None = None
    handler: UUID | None = None
    has_children: bool = False
    waited_version: int | None = None


@dataclass(frozen=True)
class Change:
    """The changes of a run that its carrier writes: finished steps, and whether the run waits or has ended.

    Attributes:
        claim_id: the claim under which the work was done.
        parent_run_id: the run whose step this run is: its end wakes that run.
        progress_no: the number of writes of the progress when this was made; None if there is no other
            writer.
    """

    claim_id: UUID
    run_id: UUID
    records: Sequence[StepRecord] = field(default_factory=list[StepRecord])
    then: Wait | End | None = None
    parent_run_id: UUID | None = None
    progress_no: int | None = None

    @cached_property
    def written_steps(self) -> bytes:
        """The records of steps as JSON, each followed by a comma, so that several changes can be joined."""
        return encode_records(record for record in self.records if record.item is None)

    @cached_property
    def written_items(self) -> bytes:
        """The records of items, in the same form."""
        return encode_records(record for record in self.records if record.item is not None)

    @property
    def size(self) -> int:
        """The size of all parts, in bytes."""
        progress = self.then.progress if isinstance(self.then, Wait) else ""
        return len(self.written_steps) + len(self.written_items) + len(progress)

    @property
    def woken_parent(self) -> UUID | None:
        """The parent that this change wakes, if the run ends."""
        return self.parent_run_id if isinstance(self.then, End) else None


class WriteResult(NamedTuple):
    """The results of writing changes.

    Attributes:
        runs: the runs whose change is stored.
        busy: the runs whose row, or whose parent's, another transaction has locked: retry them.
        queued_others: whether further runs can be claimed now: parents, handlers of failures, held runs.
        stale: the runs whose progress another writer has changed meanwhile.
    """

    runs: set[UUID]
    busy: set[UUID]
    queued_others: bool
    stale: set[UUID]


class _Locked(NamedTuple):
    """The row of a run, locked until the transaction ends.

    Attributes:
        is_heard: whether its account has an active endpoint that may get events of its end.
        was_lost: whether workers were lost with it, or our code failed with it, since its last write.
    """

    run_id: UUID
    claim_id: UUID
    started_at: datetime | None
    progress_no: int
    gate: UUID
    is_heard: bool
    was_lost: bool


# A writer never waits for a row lock, so writers cannot deadlock: a row locked elsewhere is retried.
_LOCK_RUNS = """
select run_id, claim_id, started_at, progress_no, gate,
  exists (select from endpoints p where p.account_id = w.account_id and p.is_active) as is_heard,
  lost > 0 or setbacks is not null as was_lost
from run_work w where run_id = any(%s) and status = 'running' order by run_id for update of w skip locked
"""
_LOCK_PARENTS = (
    "select run_id from run_work where run_id = any(%s) order by run_id for no key update skip locked"
)
_FIND = (
    "select run_id, case when status = 'running' then claim_id end as claim_id from run_work"
    " where run_id = any(%s)"
)


async def record_changes_if_claimed(
    connection: Connection,
    changes: Sequence[Change],
    announce: Callable[[Sequence[Change]], Notifications] = lambda _: [],
) -> WriteResult:
    """Write changes of runs, each fenced by its claim, in one transaction.

    Args:
        connection: outside a transaction.
        changes: at most one for each run, and none for a run together with one for its parent.
        announce: returns the notifications of the changes that are stored.

    Returns:
        The results. A run that is neither in `runs` nor `busy` nor `stale` no longer belongs to its carrier.
    """
    async with pipelined_transaction(connection) as notifications:
        locked, busy, stale = await _lock(connection, changes)
        held = [change for change in changes if change.run_id in locked]
        left = await _write(connection, held, locked) if held else None
        notifications += announce(held)
    # Read after the commit: a read before it would need another round trip.
    row = await left.fetchone() if left else None
    if row and row["children"]:
        metrics.RUNS.add(row["children"], "cancelled", "")
    queued_others = bool(row and row["promoted"]) or any(map(_queues_others, held))
    return WriteResult({change.run_id for change in held}, busy, queued_others, stale)


def _queues_others(change: Change) -> bool:
    end = change.then
    return isinstance(end, End) and (change.parent_run_id is not None or end.handler is not None)


async def _lock(
    connection: Connection, changes: Sequence[Change]
) -> tuple[dict[UUID, _Locked], set[UUID], set[UUID]]:
    """Lock the rows that the changes concern.

    Returns:
        The rows of the runs that may be written, the busy runs, and the stale ones.
    """
    parent_ids = list({parent for change in changes if (parent := change.woken_parent)})
    runs = await connection.execute(_LOCK_RUNS, ([change.run_id for change in changes],))
    parents = await connection.execute(_LOCK_PARENTS, (parent_ids,)) if parent_ids else None
    own = {row["run_id"]: _Locked(**row) for row in await runs.fetchall()}
    free = {row["run_id"] for row in await parents.fetchall()} if parents else set[UUID]()
    claim_of = {run_id: row.claim_id for run_id, row in own.items()}
    missing = [run_id for run_id in (*(change.run_id for change in changes), *parent_ids)
               if run_id not in own and run_id not in free]  # fmt: skip
    if missing:
        there = await connection.execute(_FIND, (missing,))
        claim_of |= {row["run_id"]: row["claim_id"] for row in await there.fetchall()}
    locked: dict[UUID, _Locked] = {}
    busy: set[UUID] = set()
    stale: set[UUID] = set()
    for change in changes:
        if claim_of.get(change.run_id) != change.claim_id:
            continue
        parent_is_busy = change.woken_parent in claim_of and change.woken_parent not in free
        if change.run_id not in own or parent_is_busy:
            busy.add(change.run_id)
        elif change.progress_no not in (None, own[change.run_id].progress_no):
            stale.add(change.run_id)
        else:
            locked[change.run_id] = own[change.run_id]
    return locked, busy, stale


_RECORD = """run_id uuid, step_id text, position smallint, status text, input text, output text, error json,
  attempts smallint, credits_used bigint, started_at timestamptz, completed_at timestamptz, item smallint,
  gathered boolean, items_total smallint, items_failed smallint, attempt_log json, performed_by text"""
_INSERT_ITEMS = f"""
insert into run_step_items (run_id, step_id, item, status, output, error, attempts, credits_used)
select run_id, step_id, item, status, output::json, error, attempts, credits_used
from json_to_recordset(%(records)s::json) as n ({_RECORD}) order by run_id, step_id, item
on conflict do nothing
"""
_INSERT_STEPS = f"""
insert into run_steps (run_id, step_id, position, status, input, output, error, attempts, credits_used,
                       started_at, completed_at, gathered, items_total, items_failed, attempt_log,
                       performed_by)
select run_id, step_id, position, status, input::json, output::json, error, attempts, credits_used,
  started_at, completed_at, gathered, items_total, items_failed, attempt_log, performed_by
from json_to_recordset(%(records)s::json) as n ({_RECORD}) order by run_id, step_id
on conflict do nothing
"""
_END = """
update runs r set status = e.status, error = e.error, completed_at = now(), output_of = e.output_of,
  started_at = e.started_at
from unnest(%(ids)s::uuid[], %(statuses)s::text[], %(errors)s::json[], %(outputs)s::text[],
            %(started)s::timestamptz[])
  as e (id, status, error, output_of, started_at)
where r.id = e.id and r.id = any(%(ids)s)
"""
_EMIT: LiteralString = """
select emit_events(array_agg(time_ordered_id()), array_agg(r.account_id),
  array_agg('workflow.run.' || r.status), array_agg(run_event(r, n.name)))
from runs r join automations n on n.id = r.automation_id
where r.id = any(%(ids)s)
having count(*) > 0
"""
_HANDLE = """
select start_after_failure_2(r, n.name, f.handler, %(priority)s, %(deepest)s) as run_id
from unnest(%(ids)s::uuid[], %(handlers)s::uuid[]) as f (id, handler)
join runs r on r.id = f.id and r.id = any(%(ids)s) join automations n on n.id = r.automation_id
"""
# Gates are locked once, and last.
_LEAVE: LiteralString = """
with children as materialized (select gate from cancel_children_2(%(orphaning)s))
select leave_gates_1(%(gates)s::uuid[]
  || array(select gate from children where gate is not null)) as promoted,
  (select count(*) from children)::int as children
"""
# A write that advances a step proves that the run was not lost: it resets losses, setbacks and the priority
# of running alone. The mere fact that a call is under way proves nothing: that call may be what kills its
# workers.
_WAIT: LiteralString = """
update run_work w set progress = a.progress, lost = case when a.went_on then 0 else w.lost end,
  setbacks = case when not a.went_on then w.setbacks end,
  priority = case when a.went_on then w.priority %% %(alone)s else w.priority end,
  status = case when not a.leaves then w.status when w.woken then 'queued' else 'waiting' end,
  progress_no = w.progress_no + 1,
  carrier = case when a.leaves and w.carrier <> %(workflow)s then null else w.carrier end,
  claim_id = case when a.leaves and w.carrier <> %(workflow)s then null else w.claim_id end,
  wake_at = case when a.leaves and w.woken then null else a.wake_at end,
  available_at = case when a.leaves and w.woken then now() else w.available_at end
from unnest(%(ids)s::uuid[], %(wake_at)s::timestamptz[], %(progress)s::json[], %(leaves)s::boolean[],
            %(went_on)s::boolean[]) as a (run_id, wake_at, progress, leaves, went_on)
where w.run_id = a.run_id and w.run_id = any(%(ids)s)
"""
_WENT_ON = (
    "update run_work set lost = 0, setbacks = null, priority = priority %% %(alone)s"
    " where run_id = any(%(ids)s)"
)


async def _write(
    connection: Connection, changes: Sequence[Change], locked: Mapping[UUID, _Locked]
) -> Cursor | None:
    """Write changes of locked runs; the cursor returns what `_LEAVE` does."""
    await insert_records(
        connection,
        b"".join(change.written_steps for change in changes),
        b"".join(change.written_items for change in changes),
    )
    left: Cursor | None = None
    if ends := [(change, change.then) for change in changes if isinstance(change.then, End)]:
        left = await _write_ends(connection, ends, locked)
    waits = [
        (change.run_id, change.then, change.then.leaves or bool(change.records))
        for change in changes
        if isinstance(change.then, Wait)
    ]
    if waits:
        await connection.execute(
            _WAIT,
            {
                "ids": [run_id for run_id, _, _ in waits],
                "wake_at": [wait.wake_at for _, wait, _ in waits],
                "progress": [wait.progress for _, wait, _ in waits],
                "leaves": [wait.leaves for _, wait, _ in waits],
                "went_on": [went_on for _, _, went_on in waits],
                "alone": ALONE,
                "workflow": WORKFLOW,
            },
        )
    if others := [row.run_id for change in changes if change.then is None
                  if (row := locked[change.run_id]).was_lost]:  # fmt: skip
        await connection.execute(_WENT_ON, {"ids": others, "alone": ALONE})
    return left


async def insert_records(connection: Connection, steps: bytes, items: bytes) -> None:
    """Insert records, given as JSON with a comma after each; existing ones stay unchanged."""
    if items:
        await connection.execute(_INSERT_ITEMS, {"records": f"[{items[:-1].decode()}]"})
    if steps:
        await connection.execute(_INSERT_STEPS, {"records": f"[{steps[:-1].decode()}]"})


async def _write_ends(
    connection: Connection, ends: Sequence[tuple[Change, End]], locked: Mapping[UUID, _Locked]
) -> Cursor | None:
    """Write the ends of runs, with events, handlers, woken parents, cancelled children and gates."""
    rows = [locked[change.run_id] for change, _ in ends]
    ids = [row.run_id for row in rows]
    await connection.execute(
        _END,
        {
            "ids": ids,
            "statuses": [end.status for _, end in ends],
            "errors": [end.error and end.error.model_dump_json(exclude_none=True) for _, end in ends],
            "outputs": [end.output_of for _, end in ends],
            "started": [row.started_at for row in rows],
        },
    )
    if heard := [row.run_id for row in rows if row.is_heard]:
        await connection.execute(_EMIT, {"ids": heard})
    failed = [(change.run_id, end.handler) for change, end in ends if end.handler is not None]
    if failed:
        handled = {"ids": [run_id for run_id, _ in failed], "handlers": [handler for _, handler in failed]}
        cursor = await connection.execute(_HANDLE, {**handled, "priority": BULK, "deepest": MAX_DEPTH})
        await search_values.index_runs(connection, [row["run_id"] for row in await cursor.fetchall()])
    parents = list({parent for change, _ in ends if (parent := change.woken_parent)})
    if parents:
        await connection.execute("select wake_runs_2(%s)", (parents,))
    orphaning = [change.run_id for change, end in ends if end.has_children]
    gates_left = [row.gate for row in rows if row.gate != gates.NONE]
    left: Cursor | None = None
    if gates_left or orphaning:
        left = await connection.execute(_LEAVE, {"gates": gates_left, "orphaning": orphaning})
    await connection.execute("delete from run_work where run_id = any(%s)", (ids,))
    return left


def encode_records(records: Iterable[StepRecord]) -> bytes:
    """Return records as JSON, each followed by a comma."""
    return b"".join(orjson.dumps(_written_record(record)) + b"," for record in records)


def _written_record(record: StepRecord) -> dict[str, Any]:
    """Return a record with its data as text, because data may contain a NUL.

    A column of type json stores a NUL, but the functions that parse JSON fail on it.
    """
    return {
        **record._asdict(),
        "input": _text(record.input),
        "output": _text(record.output),
        "error": record.error and record.error.model_dump(exclude_none=True),
        "attempt_log": [one.model_dump(mode="json", exclude_none=True) for one in record.attempt_log] or None,
    }


def _text(value: Any) -> str | None:
    return None if value is None else orjson.dumps(value).decode()
