"""Tools of workflows: templates, validating, making and changing them. `agents: false` hides one."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from typing import Annotated, Any, Literal, cast

import orjson
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult
from pydantic import Field

from api.mcp.answers import MAX_BYTES, make_result, schema, schema_of
from api.mcp.calling import Ctx, InternalClient, in_path
from api.mcp.definition_schema import definition_members, without_texts
from api.mcp.toolbox import DELETED, Deleted, Full, Toolbox
from api.routes.workflows import Validity
from language.definition import Status
from models.automations.automation_views import WorkflowView
from models.automations.templates import Category, Template
from models.identifiers import parse_id

toolbox = Toolbox()

WorkflowId = Annotated[str, Field(description="The workflow's id, from list_workflows or create_workflow.")]
Definition = Annotated[
    dict[str, Any], Field(description="The workflow, of the schema that create_workflow has for it.")
]

_WORKFLOW = schema_of(WorkflowView)
# Members that only change with time, or grant access: useful to programs alone.
_LEFT_OUT = frozenset({"next_runs", "resume_urls"})
# Replaces the id of a hidden workflow where only its account could know it.
_NOBODYS = "00000000-0000-0000-0000-000000000000"


async def visible(client: InternalClient, workflow_id: str) -> dict[str, Any]:
    """Return the workflow.

    Raises:
        Refused: it does not exist, or is hidden from agents, with the same text.
    """
    workflow = await client.get(f"/api/workflows/{in_path(workflow_id)}")
    return workflow if workflow["agents"] else await client.get("/api/workflows/none")


async def _check_references(client: InternalClient, document: dict[str, Any], before: dict[str, Any]) -> None:
    """Check that a definition adds no reference to a hidden workflow.

    Raises:
        ToolError: it does.
    """
    known = {holder["workflow_id"] for _, holder in _references(before)}
    for place, holder in _references(document):
        if holder["workflow_id"] not in known:
            try:
                await visible(client, holder["workflow_id"])
            except ToolError as refused:
                raise ToolError(f"unknown_workflow: {place}: {refused}") from None


def _references(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the workflow references in a definition of any shape: the place and the referring object."""
    steps = document.get("steps")
    found: list[tuple[str, Any]] = [("on_failure.workflow_id", document.get("on_failure"))]
    for number, step in enumerate(cast(list[Any], steps) if isinstance(steps, list) else []):
        if isinstance(step, dict) and cast(dict[str, Any], step).get("type") == "workflow":
            found.append((f"steps[{number}].config.workflow_id", cast(dict[str, Any], step).get("config")))
    holders = [(place, cast(dict[str, Any], one)) for place, one in found if isinstance(one, dict)]
    return [(place, holder) for place, holder in holders if isinstance(holder.get("workflow_id"), str)]


async def _hide_references(client: InternalClient, document: dict[str, Any]) -> None:
    """Replace references to hidden workflows, and references by name, by an id of no workflow.

    A name may be that of a hidden workflow, so agents must use ids.
    """
    for _, holder in _references(document):
        hidden = parse_id(holder["workflow_id"]) is None
        with suppress(ToolError):
            hidden = (
                hidden or not (await client.get(f"/api/workflows/{in_path(holder['workflow_id'])}"))["agents"]
            )
        if hidden:
            holder["workflow_id"] = _NOBODYS


def _show_workflow(workflow: dict[str, Any], *, full: bool = False) -> CallToolResult:
    """Return a workflow.

    Empty members of its steps are kept, because they have a meaning in the next change.
    """
    shown = {name: value for name, value in workflow.items() if name not in _LEFT_OUT}
    fits = len(orjson.dumps(shown)) <= MAX_BYTES
    return make_result(shown, full=full or fits, hint="set `full` in get_workflow")


@toolbox.tool(
    "List workflow templates",
    schema(templates={"type": "array", "items": schema_of(Template)}),
    reads=True,
)
async def list_workflow_templates(
    ctx: Ctx,
    category: Annotated[Category | None, Field(description="Only those of this category.")] = None,
    template_id: Annotated[
        str | None, Field(description="Only this one, with its whole trigger and steps.")
    ] = None,
) -> CallToolResult:
    """List workflows to begin with: create_workflow with a template_id copies one.

    Their descriptions name the secrets they need and the parts to change.
    """
    found: list[dict[str, Any]] = (
        await InternalClient(ctx).get("/api/workflows/templates", category=category)
    )["templates"]
    if template_id is not None:
        chosen = [template for template in found if template["id"] == template_id]
        if not chosen:
            ids = ", ".join(template["id"] for template in found)
            raise ToolError(f"not_found: There is no template {template_id[:100]!r}.\nThere are: {ids}")
        return make_result({"templates": chosen}, full=True)
    heads = ("id", "name", "description", "category")
    shown = [{name: template[name] for name in heads} for template in found]
    return make_result({"templates": shown}, hint="name a `category` or a `template_id`")


