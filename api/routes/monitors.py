"""Monitors: make, change, pause and delete them; their targets; their runs."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from api.deps import Caller, Id, Services, ServicesDep, actor, require_scope
from api.http.cursors import Limit, Offset
from api.http.idempotency import Idempotent, claim_of
from api.http.openapi import problems
from api.http.strict_route import StrictRoute
from api.schemas.monitor_bodies import MonitorChanges, NewMonitor, resolve_list
from api.schemas.monitor_validity import GivenMonitor, MonitorValidity, check_monitor, say_validity
from api.schemas.target_bodies import (
    GivenTargets,
    TargetsAdded,
    TargetsDeleted,
    answer_targets,
    changing,
    importing,
    invalid_of,
    takes_targets,
    texts_of,
)
from api.schemas.target_files import File, TargetsImported, show_import, takes_file
from database import Connection
from models.errors import Invalid
from models.lists import lists
from models.lists.lists import TargetType
from models.monitors import cleanup, completion, monitored_targets, monitors, runs, seen
from models.monitors.monitor_views import MonitorView
from models.monitors.run_views import MonitorRunView
from models.views import View
from services.disk_buffer import buffer_to_disk
from services.monitors import check_plan, require_own_targets, with_warnings
from services.targets import check_targets

_monitors = APIRouter(tags=["monitors"], route_class=StrictRoute)

Owner = Annotated[Caller, require_scope("monitors")]


class Monitors(BaseModel):
    """All monitors of the account, newest first."""

    monitors: list[MonitorView] = Field(description="The monitors.")
    total: int = Field(description="How many there are.")


class MonitorDeleted(View):
    """It is gone."""

    status: Literal["deleted"] = Field(default="deleted", description="Always `deleted`.")


class MonitorRunStarted(View):
    """The answer to an accepted run."""

    run_id: UUID = Field(description="The run.")
    status: Literal["running"] = Field(default="running", description="Always `running`.")
    message: str = Field(description="What was accepted, for people.")


class MonitorRunPage(BaseModel):
    """Runs of monitors, newest first."""

    runs: list[MonitorRunView] = Field(description="The runs of this page.")
    total: int = Field(description="How many there are in all.")


@_monitors.get("")
async def list_monitors(
    caller: Owner,
    services: ServicesDep,
    type: Annotated[TargetType | None, Query(description="Only monitors of this type.")] = None,
) -> Monitors:
    """List the account's monitors, newest first; without their targets."""
    async with services.database.connection() as connection:
        found = await monitors.list_all(connection, caller.account_id, services.settings.retention_days, type)
    return Monitors(monitors=found, total=len(found))


@_monitors.post("", status_code=201, **takes_targets("too_many_monitors"))
async def create_monitor(
    body: NewMonitor, request: Request, caller: Owner, services: ServicesDep
) -> MonitorView:
    """Make a monitor, of a list or with up to 10,000 targets of its own; more can be added later.

    All errors are reported at once; a single invalid target prevents the creation. The body may have 4 MiB.
    """
    check = await check_monitor(services, caller.account_id, body)
    if check.errors:
        raise Invalid(check.errors)
    who = actor(request, caller)
    async with changing(services, caller) as connection:
        monitor_id = await monitors.create(
            connection, who, body.monitor_type, check.plan, check.checked.targets
        )
        if body.status == "paused":
            await monitors.pause(connection, who, monitor_id)
        made = await _get(connection, services, caller, monitor_id)
    services.notifier.notify(monitors.CHANGED_CHANNEL)
    return made


@_monitors.post("/validate", **takes_targets())
async def validate_monitor(body: GivenMonitor, caller: Owner, services: ServicesDep) -> MonitorValidity:
    """Check a monitor as its creation would, and store nothing. The body may have 4 MiB."""
    return await say_validity(services, caller.account_id, body)


@_monitors.get("/{id}")
async def get_monitor(id: Id, caller: Owner, services: ServicesDep) -> MonitorView:
    """Get the monitor, without its targets."""
    async with services.database.connection() as connection:
        return await _get(connection, services, caller, id)


