"""The answer 202: a run is accepted, and will be carried out even after a crash."""

from __future__ import annotations

from uuid import UUID

import structlog
from fastapi import Response

import tracing
from api.deps import Services
from models.runs import runs
from models.runs.acceptance import RunAcceptance, RunAccepted


def bind_acceptance(account_id: UUID, accepted: RunAcceptance) -> None:
    """Bind the run to the log and the trace."""
    structlog.contextvars.bind_contextvars(account_id=str(account_id), run_id=str(accepted.run_id))
    tracing.trace_work(tracing.get_origin(), accepted.run_id)


def is_first_acceptance(accepted: RunAcceptance) -> bool:
    """Return whether the end of the run is still to come."""
    return not accepted.repeated and accepted.status == "queued"


async def update_status(services: Services, accepted: RunAcceptance) -> RunAcceptance:
    """Return the acceptance with the run's status of now."""
    async with services.database.connection() as connection:
        status = await runs.get_status(connection, accepted.run_id)
    return accepted.model_copy(update={"status": status or accepted.status})


def view_acceptance(accepted: RunAcceptance) -> RunAccepted:
    """Return the public view of accepted work."""
    message = "Already accepted." if accepted.repeated else "Accepted."
    return RunAccepted(run_id=accepted.run_id, status=accepted.status, message=message)


def accepted_response(body: RunAccepted) -> Response:
    """Return the answer 202."""
    location = f"/api/workflows/runs/{body.run_id}"
    return Response(body.model_dump_json(), 202, {"Location": location}, "application/json")
