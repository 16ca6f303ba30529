"""Batches: CSV files that are sent to workflows, whose rows become runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field

from api.deps import Caller, Id, ServicesDep, actor, require_scope
from api.http import multipart
from api.http.idempotency import Idempotent, claim_of
from api.http.json_body import StrictRequest
from api.http.limits import limit_requests
from api.http.multipart import Form, reading
from api.http.openapi import problems
from api.http.strict_route import StrictRoute
from api.problems import Problem
from api.routes.runs import CHECKED, cancel_all
from language.findings import pointer_of
from models.automations import run_targets
from models.errors import FieldError, Invalid
from models.identifiers import new_id
from models.runs import uploads
from models.runs.runs import QUEUED_CHANNEL
from models.runs.uploads import UploadStatus, UploadView
from services.disk_buffer import buffer_to_disk
from services.workflow_files import read_inputs

router = APIRouter(prefix="/api/workflows", tags=["triggers"], route_class=StrictRoute)

Author = Annotated[Caller, require_scope("workflows")]

_LONGEST_FILENAME = 255
_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        multipart.FILE: {
            "type": "string", "contentMediaType": "text/csv", "title": "File",
            "description": "A CSV file with a header: at most 10,000 rows, 200 columns and 20 MiB, in UTF-8.",
        }
    },
    "required": [multipart.FILE],
    "examples": [{multipart.FILE: "email,name\nada@example.com,Ada\n"}],
}  # fmt: skip
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            multipart.MEDIA_TYPE: {"schema": _FORM, "encoding": {multipart.FILE: {"contentType": "text/csv"}}}
        },
    }
}


class BatchAccepted(BaseModel):
    """The answer to a file that became runs."""

    batch_id: UUID = Field(description="The id of the batch that they are.")
    runs_total: int = Field(description="How many runs it has.")
    status: UploadStatus = Field(description="Where it stands.")


async def _form(request: Request) -> AsyncGenerator[Form]:
    """Read the form; its file exists until the request has its answer."""
    assert isinstance(request, StrictRequest)
    if request.media_type != multipart.MEDIA_TYPE:
        raise Problem(415, "unsupported_media_type", "Send a form with a file: multipart/form-data.")
    async with reading(request) as form:
        if form.fields:
            message = f"There is no such field here. Fields are: {multipart.FILE}."
            raise Invalid([FieldError(pointer_of([name]), "unknown_field", message) for name in form.fields])
        yield form


@router.post(
    "/{workflow_id}/upload",
    status_code=202,
    dependencies=[limit_requests("bulk"), Idempotent],
    openapi_extra=_BODY,
    responses=problems(
        "workflow_not_active", "no_file_upload_trigger", "rate_limited", "too_many_runs", *CHECKED
    ),
)
async def upload_file(
    workflow_id: Id,
    request: Request,
    caller: Author,
    form: Annotated[Form, Depends(_form)],
    services: ServicesDep,
    response: Response,
) -> BatchAccepted:
    """Start a run for each row of a CSV file, or one for the file, as the workflow's trigger defines.

    Either all rows are accepted or none: each must match the workflow's `input_schema`. Follow the batch at
    the `Location`.
    """
    async with services.database.connection() as connection:
        target = await run_targets.event_target(connection, caller.account_id, workflow_id)
    # A repeat after a crash has the same claim, and finds this batch.
    claim = claim_of(request)
    upload_id = claim.id if claim else new_id()
    filename = form.filename and form.filename[:_LONGEST_FILENAME]
    inputs = read_inputs(services.pool, services.event_checks, target, filename, form.chunks())
    async with buffer_to_disk(inputs) as batches, services.inserting() as connection:
        await uploads.accept(
            connection, actor(request, caller), upload_id, target, batches, services.unfinished_runs
        )
    services.notifier.notify(QUEUED_CHANNEL)
    async with services.database.connection() as connection:
        view = await uploads.get(connection, caller.account_id, upload_id)
    response.headers["Location"] = f"/api/workflows/batches/{upload_id}"
    return BatchAccepted(batch_id=view.id, runs_total=view.runs_total, status=view.status)


@router.get("/batches/{batch_id}")
async def get_batch(batch_id: Id, caller: Author, services: ServicesDep) -> UploadView:
    """Get the progress of a file's runs."""
    async with services.database.connection() as connection:
        return await uploads.get(connection, caller.account_id, batch_id)


@router.post("/batches/{batch_id}/cancel")
async def cancel_batch(batch_id: Id, request: Request, caller: Author, services: ServicesDep) -> UploadView:
    """End all unfinished runs of the batch; finished ones stay as they are."""
    by = actor(request, caller)
    async with services.database.transaction() as connection:
        workflow_id = await uploads.note_cancel(connection, by, batch_id)
    await cancel_all(services, by, workflow_id, batch_id)
    async with services.database.connection() as connection:
        return await uploads.get(connection, caller.account_id, batch_id)
