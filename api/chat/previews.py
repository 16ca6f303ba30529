"""Previews of the assistant's calls for their cards: made by the service, never by the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast

from mcp.server.mcpserver.exceptions import ToolError

from api.mcp.calling import InternalClient, in_path
from api.mcp.monitors import GivenMonitor
from language.definition import Definition

_SHOWN_STEPS = 50


async def preview_call(client: InternalClient, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a call would do: of a workflow its graph, its changes and a dry run; of a monitor its pace.

    `errors` has what would make the call fail.
    """
    try:
        match name:
            case "create_workflow":
                return await _preview_workflow(client, {}, dict(arguments.get("definition") or {}), arguments)
            case "update_workflow":
                workflow = await client.get(f"/api/workflows/{in_path(str(arguments.get('workflow_id')))}")
                before = {field: workflow[field] for field in Definition.model_fields if field in workflow}
                changes = cast(dict[str, Any], arguments.get("changes") or {})
                shown = await _preview_workflow(client, before, {**before, **changes}, arguments)
                return {"workflow": workflow["name"], **shown}
            case "create_monitor":
                return await _preview_monitor(client, arguments)
            case _:
                return {}
    except ToolError as refused:
        return {"errors": [str(refused)]}


async def _preview_workflow(
    client: InternalClient, before: dict[str, Any], after: dict[str, Any], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    diff = [
        {"field": field, "old": before.get(field), "new": after.get(field)}
        for field in {**before, **after}
        if before.get(field) != after.get(field)
    ]
    if arguments.get("template_id") is not None:
        return {"template_id": arguments["template_id"], "diff": diff}
    verdict = await client.post("/api/workflows/validate", after)
    shown = {
        "diff": diff, "graph": verdict["graph"], "next_runs": verdict["next_runs"],
        "errors": [f"{one['pointer']}: {one['message']}" for one in verdict["errors"]],
        "warnings": [one["message"] for one in verdict["warnings"]],
    }  # fmt: skip
    if verdict["valid"]:
        shown["dry_run"] = await _try_on_last_event(client, after, arguments.get("workflow_id"))
    return shown


async def _try_on_last_event(
    client: InternalClient, document: dict[str, Any], workflow_id: str | None
) -> dict[str, Any] | None:
    """Return what the steps would do with the last event of this workflow, or its kind; None without."""
    kind = document.get("trigger", {}).get("type", "manual") if workflow_id is None else None
    runs = (await client.get("/api/workflows/runs", limit=1, workflow_id=workflow_id, trigger=kind))["runs"]
    if not runs:
        return None
    [run] = runs
    try:
        event = await client.get(f"/api/workflows/runs/{run['id']}/input")
        path = f"/api/workflows/{run['workflow_id']}/test"
        done = await client.post(path, {"input": event, "steps": document.get("steps", [])})
    except ToolError as refused:
        return {"run_id": run["id"], "error": str(refused)}
    steps = [
        {"id": step["id"], "status": step["status"], "output": step["output"], "error": step["error"]}
        for step in done["steps"][:_SHOWN_STEPS]
    ]
    return {"run_id": run["id"], "status": done["status"], "steps": steps}


async def _preview_monitor(client: InternalClient, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a monitor would cost a run, and when it would run."""
    given: dict[str, Any] = {field.name: arguments.get(field.name) for field in fields(GivenMonitor)}
    given["timezone"] = given["timezone"] or "UTC"
    body = GivenMonitor(**given).make_body()
    verdict = await client.post("/api/monitors/validate", body)
    targets = len(cast(list[Any], arguments.get("targets") or []))
    if list_id := arguments.get("list_id"):
        targets = (await client.get(f"/api/lists/{in_path(str(list_id))}"))["target_count"]
    return {
        "targets": targets, "credits_per_run": targets, "next_runs": verdict["next_runs"],
        "errors": [f"{one['pointer']}: {one['message']}" for one in verdict["errors"]],
        "warnings": [one["message"] for one in verdict["warnings"]],
    }  # fmt: skip
