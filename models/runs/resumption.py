"""Resumption: answers that are posted to steps that wait, or will wait; the first answer counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from pydantic import TypeAdapter

from database import Connection
from language.delays import write_time
from language.steps import Step, WaitStep
from models.errors import Conflict, NotFound
from models.inputs.inputs import InputSchema
from models.runs import step_answers
from models.runs.resume_tokens import StepPosition

_STEP: TypeAdapter[Step] = TypeAdapter(Step)


class ResumableStep(NamedTuple):
    """A step that can be resumed.

    Attributes:
        account_id: the owner of the run.
        automation_id: the workflow.
        step_id: the step's id.
        schema: the schema of the posted answer; None for any JSON.
        workflow: the name of the workflow.
        step: the definition of the step.
    """

    account_id: UUID
    automation_id: UUID
    step_id: str
    schema: InputSchema | None
    workflow: str
    step: WaitStep


async def find(connection: Connection, place: StepPosition) -> ResumableStep:
    """Return the step that a token is for.

    Raises:
        NotFound: its run was deleted.
        Conflict: `resume_over` if the step has an answer, or the run has ended.
    """
    cursor = await connection.execute(
        "select r.account_id, r.automation_id, r.completed_at, v.definition->>'name' as workflow,"
        " v.definition->'steps' as steps"
        " from runs r join automation_versions v"
        "  on v.automation_id = r.automation_id and v.version = r.version where r.id = %s",
        (place.run_id,),
    )
    row = await cursor.fetchone()
    if row is None or place.position >= len(row["steps"] or ()):
        raise NotFound("resume URL")
    step = _STEP.validate_python(row["steps"][place.position])
    if not isinstance(step, WaitStep):
        raise NotFound("resume URL")
    if (
        row["completed_at"] is not None
        or await _is_answered(connection, place.run_id, step.id)
        or await _is_passed(connection, place.run_id, _list_later_steps(row["steps"], step.id))
    ):
        raise _resume_conflict()
    schema = step.config.input_schema
    return ResumableStep(
        row["account_id"], row["automation_id"], step.id, None if schema is None else InputSchema(schema),
        row["workflow"], step,
    )  # fmt: skip


async def resume(connection: Connection, run_id: UUID, step_id: str, body: Any) -> None:
    """Store the answer that was posted to a step, and wake its run. Run it inside a transaction.

    Notify `models.runs.runs.QUEUED_CHANNEL` after the commit.

    Raises:
        Conflict: `resume_over`, as `find`.
    """
    # A transaction that ends the run at this moment waits for this lock, or is waited for.
    cursor = await connection.execute("select from run_work where run_id = %s for key share", (run_id,))
    if await cursor.fetchone() is None:
        raise _resume_conflict()
    output = {"resumed": True, "body": body, "at": write_time(datetime.now(UTC))}
    if await _is_answered(connection, run_id, step_id) or not await step_answers.answer(
        connection, run_id, step_id, output
    ):
        raise _resume_conflict()
    await step_answers.wake(connection, [run_id])


async def _is_answered(connection: Connection, run_id: UUID, step_id: str) -> bool:
    cursor = await connection.execute(
        "select exists (select from run_answers where run_id = %(run)s and step_id = %(step)s)"
        " or exists (select from run_steps where run_id = %(run)s and step_id = %(step)s) as found",
        {"run": run_id, "step": step_id},
    )
    row = await cursor.fetchone()
    return row is not None and row["found"]


def _list_later_steps(steps: Sequence[Mapping[str, Any]], step_id: str) -> list[str]:
    """Return the steps of a stored definition that begin only after this one."""
    found, before = {step_id}, None
    for step in steps:
        needs = step.get("needs")
        if not found.isdisjoint([before] if needs is None else needs):
            found.add(step["id"])
        before = step["id"]
    return sorted(found - {step_id})


async def _is_passed(connection: Connection, run_id: UUID, after: Sequence[str]) -> bool:
    """Return whether one of these steps has begun.

    Then the step before them was skipped, without a record.
    """
    cursor = await connection.execute(
        "select exists (select from run_steps where run_id = %(run)s and step_id = any(%(after)s))"
        " or exists (select from run_work where run_id = %(run)s"
        "  and (progress->'steps')::jsonb ?| %(after)s::text[]) as found",
        {"run": run_id, "after": list(after)},
    )
    row = await cursor.fetchone()
    return row is not None and row["found"]


def _resume_conflict() -> Conflict:
    return Conflict("resume_over", "This step was resumed before, or its time is over; nothing was changed.")
