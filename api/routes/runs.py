"""Runs: what a workflow did with one event."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

import structlog
from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from temporalio.service import RPCError

import logs
from api.deps import Caller, Id, Services, ServicesDep, authorised
from api.json_body import StrictRoute
from api.openapi import problems
from models import runs
from models.runs import QUEUED_CHANNEL, Accepted, RunAccepted, RunView
from workflows.automations import AutomationBatch

_log = logs.get(__name__)
# How long the answer to a cancel waits for the end, and the signal for the server.
_CANCEL_SECONDS = 2

router = APIRouter(prefix="/api/workflows/runs", tags=["runs"], route_class=StrictRoute)

FINISHED: dict[int | str, dict[str, Any]] = {
    200: {"model": RunView, "description": "With `wait`: the run, finished."}
}


@router.get("/{run_id}", responses=problems(404))
async def get_run(
    run_id: Id, caller: Annotated[Caller, authorised("workflows")], services: ServicesDep
) -> RunView:
    """The run: live while it goes on, then as it ended."""
    async with services.database.connection() as connection:
        return await runs.get(connection, caller.account_id, run_id)


@router.post("/{run_id}/cancel", responses=problems(404))
async def cancel_run(
    run_id: Id, caller: Annotated[Caller, authorised("workflows")], services: ServicesDep
) -> RunView:
    """End a run now. One that has ended stays as it is."""
    async with services.database.transaction() as connection:
        batch_id = await runs.cancel(connection, caller.account_id, run_id)
    if batch_id is not None:
        await _tell(services, batch_id, run_id)
        await services.waiter.wait(run_id, _CANCEL_SECONDS)
    async with services.database.connection() as connection:
        return await runs.get(connection, caller.account_id, run_id)


async def _tell(services: Services, batch_id: UUID, run_id: UUID) -> None:
    """Signal the batch. Should that fail, a dispatcher repeats it: the wish is in the row."""
    handle = services.temporal.get_workflow_handle_for(AutomationBatch.run, f"automation/{batch_id}")
    try:
        await handle.signal(
            AutomationBatch.cancel_runs, [run_id], rpc_timeout=timedelta(seconds=_CANCEL_SECONDS)
        )
    except (RPCError, RuntimeError) as error:
        _log.warning("cancel_not_signalled", run_id=str(run_id), error=str(error))


async def answer(services: Services, account_id: UUID, accepted: Accepted, wait: int | None) -> Response:
    """The answer to accepted work: 202 at once, or the finished run if it ends within `wait` seconds."""
    structlog.contextvars.bind_contextvars(account_id=str(account_id), run_id=str(accepted.run_id))
    if not accepted.repeated:
        services.notifier.notify(QUEUED_CHANNEL)
    if wait is not None and await services.waiter.wait(accepted.run_id, wait):
        async with services.database.connection() as connection:
            finished = await runs.get(connection, account_id, accepted.run_id)
        return _json(finished.model_dump(mode="json"), 200)
    message = "Already accepted." if accepted.repeated else "Accepted."
    body = RunAccepted(run_id=accepted.run_id, status="queued", message=message)
    return _json(body.model_dump(mode="json"), 202, {"Location": f"/api/workflows/runs/{accepted.run_id}"})


def _json(content: Any, status: int, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse(content, status, headers)
