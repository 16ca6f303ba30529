"""Retries: a new run of the same event that takes over the finished parts of an ended run.

A step is taken over if it completed and no step that it needs is repeated. Repeated are the steps that failed
or were cancelled, the step to start from, and the steps that differ in the version to run. A step that failed
for some items of its array keeps its completed items.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import tracing
from database import Connection
from language.branches import needs_of
from language.definition import Definition
from models import audit
from models.audit import Actor, Target
from models.errors import Conflict, FieldError, Forbidden, Invalid, NotFound
from models.identifiers import new_id
from models.priorities import INTERACTIVE
from models.run_values import GATHERED
from models.runs import search_values
from models.runs.acceptance import RunAcceptance, find_accepted


@dataclass(frozen=True, slots=True)
class RetryRequest:
    """The retry of a run.

    Attributes:
        run_id: the run to retry.
        from_step: repeat this step and all that need it; by default the steps that did not complete.
        version: the workflow's version to run; by default that of the run.
        dedupe_key: a second request with the same key is the same retry.
        priority: of the new run.
    """

    run_id: UUID
    from_step: str | None = None
    version: int | None = None
    dedupe_key: str | None = None
    priority: int = INTERACTIVE


def first_retry_key(run_id: UUID) -> str:
    """Return the dedupe key that the first retry of a run takes, whoever asks for it."""
    return f"first-retry/{run_id}"


async def retry(
    connection: Connection, actor: Actor, request: RetryRequest, *, may_look_up: bool
) -> RunAcceptance:
    """Accept a retry of a run: once this has committed, it will be executed. Run it inside a transaction.

    Args:
        connection: inside a transaction.
        actor: the owner of the run, and the one who retries it.
        request: the retry.
        may_look_up: whether the caller may do lookups.

    Raises:
        NotFound: the run is unknown, or another account's.
        Conflict: `run_not_ended`, `workflow_not_active`, or `nothing_to_retry` for a run that completed.
        Invalid: the step or the version is unknown.
        Forbidden: the version has lookup steps, and the caller may not do lookups.
    """
    run_id, from_step = request.run_id, request.from_step
    run = await _ended_run(connection, actor.account_id, run_id)
    wanted = run["version"] if request.version is None else request.version
    if run["status"] == "completed" and from_step is None and wanted == run["version"]:
        raise Conflict("nothing_to_retry", "The run completed; name a step to retry from, or a version.")
    ran = await _definition(connection, run["automation_id"], run["version"])
    definition = ran
    if wanted != run["version"]:
        definition = await _definition(connection, run["automation_id"], wanted)
    if not may_look_up and definition.looks_up:
        raise Forbidden("insufficient_scope", "To retry lookup steps the key needs the scope lookups too.")
    position = {step.id: index for index, step in enumerate(definition.steps)}
    if from_step is not None and from_step not in position:
        raise Invalid([FieldError("/from_step", "unknown_step", "The workflow has no such step.")])
    cursor = await connection.execute("select step_id, status from run_steps where run_id = %s", (run_id,))
    statuses = {row["step_id"]: row["status"] for row in await cursor.fetchall()}
    begun = {step_id for step_id, status in statuses.items() if status != "completed"}
    anew = _find_changed_steps(ran, definition) | {step_id for step_id in (from_step,) if step_id is not None}
    again = _with_dependents(definition, begun | anew)
    needs = needs_of(definition)
    kept = {step_id: position[step_id] for step_id in statuses if step_id in position.keys() - again}
    resumed = [step_id for step_id in begun & position.keys() - anew if again.isdisjoint(needs[step_id])]
    accepted = await _accept(connection, run, wanted, kept, resumed, request)
    if not accepted.repeated:
        changes = {
            "run_id": str(accepted.run_id), "restarted_from": str(run_id), "from_step": from_step,
            "version": wanted,
        }  # fmt: skip
        await audit.record(
            connection, actor, "run.retried", Target("workflow", run["automation_id"]), changes
        )
    return accepted


async def _ended_run(connection: Connection, account_id: UUID, run_id: UUID) -> dict[str, Any]:
    cursor = await connection.execute(
        "select r.id, r.automation_id, r.version, r.status, r.completed_at, a.deleted_at,"
        " a.status as automation_status from runs r join automations a on a.id = r.automation_id"
        " where r.account_id = %s and r.id = %s",
        (account_id, run_id),
    )
    run = await cursor.fetchone()
    if run is None:
        raise NotFound("run")
    if run["completed_at"] is None:
        raise Conflict("run_not_ended", "The run has not ended; cancel it or wait.")
    if run["deleted_at"] is not None:
        raise Conflict("workflow_not_active", "The workflow is deleted.")
    if run["automation_status"] != "active":
        message = f"The workflow is {run['automation_status']}; activate it first."
        raise Conflict("workflow_not_active", message)
    return run


async def _definition(connection: Connection, automation_id: UUID, version: int) -> Definition:
    cursor = await connection.execute(
        "select definition from automation_versions where automation_id = %s and version = %s",
        (automation_id, version),
    )
    row = await cursor.fetchone()
    if row is None:
        raise Invalid([FieldError("/version", "unknown_version", "The workflow has no such version.")])
    return Definition.model_validate(row["definition"])


def _find_changed_steps(ran: Definition, definition: Definition) -> set[str]:
    """Return the steps that are new or different."""
    before = {step.id: step for step in ran.steps}
    return {step.id for step in definition.steps if before.get(step.id) != step}


def _with_dependents(definition: Definition, step_ids: Iterable[str]) -> set[str]:
    """Return these steps and all that need one of them. A step comes after those that it needs."""
    found = set(step_ids)
    needs = needs_of(definition)
    for step in definition.steps:
        if not found.isdisjoint(needs[step.id]):
            found.add(step.id)
    return found


_ACCEPT = """
with keys as (
  insert into run_dedupe_keys (automation_id, dedupe_key, run_id)
  select automation_id, %(dedupe_key)s, %(id)s from runs
  where id = %(original)s and %(dedupe_key)s::text is not null
  on conflict do nothing returning run_id
), marked as (
  insert into run_dedupe_keys (automation_id, dedupe_key, run_id)
  select automation_id, %(first_retry)s, %(id)s from runs
  where id = %(original)s and (%(dedupe_key)s::text is null or exists (select from keys))
  on conflict do nothing
), accepted as (
  insert into runs (id, account_id, automation_id, version, trigger, input, request, input_bytes,
                    restarted_from, queued_at, traceparent, request_id)
  select %(id)s, account_id, automation_id, %(version)s, trigger, input, request, input_bytes, id, now(),
    %(traceparent)s, %(request_id)s
  from runs where id = %(original)s and (%(dedupe_key)s::text is null or exists (select from keys))
  returning id, account_id, automation_id, input_bytes
)
insert into run_work (run_id, account_id, automation_id, version, priority, gate, own, status, begun,
                      available_at, bytes)
