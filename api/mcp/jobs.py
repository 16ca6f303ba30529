"""Tools of bulk jobs: start one, see its progress, read its rows."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from mcp.types import CallToolResult
from pydantic import Field

from api.mcp.answers import make_result, schema, schema_of
from api.mcp.calling import Ctx, InternalClient, in_path
from api.mcp.toolbox import Full, Key, Seconds, Toolbox
from api.streams.job_events import watch
from models.jobs.jobs import JobType, JobView

toolbox = Toolbox()

JobId = Annotated[str, Field(description="The job's id, from start_bulk_job.")]

_JOB = schema_of(JobView)


@toolbox.tool("Start a bulk job", _JOB, outside=True)
async def start_bulk_job(
    type: Annotated[JobType, Field(description="The kind of lookup that is done for each target.")],
    targets: Annotated[list[str], Field(description="Up to 10,000 targets.")],
    ctx: Ctx,
    name: Annotated[str | None, Field(description="What the job is called.")] = None,
    fields: Annotated[
        list[str] | None, Field(description="Only these fields are looked up, such as location.city.")
    ] = None,
    idempotency_key: Key = None,
) -> CallToolResult:
    """Look up many targets in the background; get_bulk_job then reports the progress.

    A target costs as much as its lookup, repeats cost nothing. Credits are held at the start, and unused ones
    are returned.
    """
    body: dict[str, Any] = {"type": type, "targets": targets}
    body |= {key: value for key, value in {"name": name, "fields": fields}.items() if value is not None}
    return make_result(await InternalClient(ctx).post("/api/bulk-jobs", body, key=idempotency_key))


@toolbox.tool("See how far a bulk job is", _JOB, reads=True)
async def get_bulk_job(job_id: JobId, ctx: Ctx, wait_seconds: Seconds = 0) -> CallToolResult:
    """Get the progress of a bulk job, its cost so far, and the time it will take."""
    client, path = InternalClient(ctx), f"/api/bulk-jobs/{in_path(job_id)}"
    first = await client.get(path)
    total = max(first["total_rows"], 1)

    def count_done(job: JobView) -> int:
        return total if job.completed_at else min(job.processed_rows, total - 1)

    if not wait_seconds or first["completed_at"]:
        return make_result(first)
    with client.waiting(wait_seconds):
        await client.follow(
            watch(client.services, client.account_id, UUID(first["id"])), count_done, total, wait_seconds
        )
    return make_result(await client.get(path))


@toolbox.tool(
    "Read the rows of a bulk job",
    schema(
        job=_JOB,
        rows={
            "type": "array",
            "items": {"type": "object"},
            "description": "The target, `error` if it was none, and the fields found, by dotted name.",
        },
    ),
    reads=True,
)
async def get_bulk_job_results(
    job_id: JobId,
    ctx: Ctx,
    limit: Annotated[int, Field(ge=1, le=100, description="How many rows to give at most.")] = 10,
    offset: Annotated[int, Field(ge=0, le=10_000, description="How many rows to leave out.")] = 0,
    full: Full = False,
) -> CallToolResult:
    """Read the rows of a bulk job that has ended, in the order of its targets."""
    client, path = InternalClient(ctx), f"/api/bulk-jobs/{in_path(job_id)}"
    rows = await client.get(f"{path}/results", format="jsonl", limit=limit, offset=offset)
    found = {"job": await client.get(path), "rows": rows}
    hint = "use a smaller `limit` and `offset`, or set `full`"
    return make_result(found, full=full, hint=hint, untrusted=["rows"])


@toolbox.tool("Cancel a bulk job", _JOB, destroys=True, repeatable=True)
async def cancel_bulk_job(job_id: JobId, ctx: Ctx) -> CallToolResult:
    """End a bulk job now. Finished rows stay, and are paid; what was held for the rest is returned."""
    return make_result(await InternalClient(ctx).post(f"/api/bulk-jobs/{in_path(job_id)}/cancel"))