@toolbox.tool("Validate a workflow", schema_of(Validity), reads=True)
async def validate_workflow(definition: Definition, ctx: Ctx) -> CallToolResult:
    """Report all errors and doubts in a workflow, and store nothing. Do this before you store it."""
    client, document = InternalClient(ctx), deepcopy(definition)
    await _hide_references(client, document)
    return make_result(await client.post("/api/workflows/validate", document))


@toolbox.tool(
    "List workflows",
    schema(
        workflows={"type": "array", "items": _WORKFLOW},
        total={"type": "integer", "description": "How many there are in all."},
    ),
    reads=True,
)
async def list_workflows(
    ctx: Ctx,
    status: Annotated[Status | None, Field(description="Only those with this status.")] = None,
    page: Annotated[int, Field(ge=1, le=100_000, description="The number of the page.")] = 1,
    limit: Annotated[int, Field(ge=1, le=100, description="How many to give at most.")] = 20,
) -> CallToolResult:
    """List the account's workflows, newest first: ids, names, status, triggers, number of runs."""
    found = await InternalClient(ctx).get(
        "/api/workflows", status=status, page=page, limit=limit, agents=True
    )
    heads = ("id", "name", "description", "status", "version", "runs_total", "last_run_at", "next_run_at")
    shown = [
        {name: one[name] for name in heads if name in one}
        | {
            "trigger": {"type": one["trigger"]["type"]},
            "steps": [{"type": step["type"]} for step in one["steps"]],
        }
        for one in found["workflows"]
    ]
    return make_result({"workflows": shown, "total": found["total"]}, hint="use a smaller `limit` and `page`")


@toolbox.tool("Get a workflow", _WORKFLOW, reads=True)
async def get_workflow(workflow_id: WorkflowId, ctx: Ctx, full: Full = False) -> CallToolResult:
    """Get a workflow with its trigger, steps and version. update_workflow needs the version."""
    return _show_workflow(await visible(InternalClient(ctx), workflow_id), full=full)


@toolbox.tool("Create a workflow", _WORKFLOW)
async def create_workflow(
    ctx: Ctx,
    definition: Annotated[
        dict[str, Any] | None,
        Field(
            description='Such as {"name": "…", "steps": [{"id": "look", "type": "ip_lookup", "config":'
            ' {"field": "trigger.ip"}}]}; search_docs explains triggers, steps and expressions, templates'
            " show them. With template_id only what is to differ from the template.",
            json_schema_extra={"properties": definition_members()},
        ),
    ] = None,
    template_id: Annotated[str | None, Field(description="A template to copy.")] = None,
) -> CallToolResult:
    """Store a workflow, from a definition or as a copy of a template.

    It is active at once, unless its status is draft or it lacks a secret: `warnings` report that. Anyone with
    its `webhook_url` can start it. Steps cannot read run.resume_urls: people find them in the run.
    """
    client, document = InternalClient(ctx), dict(definition or {})
    await _check_references(client, document, {})
    if template_id is not None:
        document["template_id"] = template_id
    return _show_workflow(await client.post("/api/workflows", document))


@toolbox.tool("Change a workflow", _WORKFLOW, destroys=True)
async def update_workflow(
    workflow_id: WorkflowId,
    base_version: Annotated[
        int,
        Field(
            ge=1, description="The version that the changes are made to. If it has changed since: an error."
        ),
    ],
    changes: Annotated[
        dict[str, Any],
        Field(
            description="The fields to replace, each as a whole; the others stay. create_workflow says what"
            " they mean.",
            json_schema_extra={"properties": without_texts(definition_members())},
        ),
    ],
    ctx: Ctx,
) -> CallToolResult:
    """Change a workflow: a new version. Earlier ones stay, and runs in progress keep theirs.

    If it waits for a person's answer (wait), only the status can be changed.
    """
    client = InternalClient(ctx)
    before = await visible(client, workflow_id)
    await _check_references(client, changes, before)
    return _show_workflow(
        await client.patch(f"/api/workflows/{in_path(workflow_id)}", changes, version=base_version)
    )


@toolbox.tool("Pause or resume a workflow", _WORKFLOW, repeatable=True)
async def set_workflow_status(
    workflow_id: WorkflowId,
    status: Annotated[Literal["active", "paused"], Field(description="paused: it starts no runs.")],
    ctx: Ctx,
) -> CallToolResult:
    """Stop a workflow from starting runs, or allow it again. Runs in progress continue."""
    client = InternalClient(ctx)
    before = await visible(client, workflow_id)
    path = f"/api/workflows/{in_path(workflow_id)}"
    return _show_workflow(await client.patch(path, {"status": status}, version=before["version"]))


@toolbox.tool("Delete a workflow", DELETED, destroys=True, repeatable=True)
async def delete_workflow(workflow_id: WorkflowId, ctx: Ctx) -> CallToolResult:
    """Delete a workflow, for good: its ingest URL is dead at once, runs in progress continue.

    If it waits for a person's answer (wait), only people can delete it. set_workflow_status only pauses.
    """
    client = InternalClient(ctx)
    await visible(client, workflow_id)
    await client.delete(f"/api/workflows/{in_path(workflow_id)}")
    return make_result(Deleted)
