"""All monitors of the account as one: their runs, results and targets."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import BaseModel, Field

from api.deps import Caller, Id, ServicesDep, require_scope
from api.http.cursors import Limit, Offset
from api.http.strict_route import StrictRoute
from api.routes.monitor_results import ChangesOnly, json_answer
from api.routes.monitors import MonitorRunPage
from models.lists.lists import TargetType
from models.monitors import overview, runs
from models.monitors.overview import MonitoredTarget, ResultFilter
from models.monitors.results import MonitoringResultView

_monitoring = APIRouter(tags=["monitors"], route_class=StrictRoute)

Owner = Annotated[Caller, require_scope("monitors")]
Type = Annotated[TargetType | None, Query(description="Only of monitors of this type.")]


class MonitoringResults(BaseModel):
    """Results of the account, those of the newest run first."""

    results: list[MonitoringResultView] = Field(description="The results of this page.")
    total: int = Field(description="How many there are in all.")


class MonitoredTargets(BaseModel):
    """Targets of the account's monitors, those of the newest monitor first."""

    targets: list[MonitoredTarget] = Field(description="The targets of this page.")
    total: int = Field(description="How many there are in all.")


async def read_filter(
    type: Type = None,
    monitor_id: Annotated[Id | None, Query(description="Only of this monitor.")] = None,
    changes_only: ChangesOnly = False,
    unseen: Annotated[bool, Query(description="Only changes that nobody has marked as seen.")] = False,
) -> ResultFilter:
    """Return the filter of results."""
    return ResultFilter(type, monitor_id, changes_only=changes_only, unseen=unseen)


@_monitoring.get("/runs")
async def list_monitoring_runs(
    caller: Owner, services: ServicesDep, type: Type = None, limit: Limit = 20, offset: Offset = 0
) -> MonitorRunPage:
    """List the runs of all monitors, newest first."""
    async with services.database.connection() as connection:
        found, total = await runs.list_some(
            connection, caller.account_id, type=type, limit=limit, offset=offset
        )
    return MonitorRunPage(runs=found, total=total)


@_monitoring.get("/results", response_model=MonitoringResults)
async def list_monitoring_results(
    caller: Owner,
    services: ServicesDep,
    wanted: Annotated[ResultFilter, Depends(read_filter)],
    limit: Limit = 100,
    offset: Offset = 0,
) -> Response:
    """List the results of all runs, those of the newest first, each run's in the order of its targets."""
    async with services.database.connection() as connection:
        found, total = await overview.list_results(
            connection, caller.account_id, wanted, limit=limit, offset=offset
        )
    return json_answer({"results": found, "total": total})


@_monitoring.get("/targets")
async def list_monitoring_targets(
    caller: Owner, services: ServicesDep, type: Type = None, limit: Limit = 100, offset: Offset = 0
) -> MonitoredTargets:
    """List the targets of all monitors, their own and those of lists; shared ones come several times."""
    async with services.database.connection() as connection:
        found, total = await overview.list_targets(
            connection, caller.account_id, type=type, limit=limit, offset=offset
        )
    return MonitoredTargets(targets=found, total=total)


# Paths below /api/agent/ accept keys only.
router = APIRouter()
for _mount in ("/api/monitoring", "/api/agent/monitoring"):
    router.include_router(_monitoring, prefix=_mount)
