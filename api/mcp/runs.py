"""Tools of runs: start one and wait for it, read its results and the reason of a failure."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from mcp.types import CallToolResult
from pydantic import Field

from api.http.catalogue import CATALOGUE
from api.mcp.answers import JSONObject, make_result, schema, schema_of
from api.mcp.calling import Ctx, InternalClient, in_path
from api.mcp.toolbox import Full, Key, Seconds, Toolbox
from api.mcp.workflows import WorkflowId, visible
from api.streams.run_events import SeenRun, watch
from models.runs.run_lists import ListedRun
from models.runs.run_views import RunStatus, RunView

toolbox = Toolbox()

# A larger run would be cut so far that the answer shows next to nothing.
_READ_BYTES = 64 * 1024
_HINT = "set `full` in get_workflow_run"
_WHY: JSONObject = {
    "type": "object",
    "description": "Why it failed: the step, what it was given, the error, and what to do about it.",
    "properties": {
        "step": {"type": "string"},
        "code": {"type": "string"},
        "message": {"type": "string"},
        "what_to_do": {"type": "string"},
    },
}
# Errors may quote a value that an expression has met.
_UNTRUSTED = (
    "why.input", "why.message", "input", "output", "error",
    "steps[].input", "steps[].output", "steps[].error",
)  # fmt: skip
_RUN = schema_of(RunView)
_RUN["properties"]["why"] = _WHY
del _RUN["properties"]["resume_urls"]


def _show_run(run: dict[str, Any], *, full: bool = False) -> CallToolResult:
    """Return a run, with the reason if it failed, but without its resume URLs, which are for people."""
    shown = {name: value for name, value in run.items() if name != "resume_urls"}
    if run["error"] is not None:
        shown = {"why": _why(run), **shown}
    return make_result(shown, full=full, hint=_HINT, untrusted=_UNTRUSTED)


def _why(run: dict[str, Any]) -> JSONObject:
    error = run["error"]
    failed = [step for step in run["steps"] if step["id"] == error.get("step")]
    entry = CATALOGUE.get(error["code"])
    given = {name: failed[0][name] for name in ("type", "input", "attempts")} if failed else {}
    return error | given | ({} if entry is None else {"what_to_do": entry.remedy})


async def _follow_run(client: InternalClient, run_id: str, seconds: float, *, full: bool = False) -> Any:
    """Return the run once it has ended, or as it is after this many seconds."""
    path = f"/api/workflows/runs/{in_path(run_id)}"
    first = await client.get(path, max_bytes=0)
    total = first["steps_total"] + 1

    def count_done(seen: SeenRun) -> int:
        run = seen.view
        return total if run.completed_at else min(run.steps_completed, total - 1)

    if seconds and not first["completed_at"]:
        watched = watch(client.services, client.account_id, UUID(first["id"]))
        await client.follow(watched, count_done, total, seconds)
    return await client.get(path, max_bytes=None if full else _READ_BYTES)


@toolbox.tool("Run a workflow", _RUN, destroys=True, outside=True)
async def run_workflow(
    workflow_id: WorkflowId,
    ctx: Ctx,
    input: Annotated[Any, Field(description="Any JSON: what expressions read as `trigger`.")] = None,
    wait_seconds: Seconds = 30,
    idempotency_key: Key = None,
) -> CallToolResult:
    """Start a run of an active workflow and wait for its end.

    It carries out its steps: sends requests, spends credits. If it has not ended in time it continues, and
    get_workflow_run has its end.
    """
    client = InternalClient(ctx)
    await visible(client, workflow_id)
    path = f"/api/workflows/{in_path(workflow_id)}/run"
    with client.waiting(wait_seconds):
        accepted = await client.post(path, {"input": input}, key=idempotency_key)
        return _show_run(await _follow_run(client, accepted["run_id"], wait_seconds))


@toolbox.tool(
    "List the runs of a workflow",
    schema(
        runs={"type": "array", "items": schema_of(ListedRun)},
        total={"type": "integer"},
    ),
    reads=True,
)
async def list_workflow_runs(
    workflow_id: WorkflowId,
    ctx: Ctx,
    status: Annotated[RunStatus | None, Field(description="Only those with this status.")] = None,
    page: Annotated[int, Field(ge=1, le=100_000, description="The number of the page.")] = 1,
    limit: Annotated[int, Field(ge=1, le=100, description="How many to give at most.")] = 10,
) -> CallToolResult:
    """List the runs of a workflow, newest first, with the reasons of failures."""
    client = InternalClient(ctx)
    await visible(client, workflow_id)
    found = await client.get(
        "/api/workflows/runs", workflow_id=workflow_id, status=status, page=page, limit=limit
    )
    shown = {"runs": found["runs"], "total": found["total"]}
    return make_result(shown, hint="use a smaller `limit` and `page`", untrusted=["runs[].error"])


@toolbox.tool("Get a run", _RUN, reads=True)
async def get_workflow_run(
    run_id: Annotated[str, Field(description="The run's id, from run_workflow or list_workflow_runs.")],
    ctx: Ctx,
    wait_seconds: Seconds = 0,
    full: Full = False,
) -> CallToolResult:
    """Get a run: its status, each step's input and output, and `why` it failed with the remedy."""
    client = InternalClient(ctx)
    run = await client.get(f"/api/workflows/runs/{in_path(run_id)}", max_bytes=0)
    await visible(client, run["workflow_id"])
    with client.waiting(wait_seconds):
        return _show_run(await _follow_run(client, run_id, wait_seconds, full=full), full=full)


@toolbox.tool("Retry a run", _RUN, destroys=True, outside=True)
async def retry_workflow_run(
    run_id: Annotated[str, Field(description="Of a run that failed or was cancelled.")],
    ctx: Ctx,
    version: Annotated[
        int | None,
        Field(ge=1, description="The version to go on with, such as the mended one; else its own."),
    ] = None,
    wait_seconds: Seconds = 30,
    idempotency_key: Key = None,
) -> CallToolResult:
    """Repeat the failed part of a run, as a new run that reuses the finished part, and wait for its end.

    Prefer this to a new run after fixing a workflow: finished steps do not remember, send or pay again.
    """
    client, path = InternalClient(ctx), f"/api/workflows/runs/{in_path(run_id)}"
    await visible(client, (await client.get(path, max_bytes=0))["workflow_id"])
    body = {} if version is None else {"version": version}
    with client.waiting(wait_seconds):
        accepted = await client.post(f"{path}/retry", body, key=idempotency_key)
        return _show_run(await _follow_run(client, accepted["run_id"], wait_seconds))


@toolbox.tool("Cancel a run", _RUN, destroys=True, repeatable=True)
async def cancel_workflow_run(
    run_id: Annotated[str, Field(description="The run's id, from run_workflow or list_workflow_runs.")],
    ctx: Ctx,
) -> CallToolResult:
    """End a run of a workflow now. Finished steps stay done; a run that has ended stays as it is."""
    client, path = InternalClient(ctx), f"/api/workflows/runs/{in_path(run_id)}"
    await visible(client, (await client.get(path, max_bytes=0))["workflow_id"])
    return _show_run(await client.post(f"{path}/cancel"))
