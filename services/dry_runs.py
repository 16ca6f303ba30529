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
from engine.dry_run import DryRun, DryRunResult
from engine.state import RunInput
from language.definition import Definition, LookupStep
from language.expressions import JSON
from language.records import StepError
from models import limits
from models.automations import WorkflowView
from models.errors import FieldError, Invalid, ModelError, Unavailable
from models.identifiers import new_id
from models.inputs import InputSchema
from models.run_views import RunView, view_of
from providers import samples
from providers.lookup import Lookups
from providers.websearch.kind import SHOWN, cut
from services.process_pool import Ask, ProcessPool

# A place that nobody gives back, since its process was killed, is free after this. It is longer than a check
# and a dry run can take, each with its wait for a process.
_LEASE_SECONDS = 120
_PLACE = "dry_run"

JSONObject = dict[str, Any]


class DryRunInProgress(Unavailable):
    """The account has a dry run or a check of a workflow under way."""

    def __init__(self) -> None:
        message = "A dry run or check of this account is under way; wait for its answer."
        super().__init__("dry_run_in_progress", message)


@asynccontextmanager
async def only_one(database: Database, account_id: UUID) -> AsyncGenerator[None]:
    """Within the block no other dry run or check of the account begins, in any process.

    Raises:
        DryRunInProgress: one is under way.
    """
    subject = (_PLACE, str(account_id))
    async with database.connection() as connection:
        taken = await limits.hold(connection, subject, _LEASE_SECONDS)
    if taken is None:
        raise DryRunInProgress
    try:
        yield
    finally:
        async with database.connection() as connection:
            await limits.release(connection, subject, taken)


async def do_dry_run(
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
    run = RunInput(new_id(), datetime.now(UTC), trigger=payload, size=len(orjson.dumps(payload)))
    described = {"id": str(workflow.id), "name": definition["name"]}
    done = await pool.run(
        account_id, partial(_look_up, lookups), _result, definition, run, described, workflow.input_schema,
        list(secrets),
    )  # fmt: skip
    if isinstance(done, list):
        raise Invalid(done)
    return _view(workflow, definition, run, done)


def _result(
    ask: Ask,
    definition: JSONObject,
    run: RunInput,
    described: JSONObject,
    input_schema: JSONObject | None,
    secrets: list[str],
) -> DryRunResult | list[FieldError]:
    """In a process of the pool: the dry run, or what is wrong with its input."""
    if input_schema is not None:
        try:
            InputSchema(input_schema).check(run.trigger, "/input", run.size)
        except Invalid as invalid:
            return invalid.errors

    def look_up(step: LookupStep, text: str) -> JSON | StepError:
        return ask((step, text))

    return DryRun(
        Definition.model_validate(definition), run, described,
        now=lambda: datetime.now(UTC), look_up=look_up, secrets=secrets,
    ).run()  # fmt: skip


async def _look_up(lookups: Lookups, asked: tuple[LookupStep, str]) -> JSON | StepError:
    """As the activity does it."""
    step, text = asked
    try:
        result = await lookups.dry_run(
            step.kind, text, pointer=step.config.pointer, fields=step.config.fields
        )
    except ModelError as error:
        return StepError(code=error.code, message=error.message)
    answer = result.answer(shown="failed", fields=step.config.fields)
    if any(source.spec.name == samples.NAME for source, _ in result.outcomes):
        answer["sample"] = True
    return cut(answer, SHOWN) if step.kind == "websearch" else answer


def _view(workflow: WorkflowView, definition: JSONObject, run: RunInput, result: DryRunResult) -> RunView:
    """The run object, made as that of a run which is stored."""
    ended = result.ended
    done = sorted(result.records, key=lambda record: record.position)
    shown = {
        "id": run.run_id,
        "automation_id": workflow.id,
        "name": workflow.name,
        "version": workflow.version,
        "status": ended.status,
        "trigger": "manual",
        "input": run.trigger,
        "output": next((record.output for record in done if record.step_id == ended.output_of), None),
        "error": ended.error and ended.error.model_dump(exclude_none=True),
        "progress": None,
        "credits_used": 0,
        "restarted_from": None,
        "started_at": run.started_at,
        "completed_at": datetime.now(UTC),
        "definition_steps": definition["steps"],
    }
    rows = [
        {**record._asdict(), "error": record.error and record.error.model_dump(exclude_none=True)}
        for record in done
    ]
    return view_of(shown, rows, test=True)
