"""Dry runs of workflows, in a process of the pool."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

import orjson

from database import Database
from language.definition import LookupStep
from language.expressions import JSON
from language.records import StepError
from models import limits
from models.automations import WorkflowView
from models.errors import FieldError, Invalid, ModelError, Unavailable
from models.identifiers import new_id
from models.inputs import InputSchema
from models.run_views import RunView, view_of
from providers.lookup import Lookups
from providers.websearch.kind import SHOWN, cut
from services.process_pool import Ask, ProcessPool
from workflows.messages import Batch, BatchRow
from workflows.rehearsal import Rehearsal, Rehearsed, batch_of_one

# A place that nobody gives back, since its process was killed, is free after this. It is longer than a check
# and a dry run can take, each with its wait for a process.
_LEASE_SECONDS = 120
_PLACE = "rehearsal"

JSONObject = dict[str, Any]


class RehearsalInProgress(Unavailable):
    """The account has a dry run or a check of a workflow under way."""

    def __init__(self) -> None:
        message = "A dry run or check of this account is under way; wait for its answer."
        super().__init__("dry_run_in_progress", message)


@asynccontextmanager
async def only_one(database: Database, account_id: UUID) -> AsyncGenerator[None]:
    """Within the block no other dry run or check of the account begins, in any process.

    Raises:
        RehearsalInProgress: one is under way.
    """
    subject = (_PLACE, str(account_id))
    async with database.connection() as connection:
        taken = await limits.hold(connection, subject, _LEASE_SECONDS)
    if taken is None:
        raise RehearsalInProgress
    try:
        yield
    finally:
        async with database.connection() as connection:
            await limits.release(connection, subject, taken)


async def rehearse(
    pool: ProcessPool,
    lookups: Lookups,
    account_id: UUID,
    workflow: WorkflowView,
    definition: JSONObject,
    payload: JSON,
    secrets: Collection[str],
) -> RunView:
    """Do a dry run.

    Args:
        pool: where it is done.
        lookups: answer its lookups from the data of this service.
        account_id: whose workflow it is.
        workflow: which.
        definition: what to run.
        payload: the `trigger` of the run's expressions.
        secrets: the names of the account's secrets.

    Raises:
        Invalid: the workflow takes no such input.
        PoolBusy, WorkLost: it was not begun in time, or its process has ended.
    """
    row = BatchRow(run_id=new_id(), trigger=payload, started_at=datetime.now(UTC))
    batch = batch_of_one(
        definition, account_id=account_id, automation_id=workflow.id, version=workflow.version, row=row
    )
    done = await pool.run(
        account_id, partial(_look_up, lookups), _rehearsed, batch, workflow.input_schema, list(secrets)
    )
    if isinstance(done, list):
        raise Invalid(done)
    return _view(workflow, definition, row, done)


def _rehearsed(
    ask: Ask, batch: Batch, input_schema: JSONObject | None, secrets: list[str]
) -> Rehearsed | list[FieldError]:
    """In a process of the pool: the dry run, or what is wrong with its input."""
    if input_schema is not None:
        payload = batch.rows[0].trigger
        try:
            InputSchema(input_schema).check(payload, "/input", len(orjson.dumps(payload)))
        except Invalid as invalid:
            return invalid.errors

    def look_up(step: LookupStep, text: str) -> JSON | StepError:
        return ask((step, text))

    return Rehearsal(batch, now=lambda: datetime.now(UTC), look_up=look_up, secrets=secrets).run()


async def _look_up(lookups: Lookups, asked: tuple[LookupStep, str]) -> JSON | StepError:
    """As the activity does it."""
    step, text = asked
    try:
        result = await lookups.rehearse(
            step.kind, text, pointer=step.config.pointer, fields=step.config.fields
        )
    except ModelError as error:
        return StepError(code=error.code, message=error.message)
    answer = result.answer()
    return cut(answer, SHOWN) if step.kind == "websearch" else answer


def _view(workflow: WorkflowView, definition: JSONObject, row: BatchRow, rehearsed: Rehearsed) -> RunView:
    """The run object, made as that of a run which is stored."""
    error = rehearsed.error
    done = sorted(rehearsed.records, key=lambda record: record.position)
    outputs = [record.output for record in done if record.status == "completed"]
    run = {
        "id": row.run_id,
        "automation_id": workflow.id,
        "name": workflow.name,
        "version": workflow.version,
        "status": "completed" if error is None else "failed",
        "trigger": "manual",
        "input": row.trigger,
        "output": outputs[-1] if outputs and error is None else None,
        "error": error and error.model_dump(exclude_none=True),
        "progress": None,
        "credits_used": 0,
        "restarted_from": None,
        "started_at": row.started_at,
        "completed_at": datetime.now(UTC),
        "definition_steps": definition["steps"],
    }
    rows = [
        {**record.model_dump(), "error": record.error and record.error.model_dump(exclude_none=True)}
        for record in done
    ]
    return view_of(run, rows, test=True)
