"""Dry runs of workflows, in a process of the pool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal
from uuid import UUID

import orjson

from database import Database
from engine.dry_run import MASK, DryRun, DryRunResult, OutsideAnswers
from engine.state import RunInput
from language.definition import Definition
from language.expressions import JSON
from language.findings import pointer_of, suggestion
from language.records import StepError
from language.steps import LookupStep, WorkflowStep
from language.webhook_requests import Request
from models import limits
from models.automations import run_targets
from models.automations.automation_views import WorkflowView
from models.errors import Conflict, DomainError, FieldError, Invalid, NotFound, Unavailable
from models.identifiers import new_id
from models.inputs.inputs import InputSchema
from models.runs.run_views import RunView, view_of
from outbound.errors import OutboundError
from outbound.guard import Networks, check_headers, parse_url
from providers.lookup import samples
from providers.lookup.lookup import Lookups
from providers.websearch.kind import SHOWN, cut_results
from services.process_pool import Ask, ProcessPool

# A place whose process was killed is freed after this time. It is longer than a check and a dry run can take,
# each including its wait for a process.
_LEASE_SECONDS = 120
Place = Literal["dry_run", "validation"]
"""The kinds of work that an account does one at a time of, each kind by itself."""

JSONObject = dict[str, Any]


class DryRunInProgress(Unavailable):
    """The account already has a dry run, or a check of a workflow, in progress."""

    def __init__(self, place: Place) -> None:
        kind = "dry run" if place == "dry_run" else "check"
        message = f"A {kind} of this account is under way; wait for its answer."
        super().__init__("dry_run_in_progress", message)


@asynccontextmanager
async def only_one(database: Database, account_id: UUID, place: Place = "dry_run") -> AsyncGenerator[None]:
    """Prevent others of this kind of the account in all processes while the block runs.

    Raises:
        DryRunInProgress: another one is in progress.
    """
    subject = (place, str(account_id))
    asked = asyncio.ensure_future(_hold(database, subject))
    try:
        taken = await asyncio.shield(asked)
    except asyncio.CancelledError:
        # The place may have been taken despite the cancellation.
        if taken := await asked:
            await _release(database, subject, taken)
        raise
    if taken is None:
        raise DryRunInProgress(place)
    try:
        yield
    finally:
        await _release(database, subject, taken)


async def _hold(database: Database, subject: limits.Subject) -> datetime | None:
    async with database.connection() as connection:
        return await limits.hold(connection, subject, _LEASE_SECONDS)


async def _release(database: Database, subject: limits.Subject, taken: datetime) -> None:
    async with database.connection() as connection:
        await limits.release(connection, subject, taken)


@dataclass(frozen=True)
class DryRunInput:
    """The inputs of a dry run.

    Attributes:
        payload: the `trigger` of the run's expressions.
        request: the `request` of the expressions, from `language.triggers.readable_request`.
        mocks: outputs by step, see `check_mocks`.
        secrets: the names of the account's secrets.
    """

    payload: JSON
    request: JSONObject | None
    mocks: JSONObject
    secrets: Collection[str]


@dataclass(frozen=True)
class DryRunResources:
    """The resources outside their process that dry runs use.

    Attributes:
        lookups: answers from the data of this service.
        database: holds the workflows that steps run.
        allowed: the private networks that webhook steps may reach.
    """

    lookups: Lookups
    database: Database
    allowed: Networks


def check_mocks(steps: Sequence[JSONObject], mocks: JSONObject) -> None:
    """Check that each mock is a possible outcome of its step.

    Raises:
        Invalid: a step does not exist, or accepts no such mock; each at `/mocks/<step>`.
    """
    known = {step["id"]: step for step in steps}
    errors: list[FieldError] = []
    for name, mock in mocks.items():
        pointer, step = pointer_of(["mocks", name]), known.get(name)
        if step is None:
            message = f"The workflow has no such step.{suggestion(name, known)}"
            errors.append(FieldError(pointer, "unknown_step", message))
        elif step["type"] == "delay":
            errors.append(FieldError(pointer, "not_allowed", "A delay takes no mock: it passes at once."))
        elif step["type"] == "condition" and not _is_decision(mock):
            message = 'The mock of a condition is {"result": true} or {"result": false}.'
            errors.append(FieldError(pointer, "wrong_type", message))
        elif step.get("for_each") is not None and not isinstance(mock, list):
            message = "The mock of a step with for_each is the array of all its outputs."
            errors.append(FieldError(pointer, "wrong_type", message))
    if errors:
        raise Invalid(errors)


def _is_decision(mock: Any) -> bool:
    # 1 equals True in Python, but is another JSON value.
    return mock in ({"result": True}, {"result": False}) and isinstance(mock["result"], bool)


async def do_dry_run(
    pool: ProcessPool,
    outside: DryRunResources,
    account_id: UUID,
    workflow: WorkflowView,
    definition: JSONObject,
    given: DryRunInput,
) -> RunView:
    """Do a dry run.

    Args:
        pool: runs it.
        outside: the resources that it uses.
        account_id: the owner of the workflow.
        workflow: the workflow.
        definition: what to run.
        given: the inputs.

    Raises:
        Invalid: the workflow accepts no such input, or a step no such mock.
        PoolBusy, WorkLost: it was not started in time, or its process ended.
    """
    check_mocks(definition["steps"], given.mocks)
    size = len(orjson.dumps(given.payload))
    if given.request is not None:
        size += len(orjson.dumps(given.request))
    run = RunInput(new_id(), datetime.now(UTC), trigger=given.payload, request=given.request, size=size)
    described = {"id": str(workflow.id), "name": definition["name"]}
    task = _Task(
        definition, run, described, workflow.input_schema, list(given.secrets), given.mocks, outside.allowed
    )
    done = await pool.run(account_id, partial(_answer, outside, account_id), _result, task)
    if isinstance(done, list):
        raise Invalid(done)
    return _view(workflow, definition, run, done, given.mocks)


@dataclass(frozen=True, slots=True)
class _Task:
    """The input of a dry run in a process of the pool; `workflow` is its value in expressions."""

    definition: JSONObject
    run: RunInput
    workflow: JSONObject
    input_schema: JSONObject | None
    secrets: list[str]
    mocks: JSONObject
    allowed: Networks


def _result(ask: Ask, task: _Task) -> DryRunResult | list[FieldError]:
    """Do the dry run in a process of the pool; return its result, or the errors of its input."""
    if task.input_schema is not None:
        try:
            InputSchema(task.input_schema).check(task.run.trigger, "/input", task.run.size)
        except Invalid as invalid:
            return invalid.errors

    def look_up(step: LookupStep, text: str) -> JSON | StepError:
        return ask((step, text))

    def refuse_child(step: WorkflowStep, given: JSON) -> StepError | None:
        found: InputSchema | StepError | None = ask(step.config.workflow_id)
        if not isinstance(found, InputSchema):
            return found
        try:
            found.check(given, "", len(orjson.dumps(given)))
        except Invalid as invalid:
            first = invalid.errors[0]
            message = f"The workflow does not take this input: {first.pointer or '/'}: {first.message}"
            return StepError(code="invalid_input", message=message)
        return None

    refuse_request = partial(_refuse_request, task.allowed)
    answers = OutsideAnswers(look_up, task.secrets, task.mocks, refuse_request, refuse_child)
    definition = Definition.model_validate(task.definition)
    return DryRun(definition, task.run, task.workflow, answers, lambda: datetime.now(UTC)).run()


def _refuse_request(allowed: Networks, request: Request) -> StepError | None:
    """Check a request as the guard does, without resolving names; values with secrets are unknown here."""
    try:
        if MASK not in request.url:
            parse_url(request.url, allowed)
        check_headers({name: text for name, text in request.headers.items() if isinstance(text, str)})
    except OutboundError as error:
        return StepError(code=error.code, message=str(error))
    return None


async def _answer(
    outside: DryRunResources, account_id: UUID, asked: UUID | tuple[LookupStep, str]
) -> JSON | StepError | InputSchema:
    """Return the answer of a lookup, or the input schema of a workflow, or the error that stops it."""
    if not isinstance(asked, UUID):
        return await _look_up(outside.lookups, asked)
    try:
        async with outside.database.connection() as connection:
            target = await run_targets.event_target(connection, account_id, asked)
    except NotFound:
        return StepError(code="workflow_not_found", message="There is no such workflow any more.")
    except Conflict as error:
        return StepError(code=error.code, message=error.message)
    return target.spec.input_schema


async def _look_up(lookups: Lookups, asked: tuple[LookupStep, str]) -> JSON | StepError:
    """Look up as the activity does."""
    step, text = asked
    try:
        result = await lookups.dry_run(
            step.kind, text, pointer=step.config.pointer, fields=step.config.fields
        )
    except DomainError as error:
        return StepError(code=error.code, message=error.message)
    answer = result.answer(shown="failed", fields=step.config.fields)
    if any(source.spec.name == samples.NAME for source, _ in result.outcomes):
        answer["sample"] = True
    return cut_results(answer, SHOWN) if step.kind == "websearch" else answer


def _view(
    workflow: WorkflowView, definition: JSONObject, run: RunInput, result: DryRunResult, mocks: JSONObject
) -> RunView:
    """Return the run object, built like that of a stored run."""
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
        "parent_run_id": None,
        "started_at": run.started_at,
        "completed_at": datetime.now(UTC),
        "definition_steps": definition["steps"],
    }
    rows = [
        {
            **record._asdict(),
            "error": record.error and record.error.model_dump(exclude_none=True),
            "mocked": record.step_id in mocks and record.status == "completed",
        }
        for record in done
    ]
    return view_of(shown, rows, test=True)
