"""Bulk jobs: files of targets that are looked up row by row, in the background."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from api.account_stream import AccountStream
from api.deps import Caller, Id, Services, ServicesDep, actor, require_scope
from api.http.cursors import Cursor, Limit, cursor_of_id, id_of
from api.http.idempotency import Idempotent, claim_of
from api.http.limits import limit_requests
from api.http.openapi import problems
from api.http.query import Digits
from api.http.streaming import json_array, json_lines
from api.http.strict_route import StrictRoute
from api.schemas.job_bodies import MAX_JSON_BYTES, MAX_TARGETS, Given, request_body
from api.streams import live_events
from api.streams.job_events import stream
from models.errors import Conflict
from models.identifiers import new_id
from models.jobs import acceptance, completion, jobs, results
from models.jobs.jobs import CHANGED_CHANNEL, PROGRESS_CHANNEL, JobView
from models.jobs.results import Result
from services import pacing
from services.csv_files import write_csv
from services.disk_buffer import buffer_to_disk
from services.jobs import Table

router = APIRouter(prefix="/api/bulk-jobs", tags=["jobs"], route_class=StrictRoute)

Owner = Annotated[Caller, require_scope("bulk")]
Format = Literal["csv", "jsonl", "json"]

_AT_ONCE = 100
_MEDIA_TYPES: dict[Format, str] = {
    "csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl", "json": "application/json",
}  # fmt: skip
_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file.",
        "content": {
            "text/csv": {"schema": {"type": "string"}},
            "application/jsonl": {"schema": {"type": "string", "description": "An object in each line."}},
            "application/json": {"schema": {"type": "array", "items": {"type": "object"}}},
        },
    }
}


class JobPage(BaseModel):
    """Jobs, newest first."""

    jobs: list[JobView] = Field(description="The jobs of this page.")
    next_cursor: str | None = Field(
        description="Pass it as `cursor` for the next page; null on the last one."
    )


@router.post(
    "",
    status_code=202,
    max_body_size=MAX_JSON_BYTES,
    dependencies=[limit_requests("bulk"), Idempotent],
    openapi_extra=request_body(),
    responses=problems("insufficient_credits", "too_many_jobs", "rate_limited", "too_busy", "work_lost"),
)
async def create_job(
    request: Request, caller: Owner, given: Given, services: ServicesDep, response: Response
) -> JobView:
    """Start a job, from a CSV file in a form or from targets in JSON; follow it at the `Location`.

    The greatest cost of its lookups is held, and the unused part is returned at its end. A row costs as much
    as its lookup; repeated targets are looked up once. A row whose cell is not a target fails, and costs
    nothing. JSON may have 4 MiB, the file 20 MiB.
    """
    new, upload = await given.open(services, caller)
    # A repeat after a crash has the same claim, and finds this job.
    claim = claim_of(request)
    job_id = claim.id if claim else new_id()
    async with buffer_to_disk(upload.rows()) as batches, services.inserting() as connection:
        await acceptance.accept(connection, actor(request, caller), job_id, new, batches)
        job = await jobs.get(connection, caller.account_id, job_id)
    services.notifier.notify(CHANGED_CHANNEL)
    response.headers["Location"] = f"/api/bulk-jobs/{job_id}"
    warnings = pacing.warnings_of(services.lookups.select_sources(job.type, job.fields), job)
    return job.model_copy(update={"warnings": warnings or None})


@router.get("")
async def list_jobs(
    caller: Owner, services: ServicesDep, limit: Limit = 20, cursor: Cursor = None
) -> JobPage:
    """List the account's jobs, newest first."""
    before = id_of(cursor)
    async with services.database.connection() as connection:
        page, last = await jobs.list_some(connection, caller.account_id, before=before, limit=limit)
    return JobPage(jobs=page, next_cursor=cursor_of_id(last))


@router.get("/{job_id}")
async def get_job(job_id: Id, caller: Owner, services: ServicesDep) -> JobView:
    """Get the job: its progress, its cost so far, and the time it will take."""
    async with services.database.connection() as connection:
        return await jobs.get(connection, caller.account_id, job_id)


