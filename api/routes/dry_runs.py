"""Dry runs of workflows: a preview of a run."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field, PlainValidator

from api import saving
from api.deps import Caller, EndsWithClient, Id, Services, ServicesDep, require_scope, rules_for
from api.http.openapi import problems
from api.http.strict_route import StrictRoute
from api.http.validation import Body
from language.definition import Definition
from language.steps import MAX_STEPS, Step
from language.triggers import readable_request
from models.accounts import secrets
from models.automations import automation_views
from models.automations.automation_views import WorkflowView
from models.runs.run_views import RunView
from services.checking import SubmittedWorkflow
from services.dry_runs import DryRunInput, DryRunResources, do_dry_run, only_one

router = APIRouter(prefix="/api/workflows", tags=["workflows"], route_class=StrictRoute)


def _unread(steps: Any) -> Any:
    return steps


class DryRunRequest(Body):
    """The request to the webhook trigger in a dry run."""

    headers: dict[str, str] = Field(
        default_factory=dict[str, str],
        max_length=100,
        description="Names and values; credentials are dropped.",
    )
    query: dict[str, str] = Field(
        default_factory=dict[str, str], max_length=100, description="Names and values of the query."
    )


class DryRunBody(Body):
    """The inputs of a dry run; `steps` replace the workflow's own, and are checked like them."""

    input: Any = Field(None, description="Any JSON: the `trigger` of the workflow's expressions.")
    steps: Annotated[Any, PlainValidator(_unread, json_schema_input_type=list[Step])] = Field(
        None, description="Steps to try instead of the workflow's own."
    )
    mocks: dict[str, Any] = Field(
        default_factory=dict[str, Any],
        max_length=MAX_STEPS,
        description="Outputs by step, in the place of what these steps would come to: of a condition"
        ' `{"result": true}` or `{"result": false}`, of a step with `for_each` the array of all outputs.',
    )
    request: DryRunRequest | None = Field(None, description="What expressions read as `request`.")


@router.post(
    "/{workflow_id}/test",
    dependencies=[EndsWithClient],
    responses=problems("dry_run_in_progress", *saving.POOLED),
)
async def test_workflow(
    workflow_id: Id,
    body: DryRunBody,
    caller: Annotated[Caller, require_scope("workflows")],
    services: ServicesDep,
) -> RunView:
    """Preview a run. Nothing is stored, sent or charged, and delays pass at once.

    Expressions, templates and branches are those of a real run, and so are the failures that can be detected
    without contacting anyone. Requests are rendered, with `***` for secrets, and answered by a sample.
    Lookups are answered from the data of this service; the fields of further sources that are set up are made
    up. Made-up parts are marked `sample: true`, and a step whose output is a mock `mocked: true`.

    An account has one at a time. A run that is too large for a dry run fails with `dry_run_too_large`.
    """
    async with services.database.connection() as connection:
        workflow = await automation_views.get(
            connection, services.keyring, caller.account_id, workflow_id, services.settings.address
        )
        names = await secrets.list_names(connection, caller.account_id)
    given = DryRunInput(body.input, _readable(workflow, body.request), body.mocks, names)
    outside = DryRunResources(services.lookups, services.database, services.settings.allow_private_networks)
    async with only_one(services.database, caller.account_id):
        definition = await _definition(services, caller, workflow, body.steps)
        return await do_dry_run(services.pool, outside, caller.account_id, workflow, definition, given)


def _readable(workflow: WorkflowView, request: DryRunRequest | None) -> dict[str, Any] | None:
    """Return the part of a request to the workflow's trigger that expressions read."""
    if request is None:
        return None
    trigger = Definition.model_validate({"name": workflow.name, "trigger": workflow.trigger}).trigger
    return readable_request(trigger, request.headers.items(), request.query)


async def _definition(
    services: Services, caller: Caller, workflow: WorkflowView, steps: Any
) -> dict[str, Any]:
    """Return the definition to run: the workflow's, with other steps if there are any."""
    definition = {"name": workflow.name, "trigger": workflow.trigger, "steps": workflow.steps}
    if steps is None:
        return definition
    document = {**definition, "steps": steps, "status": "draft"}
    submitted = SubmittedWorkflow(caller.account_id, document, workflow.id)
    checked = await saving.check(services, submitted, rules_for(services, caller))
    return checked.definition.model_dump(mode="json", exclude_unset=True)
