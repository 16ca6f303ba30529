"""The route of a run's carrier: Temporal's description of it, or the shift of a worker."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from temporalio.service import RPCError

from api.deps import Caller, Id, ServicesDep, needs_engine, require_scope
from api.http.openapi import problems
from api.http.strict_route import StrictRoute
from models.errors import Unavailable
from models.runs import carriers
from models.runs.carriers import CarrierView
from services.carriers import describe_run

router = APIRouter(prefix="/api/workflows/runs", tags=["runs"], route_class=StrictRoute)


@router.get("/{run_id}/carrier", responses=problems("engine_unavailable"))
async def get_run_carrier(
    run_id: Id, caller: Annotated[Caller, require_scope("workflows")], services: ServicesDep
) -> CarrierView:
    """Get what carries the run now: its own workflow, as Temporal has it, or the shift of a worker.

    A run that has ended, or that waits, may still have a workflow, or none.
    """
    async with services.database.connection() as connection:
        view = await carriers.get(connection, caller.account_id, run_id)
    if view.kind == "shift":
        return view
    try:
        with needs_engine():
            pages = services.settings.temporal_ui
            found = await describe_run(services.temporal, run_id, pages if isinstance(pages, str) else None)
    except (RPCError, Unavailable) as error:
        if view.kind != "workflow":
            # The rows have everything but a workflow that is no longer needed.
            return view
        raise Unavailable("engine_unavailable", "The workflow engine is away; try again shortly.") from error
    return view.model_copy(update=found or {})