@router.get("/{job_id}/events", response_class=StreamingResponse, responses=live_events.RESPONSES)
async def get_job_events(
    job_id: Id,
    request: Request,
    caller: Owner,
    services: ServicesDep,
    last_event_id: live_events.LastEventId = None,
) -> Response:
    """Get the job as server-sent events, live, until it ends.

    `progress` comes first and whenever the job has progressed, at most a few times a second, with the job
    object; `end` comes last, with the job as it ended. A client that reconnects with `Last-Event-ID` gets
    only new events.
    """
    async with services.database.connection() as connection:
        job = await jobs.get(connection, caller.account_id, job_id)
    return live_events.answer_stream(
        services,
        request,
        caller.account_id,
        last_event_id,
        lambda credential: stream(services, credential, caller.account_id, job_id, last_event_id),
        ended=job.completed_at is not None,
    )


@router.get(
    "/{job_id}/results",
    response_class=StreamingResponse,
    responses={**_FILE, **problems("job_not_finished")},
)
async def download_job_results(
    job_id: Id,
    caller: Owner,
    services: ServicesDep,
    format: Annotated[Format, Query(description="What the file is.")] = "csv",
    limit: Annotated[
        int | None,
        Query(ge=1, le=MAX_TARGETS, description="How many rows to give at most; all without it."),
        Digits,
    ] = None,
    offset: Annotated[
        int, Query(ge=0, le=MAX_TARGETS, description="How many rows to leave out."), Digits
    ] = 0,
) -> Response:
    """Get the rows in their order: the given columns, `error`, `partial`, and the found fields.

    For a cancelled job, these are its finished rows. A CSV file is safe to open in a spreadsheet; in JSON
    each row is an object with the same columns.
    """
    async with services.database.connection() as connection:
        job = await jobs.get_row(connection, caller.account_id, job_id)
        if job["completed_at"] is None:
            raise Conflict("job_not_finished", "The job has not ended; GET …/events tells when it has.")
        end = MAX_TARGETS if limit is None else offset + limit
        first = await results.read_after(
            connection, job_id, after=offset - 1, limit=min(_AT_ONCE, end - offset)
        )
    chunks = _chunks(services, caller.account_id, job_id, first, end)
    content = _write_results(
        format, Table(job["type"], job["header"], job["fields"], job["left_out"]), chunks
    )
    name = f'attachment; filename="bulk-job-{job_id}.{format}"'
    return AccountStream(content, media_type=_MEDIA_TYPES[format], headers={"Content-Disposition": name})


@router.post("/{job_id}/cancel")
async def cancel_job(job_id: Id, request: Request, caller: Owner, services: ServicesDep) -> JobView:
    """End a job now; finished rows stay, and are paid. One that has ended stays as it is."""
    async with services.database.transaction() as connection:
        await completion.cancel(connection, actor(request, caller), job_id)
        job = await jobs.get(connection, caller.account_id, job_id)
    _notify(services, job_id)
    return job


@router.delete("/{job_id}", status_code=204)
async def delete_job(job_id: Id, request: Request, caller: Owner, services: ServicesDep) -> None:
    """Delete a job with its rows and results; an unfinished one is cancelled first."""
    async with services.database.transaction() as connection:
        await completion.delete(connection, actor(request, caller), job_id)
    _notify(services, job_id)


def _notify(services: Services, job_id: UUID) -> None:
    services.notifier.notify(CHANGED_CHANNEL)
    services.notifier.notify(PROGRESS_CHANNEL, str(job_id))


async def _chunks(
    services: Services, account_id: UUID, job_id: UUID, chunk: list[Result], end: int
) -> AsyncGenerator[list[Result]]:
    """Yield the rows from this chunk on, before the position `end`; no connection is held while sending.

    Raises:
        NotFound: the job was deleted meanwhile, so the answer is cut and recognisably incomplete.
    """
    while chunk:
        yield chunk
        async with services.database.connection() as connection:
            last = chunk[-1].position
            left = min(_AT_ONCE, end - 1 - last)
            chunk = await results.read_after(connection, job_id, after=last, limit=left) if left > 0 else []
            if not chunk:
                await jobs.get(connection, account_id, job_id)


def _write_results(
    format: Format, table: Table, chunks: AsyncGenerator[list[Result]]
) -> AsyncGenerator[bytes]:
    if format == "csv":
        return write_csv(table.columns, (table.row(one) async for chunk in chunks for one in chunk))
    items = ([table.item(one) for one in chunk] async for chunk in chunks)
    return json_lines(items) if format == "jsonl" else json_array(items)
