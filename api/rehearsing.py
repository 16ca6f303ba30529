"""Dry runs of workflows, within the API's process."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from api import saving
from api.deps import Services
from models.automations import WorkflowView
from models.definitions import Rules
from models.errors import ModelError
from models.identifiers import new_id
from models.inputs import InputSchema
from models.run_views import RunView, view_of
from providers.websearch.kind import SHOWN, cut
from workflows.definition import LookupStep
from workflows.expressions import JSON
from workflows.messages import BatchRow, StepError
from workflows.rehearsal import Rehearsal, Rehearsed, batch_of_one

# A dry run takes a thread, whose expressions may keep a processor busy for some seconds.
_AT_ONCE = asyncio.Semaphore(2)
_LOOKUP_SECONDS = 30.0

JSONObject = dict[str, Any]


async def definition_of(
    services: Services, workflow: WorkflowView, account_id: UUID, steps: JSON, rules: Rules
) -> JSONObject:
    """The definition to run: that of the workflow, with other steps if there are any.

    Raises:
        Invalid: naming everything that is wrong with those steps.
        Forbidden: if there are lookups among them, and the caller may do none.
    """
    definition = {"name": workflow.name, "trigger": workflow.trigger, "steps": workflow.steps}
    if steps is None:
        return definition
    document = {**definition, "steps": steps, "status": "draft"}
    checked = await saving.check(services, account_id, document, rules)
    return checked.definition.model_dump(mode="json", exclude_unset=True)


async def rehearse(
    services: Services,
    account_id: UUID,
    workflow: WorkflowView,
    definition: JSONObject,
    payload: JSON,
    secrets: Collection[str],
) -> RunView:
    """Do a dry run.

    Args:
        services: of the application.
        account_id: whose workflow it is.
        workflow: which.
        definition: what to run.
        payload: the `trigger` of the run's expressions.
        secrets: the names of the account's secrets.

    Raises:
        Invalid: the workflow takes no such input.
    """
    if workflow.input_schema is not None:
        schema = InputSchema(workflow.input_schema)
        await asyncio.to_thread(schema.check, payload, "/input", len(orjson.dumps(payload)))
    started_at, loop = datetime.now(UTC), asyncio.get_running_loop()
    row = BatchRow(run_id=new_id(), trigger=payload, started_at=started_at)
    batch = batch_of_one(
        definition, account_id=account_id, automation_id=workflow.id, version=workflow.version, row=row
    )

    def look_up(step: LookupStep, text: str) -> JSON | StepError:
        answer = asyncio.run_coroutine_threadsafe(_look_up(services, step, text), loop)
        return answer.result(_LOOKUP_SECONDS)

    def run() -> Rehearsed:
        return Rehearsal(batch, now=lambda: datetime.now(UTC), look_up=look_up, secrets=secrets).run()

    async with _AT_ONCE:
        rehearsed = await asyncio.to_thread(run)
    return _view(workflow, definition, row, rehearsed)


async def _look_up(services: Services, step: LookupStep, text: str) -> JSON | StepError:
    """As the activity does it."""
    try:
        config = step.config
        result = await services.lookups.rehearse(
            step.kind, text, pointer=config.pointer, fields=config.fields
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