@_monitors.put("/{id}", responses=problems("list_deleted"))
@_monitors.patch("/{id}", responses=problems("list_deleted"))
async def change_monitor(
    id: Id, body: MonitorChanges, request: Request, caller: Owner, services: ServicesDep
) -> MonitorView:
    """Change some fields; the absent ones stay. PUT and PATCH both merge.

    `status` pauses and resumes. A run in progress continues, and compares its remaining targets by the new
    settings.
    """
    who = actor(request, caller)
    async with changing(services, caller) as connection:
        locked = await monitors.lock(connection, caller.account_id, id)
        type = locked.row["monitor_type"]
        body, ambiguous = await resolve_list(connection, caller.account_id, body)
        plan = body.merge_into(type, locked.plan, services.settings.retention_days)
        wrong = [*ambiguous, *body.errors(type, locked.plan), *check_plan(type, plan)]
        if wrong:
            raise Invalid(wrong)
        await monitors.change(connection, who, locked, plan)
        if "status" in body.model_fields_set:
            await (monitors.pause if body.status == "paused" else monitors.resume)(connection, who, id)
        changed = await _get(connection, services, caller, id)
    services.notifier.notify(monitors.CHANGED_CHANNEL)
    return changed


@_monitors.delete("/{id}")
async def delete_monitor(id: Id, request: Request, caller: Owner, services: ServicesDep) -> MonitorDeleted:
    """Delete the monitor with its runs, results and targets. A run in progress is cancelled."""
    async with changing(services, caller) as connection:
        await cleanup.delete(connection, actor(request, caller), id)
    services.notifier.notify(monitors.CHANGED_CHANNEL)
    return MonitorDeleted()


@_monitors.post("/{id}/pause")
async def pause_monitor(id: Id, request: Request, caller: Owner, services: ServicesDep) -> MonitorView:
    """Stop its runs by the calendar. A run in progress continues, and runs by hand are possible."""
    async with changing(services, caller) as connection:
        await monitors.pause(connection, actor(request, caller), id)
        paused = await _get(connection, services, caller, id)
    services.notifier.notify(monitors.CHANGED_CHANNEL)
    return paused


@_monitors.post("/{id}/resume", responses=problems("list_deleted"))
async def resume_monitor(id: Id, request: Request, caller: Owner, services: ServicesDep) -> MonitorView:
    """Restart its runs by the calendar, at the next time."""
    async with changing(services, caller) as connection:
        await monitors.resume(connection, actor(request, caller), id)
        resumed = await _get(connection, services, caller, id)
    services.notifier.notify(monitors.CHANGED_CHANNEL)
    return resumed


@_monitors.get("/{id}/targets", response_model=list[str])
async def list_monitor_targets(id: Id, caller: Owner, services: ServicesDep) -> Response:
    """List all its targets, in the order of adding: its own, or those of its list."""
    async with services.database.connection() as connection:
        list_id = (await _get(connection, services, caller, id)).data_source_ref
        if list_id is not None:
            return await answer_targets(services, connection, lists.targets_after, list_id)
        return await answer_targets(services, connection, monitored_targets.targets_after, id)


@_monitors.post("/{id}/targets", **takes_targets("monitor_full", "targets_in_list"))
async def add_monitor_targets(
    id: Id, body: GivenTargets, request: Request, caller: Owner, services: ServicesDep
) -> TargetsAdded:
    """Add up to 10,000 targets. Existing ones are ignored, invalid ones are listed in `invalid`.

    If it would exceed 100,000, none is added (409). Runs in progress continue without them. The body may have
    4 MiB.
    """
    texts = texts_of(body)
    async with services.database.connection() as connection:
        type = (await _get(connection, services, caller, id)).monitor_type
    checked = await check_targets(services.pool, caller.account_id, type, texts)
    async with changing(services, caller) as connection:
        locked = await monitors.lock(connection, caller.account_id, id)
        require_own_targets(locked)
        who, name = actor(request, caller), locked.row["name"]
        added = await monitored_targets.add(connection, who, id, name, checked.targets)
    duplicates = len(checked.targets) - added
    return TargetsAdded(added=added, duplicates=duplicates, invalid=invalid_of(texts, checked))


@_monitors.post("/{id}/targets/import", **takes_file("monitor_full", "targets_in_list"))
async def import_monitor_targets(
    id: Id, request: Request, caller: Owner, file: File, services: ServicesDep
) -> TargetsImported:
    """Add the targets of a CSV file with up to 100,000 rows, sent in a form.

    Existing targets are ignored; rows without a target are listed by number. If the file is unreadable (400),
    or the monitor would exceed 100,000 targets (409), none is added.
    """
    async with services.database.connection() as connection:
        type = (await _get(connection, services, caller, id)).monitor_type
    given = await file.open(services, caller, type)
    async with buffer_to_disk(given.read_batches()) as batches, importing(services, caller) as connection:
        locked = await monitors.lock(connection, caller.account_id, id)
        require_own_targets(locked)
        who, targets = actor(request, caller), given.targets_of(batches)
        added = await monitored_targets.add_all(connection, who, id, locked.row["name"], targets)
    return show_import(given, added)


