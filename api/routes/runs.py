"""Runs: one execution of a workflow for one event."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import psycopg
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

import logs
from api import saving
from api.auth.credentials import find_credential
from api.context import AWAITS
from api.deps import Caller, Id, Services, ServicesDep, actor, require_scope
from api.http.cursors import cursor_of_id
from api.http.idempotency import Idempotent, claim_of
from api.http.large_answers import LargeAnswer, read_run, turn_of
from api.http.openapi import problems
from api.http.query import Digits
from api.http.strict_route import StrictRoute
from api.http.validation import Body
from api.schemas.accepted_runs import (
    accepted_response,
    bind_acceptance,
    is_first_acceptance,
    update_status,
    view_acceptance,
)
from api.schemas.resume_urls import with_resume_urls
from api.schemas.run_filters import read_query
from api.streams import live_events
from api.streams.run_events import stream
from models import audit
from models.accounts import agents
from models.audit import Actor, Target
from models.errors import Unauthenticated
from models.priorities import INTERACTIVE, WAITED
from models.run_values import ROOM, SMALL
from models.runs import cancellation, retries, run_lists, runs
from models.runs.acceptance import RunAcceptance, RunAccepted
from models.runs.retries import RetryRequest
from models.runs.run_lists import ListedRun
from models.runs.run_queries import RunQuery
from models.runs.run_views import RunView
from models.views import to_json

_log = logs.get(__name__)

router = APIRouter(prefix="/api/workflows/runs", tags=["runs"], route_class=StrictRoute)

Author = Annotated[Caller, require_scope("workflows")]
Wait = Annotated[
    int | None,
    Query(ge=1, le=30, description="How many seconds to wait for the run's end; without it, none."),
    Digits,
]


FINISHED: dict[int | str, dict[str, Any]] = {
    200: {"model": RunView, "description": "With `wait`: the run, finished."}
}
CHECKED = ("checks_waiting", *saving.POOLED)
"""The codes of an input whose check takes long, and could not be done."""


class RunPage(BaseModel):
    """A page of runs, newest first."""

    runs: list[ListedRun] = Field(description="The runs of this page.")
    total: int | None = Field(
        description="How many there are in all; null with filters by which they are not counted."
    )
    page: int = Field(description="The number of this page.")
    next_cursor: str | None = Field(
        description="Pass it as `cursor` for the next page; null on the last one. A page can have fewer runs"
        " than `limit` and still have a next one: filters that no index serves look at 20,000 runs a page."
    )


class RetryBody(Body):
    """The starting step of a retry, and the version of the workflow."""

    from_step: str | None = Field(
        default=None, description="The id of a step to do again, with all that needs it."
    )
    version: Annotated[int, Field(strict=True)] | None = Field(
        default=None, description="The workflow's version to run, instead of the one that the run ran."
    )


class RunRestarted(RunAccepted, frozen=True):
    """The answer to an accepted retry."""

    restarted_from: UUID = Field(description="The run that it is a retry of.")


@router.get("", response_model=RunPage)
async def list_runs(
    caller: Author, services: ServicesDep, query: Annotated[RunQuery, Depends(read_query)]
) -> Response:
    """List the account's runs, newest first; none if the workflow, the batch or the parent is unknown.

    Filters combine. `cursor` goes on behind the page before, whatever is accepted meanwhile; `page` counts
    from the newest run of now, and does without the filters that are not counted.

    They come without `input`, `output` and `steps`, except for those that `include` names: 4 MiB of them a
    page, for the newest runs first. `omitted` of a run names those that do not fit; the run by its id has
    them.
    """

    async def make() -> bytes:
        async with services.database.connection() as connection:
            found = await run_lists.list_page(connection, caller.account_id, query)
        following = cursor_of_id(found.next)
        return to_json(RunPage(runs=found.runs, total=found.total, page=query.page, next_cursor=following))

    if query.include:
        return LargeAnswer(turn_of(services, caller.account_id), make)
    return Response(await make(), media_type="application/json")


@router.get("/{run_id}", response_model=RunView)
async def get_run(
    run_id: Id,
    caller: Author,
    services: ServicesDep,
    max_bytes: Annotated[
        int, Query(ge=0, le=ROOM, description="How many bytes of inputs and outputs to give at most."), Digits
    ] = ROOM,
) -> Response:
    """Get the run: live while it is in progress, then as it ended.

    It has 4 MiB at most, the smallest values first. A value that does not fit is replaced by `{omitted: true,
    bytes, url}`: the URL has it.
    """

    async def load_run(room: int) -> RunView:
        async with services.database.connection() as connection:
            view = await runs.get(connection, caller.account_id, run_id, room=room)
        return with_resume_urls(services, view)

    async def make() -> bytes:
        return to_json(await load_run(max_bytes))

    view = await load_run(min(max_bytes, SMALL))
    if view.is_whole() or max_bytes <= SMALL:
        return Response(to_json(view), media_type="application/json")
    return LargeAnswer(turn_of(services, caller.account_id), make)


@router.get("/{run_id}/events", response_class=StreamingResponse, responses=live_events.RESPONSES)
async def get_run_events(
    run_id: Id,
    request: Request,
    caller: Author,
    services: ServicesDep,
    last_event_id: live_events.LastEventId = None,
) -> Response:
    """Get the run as server-sent events, live, until it ends.

    `run` comes first and whenever the run's status changes, with the run object; `step` when a step changes,
    with the step; `end` comes last, with the run object as it ended. A client that reconnects with
    `Last-Event-ID` gets only new events.
    """
    async with services.database.connection() as connection:
        pulse = await runs.get_pulse(connection, caller.account_id, run_id)
    return live_events.answer_stream(
        services,
        request,
        caller.account_id,
        last_event_id,
        lambda credential: stream(services, credential, caller.account_id, run_id, last_event_id),
        ended=pulse.ended,
    )


@router.post("/{run_id}/cancel", response_model=RunView)
async def cancel_run(run_id: Id, request: Request, caller: Author, services: ServicesDep) -> Response:
    """End a run now. One that has ended stays as it is."""
    async with services.database.transaction() as connection:
        if ended := await cancellation.cancel(connection, caller.account_id, run_id):
            target = Target("workflow", await runs.get_automation_id(connection, run_id))
            changes = {"run_id": str(run_id)}
            await audit.record(connection, actor(request, caller), "run.cancelled", target, changes)
    if ended:
        cancellation.notify_ends(services.notifier, ended)
    view = await read_run(services, caller.account_id, run_id)
    return Response(to_json(view), media_type="application/json")


async def cancel_all(services: Services, by: Actor, workflow_id: UUID, upload_id: UUID | None = None) -> None:
    """End all runs of a workflow, or of one upload to it, whose audit entry exists already."""
    after: UUID | None = cancellation.FIRST
    while after is not None:
        async with services.database.transaction() as connection:
            ended, after = await cancellation.cancel_some(
                connection, by.account_id, workflow_id, after, upload_id=upload_id
            )
            if ended and upload_id is None:
                changes = {"runs": len(ended)}
                await audit.record(connection, by, "run.cancelled", Target("workflow", workflow_id), changes)
        cancellation.notify_ends(services.notifier, ended)


@router.post(
    "/{run_id}/retry",
    status_code=202,
    dependencies=[Idempotent],
    response_model=RunRestarted,
    responses=problems(
        "run_not_ended", "nothing_to_retry", "workflow_not_active", "too_many_runs", "person_required"
    ),
)
async def retry_run(
    run_id: Id, request: Request, caller: Author, services: ServicesDep, body: RetryBody | None = None
) -> Response:
    """Run it again, as a new run that reuses the finished steps of this one.

    Steps that failed or were cancelled are repeated, and so are those that depend on them. `from_step` names
    a step to start from instead; with another `version` changed steps are repeated too.
    """
    asked = body or RetryBody()
    async with services.database.transaction() as connection:
        await services.unfinished_runs.check(connection, caller.account_id)
        await agents.check_retry(connection, actor(request, caller), run_id, asked.version)
        priority = WAITED if request.scope.get(AWAITS) else INTERACTIVE
        retry = RetryRequest(run_id, asked.from_step, asked.version, claimed_key(request), priority)
        accepted = await retries.retry(
            connection, actor(request, caller), retry, may_look_up="lookups" in caller.scopes
        )
    bind_acceptance(caller.account_id, accepted)
    if not accepted.repeated:
        services.notifier.notify(runs.QUEUED_CHANNEL, str(caller.account_id))
    return accepted_response(RunRestarted(**view_acceptance(accepted).model_dump(), restarted_from=run_id))


def claimed_key(request: Request) -> str | None:
    """Return the dedupe key of a run that a request with an Idempotency-Key starts.

    The claim outlives a crash between the commit and the answer, so the repeat finds this run.
    """
    claim = claim_of(request)
    return f"request/{claim.id}" if claim else None


async def answer(
    services: Services, request: Request, account_id: UUID, accepted: RunAcceptance, wait: int | None
) -> Response:
    """Return the answer to accepted work: 202 at once, or the run if it ends within `wait` seconds.

    After a wait, 202 has the status of now.
    """
    bind_acceptance(account_id, accepted)
    try:
        if wait is not None:
            ended = await services.waiter.wait(accepted.run_id, wait, new=is_first_acceptance(accepted))
            # The key may have been revoked meanwhile.
            if (credential := find_credential(request.scope["headers"])) is not None:
                await services.credentials.find(credential)
            if ended is not None:
                view = ended if ended.is_whole() else await read_run(services, account_id, ended.id)
                return Response(to_json(view), media_type="application/json")
            accepted = await update_status(services, accepted)
    except Unauthenticated:
        pass
    except psycopg.Error as error:
        # It is accepted all the same: after an error, the client would send it again.
        _log.warning("wait_cut", run_id=str(accepted.run_id), error=type(error).__name__)
    return accepted_response(view_acceptance(accepted))