select a.id, a.account_id, a.automation_id, %(version)s, %(priority)s, gate_of_1(a.automation_id),
  (select coalesce(execution, '') = 'workflow' from automations where id = a.automation_id), 'queued', false,
  clock_timestamp(), a.input_bytes
from accepted a
returning run_id
"""
# Paid steps stay paid: the new run counts none of their cost.
_TAKE_OVER = """
with kept as (
  insert into run_steps (run_id, step_id, position, status, input, output, error, attempts, credits_used,
                         started_at, completed_at, items_total, items_failed, attempt_log,
                         performed_by)
  select %(id)s, s.step_id, n.position, s.status, s.input,
    case when s.gathered and s.status = 'completed' then (
      select {gathered} from run_step_items i where i.run_id = s.run_id and i.step_id = s.step_id)
    else s.output end,
    s.error, s.attempts, 0, s.started_at, s.completed_at, s.items_total, s.items_failed,
    s.attempt_log, s.performed_by
  from run_steps s join unnest(%(kept)s::text[], %(positions)s::smallint[]) as n (step_id, position)
    on n.step_id = s.step_id where s.run_id = %(original)s
)
insert into run_step_items (run_id, step_id, item, status, output, error, attempts, credits_used)
select %(id)s, step_id, item, status, output, error, attempts, 0 from run_step_items
where run_id = %(original)s and step_id = any(%(resumed)s) and status = 'completed'
""".replace("{gathered}", GATHERED)


async def _accept(
    connection: Connection,
    run: dict[str, Any],
    version: int,
    kept: dict[str, int],
    resumed: list[str],
    request: RetryRequest,
) -> RunAcceptance:
    """Store the new run with the steps that it takes over, each with its position, and items of others."""
    run_id = new_id()
    values = {
        "id": run_id, "original": run["id"], "version": version, "priority": request.priority,
        "dedupe_key": request.dedupe_key, "first_retry": first_retry_key(run["id"]),
        "kept": list(kept), "positions": list(kept.values()), "resumed": resumed,
        **tracing.get_origin()._asdict(),
    }  # fmt: skip
    cursor = await connection.execute(_ACCEPT, values)
    if await cursor.fetchone():
        await connection.execute(_TAKE_OVER, values)
        await search_values.index_runs(connection, [run_id])
        return RunAcceptance(run_id=run_id, repeated=False)
    before = await find_accepted(connection, run["automation_id"], request.dedupe_key or "")
    assert before is not None, "it was there a moment ago, and this transaction sees what has committed"
    return before