@_monitors.delete("/{id}/targets", **takes_targets("targets_in_list"))
async def remove_monitor_targets(
    id: Id, body: GivenTargets, request: Request, caller: Owner, services: ServicesDep
) -> TargetsDeleted:
    """Remove up to 10,000 targets, in any spelling. Unknown ones are ignored.

    Their results stay. The body may have 4 MiB.
    """
    texts = texts_of(body)
    async with services.database.connection() as connection:
        type = (await _get(connection, services, caller, id)).monitor_type
    checked = await check_targets(services.pool, caller.account_id, type, texts)
    # Also unchanged: a text that was valid when added may be invalid now.
    wanted = [*checked.targets, *(text.strip() for text in texts)]
    async with changing(services, caller) as connection:
        locked = await monitors.lock(connection, caller.account_id, id)
        require_own_targets(locked)
        who, name = actor(request, caller), locked.row["name"]
        deleted = await monitored_targets.remove(connection, who, id, name, wanted)
    return TargetsDeleted(deleted=deleted)


@_monitors.post(
    "/{id}/run",
    status_code=202,
    dependencies=[Idempotent],
    responses=problems("insufficient_credits", "run_in_progress", "no_targets", "list_deleted"),
)
async def run_monitor(
    id: Id, request: Request, caller: Owner, services: ServicesDep, response: Response
) -> MonitorRunStarted:
    """Start a run by hand, of the current targets. A credit for each is held, and spent if it is answered.

    The results appear as they are found; `Location` is the run.
    """
    claim = claim_of(request)
    async with services.database.transaction() as connection:
        started = await runs.start(
            connection, caller.account_id, id, claim.id if claim else None,
            is_charged=services.settings.charges,
        )  # fmt: skip
    services.notifier.notify(monitors.CHANGED_CHANNEL)
    response.headers["Location"] = f"{request.url.path}s/{started.run_id}"
    return MonitorRunStarted(
        run_id=started.run_id, message=f"Accepted; {started.targets:,} targets will be looked up."
    )


@_monitors.get("/{id}/runs")
async def list_monitor_runs(
    id: Id, caller: Owner, services: ServicesDep, limit: Limit = 20, offset: Offset = 0
) -> MonitorRunPage:
    """List the runs of the monitor, newest first."""
    async with services.database.connection() as connection:
        await _get(connection, services, caller, id)
        found, total = await runs.list_some(
            connection, caller.account_id, monitor_id=id, limit=limit, offset=offset
        )
    return MonitorRunPage(runs=found, total=total)


@_monitors.get("/{id}/runs/{run_id}")
async def get_monitor_run(id: Id, run_id: Id, caller: Owner, services: ServicesDep) -> MonitorRunView:
    """Get the run: its progress so far, then its end."""
    async with services.database.connection() as connection:
        return await runs.get(connection, caller.account_id, id, run_id)


@_monitors.post("/{id}/runs/{run_id}/cancel")
async def cancel_monitor_run(id: Id, run_id: Id, caller: Owner, services: ServicesDep) -> MonitorRunView:
    """End the run now; finished results stay, and are paid. One that has ended stays as it is."""
    async with services.database.transaction() as connection:
        await completion.cancel(connection, caller.account_id, id, run_id)
        return await runs.get(connection, caller.account_id, id, run_id)


async def _get(connection: Connection, services: Services, caller: Caller, monitor_id: UUID) -> MonitorView:
    found = await monitors.get(connection, caller.account_id, monitor_id, services.settings.retention_days)
    return with_warnings(found, services.lookups)


@_monitors.post("/{id}/runs/{run_id}/seen")
async def mark_monitor_run_seen(
    id: Id, run_id: Id, request: Request, caller: Owner, services: ServicesDep
) -> MonitorView:
    """Mark the changes of this run and of all before it as seen, as far as the runs have ended.

    What was seen once stays seen. The answer is the monitor.
    """
    async with changing(services, caller) as connection:
        await seen.mark(connection, actor(request, caller), id, run_id)
        return await _get(connection, services, caller, id)


# Paths below /api/agent/ accept keys only.
router = APIRouter()
for _mount in ("/api/monitors", "/api/agent/monitors"):
    router.include_router(_monitors, prefix=_mount)
