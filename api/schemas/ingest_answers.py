"""The answers for holders of an ingest URL: of a run only its end and its output.

Steps, inputs and costs are visible to the owner alone.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg
from fastapi import Response
from pydantic import Field

import logs
from api.deps import Services
from api.http.large_answers import read_output
from api.schemas.accepted_runs import (
    accepted_response,
    bind_acceptance,
    is_first_acceptance,
    update_status,
    view_acceptance,
)
from language.triggers import WebhookTrigger
from models.automations.run_targets import RunTarget
from models.run_values import Omitted
from models.runs.acceptance import RunAcceptance
from models.runs.run_results import Result
from models.runs.run_views import RunStatus, RunView
from models.views import View, to_json
from services import responding
from services.event_checks import Charge
from services.responding import RenderingFailed

_log = logs.get(__name__)


class RunResult(View):
    """The result of a run, for the sender of its event."""

    run_id: UUID = Field(description="The run's id.")
    status: RunStatus = Field(description="How it ended.")
    output: Any = Field(
        description="The output of the last completed step in list order; null if it failed. One of more than"
        " 4 MiB is `{omitted: true, bytes, url}`: the workflow's owner has it from the URL."
    )
    error: dict[str, Any] | None = Field(
        description="Why it failed, as `step`, `code` and `message`; null if it did not."
    )


_REPLAYED = {
    "Idempotent-Replayed": {
        "description": "`true` if the event had been accepted before; else it is absent.",
        "schema": {"type": "string", "enum": ["true"]},
    }
}
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "model": RunResult,
        "description": "With `wait`: what came of the run. Where the workflow's trigger has a `respond`, one "
        "that has completed is answered with that, under any status from 200 to 599 and as any JSON or text.",
        "headers": _REPLAYED,
    },
    202: {"headers": _REPLAYED},
}


async def answer(
    services: Services, target: RunTarget, accepted: RunAcceptance, wait: int | None, charge: Charge
) -> Response:
    """Return the answer to an event: 202 at once, or the result if the run ends within `wait` seconds."""
    bind_acceptance(target.account_id, accepted)
    response: Response | None = None
    if services.ingest_waits.are_taken(target.account_id):
        wait = None  # the event is stored: after a refusal the sender would send it again
    try:
        if wait is not None and (ended := await _wait_for_end(services, target, accepted, wait)):
            response = await _of_ended(services, target, ended, charge)
        elif accepted.repeated or wait is not None:
            accepted = await update_status(services, accepted)
    except psycopg.Error as error:
        # It is accepted all the same: after an error, the client would send it again.
        _log.warning("wait_cut", run_id=str(accepted.run_id), error=type(error).__name__)
    response = response or accepted_response(view_acceptance(accepted))
    if accepted.repeated:
        response.headers["Idempotent-Replayed"] = "true"
    return response


async def _wait_for_end(
    services: Services, target: RunTarget, accepted: RunAcceptance, wait: int
) -> RunView | Result | None:
    trigger = target.spec.trigger
    with services.ingest_waits.hold(target.account_id):
        if isinstance(trigger, WebhookTrigger) and trigger.respond is not None:
            return await services.waiter.wait(accepted.run_id, wait, new=is_first_acceptance(accepted))
        return await services.waiter.wait_for_result(
            accepted.run_id, wait, new=is_first_acceptance(accepted), version=target.version
        )


async def _of_ended(services: Services, target: RunTarget, run: RunView | Result, charge: Charge) -> Response:
    if isinstance(run, Result):
        result = RunResult(run_id=run.run_id, status="completed", output=run.output, error=None)
        return Response(to_json(result), media_type="application/json")
    found = await responding.respond(services.database, services.event_checks, target, run, charge)
    if found is None:
        output = run.output
        if isinstance(output, Omitted):  # for a group of runs that are read together
            output = await read_output(services, target.account_id, run.id)
        result = RunResult(run_id=run.id, status=run.status, output=output, error=run.error)
    elif isinstance(found, RenderingFailed):
        # The intended answer is unknown, and the whole output may reveal more than it.
        _log.warning("respond_failed", reason=found.message)
        error = {"code": "respond_failed", "message": f"The trigger's respond has failed: {found.message}"}
        result = RunResult(run_id=run.id, status=run.status, output=None, error=error)
    else:
        return Response(found.content, found.status, found.headers)
    return Response(to_json(result), media_type="application/json")
