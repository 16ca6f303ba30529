"""The limits of an account."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from api.deps import Caller, ServicesDep, require_scope
from api.http.strict_route import StrictRoute
from models.automations import automations
from models.runs import run_counts
from models.views import View

router = APIRouter(prefix="/api/limits", tags=["service"], route_class=StrictRoute)


class Bound(View):
    """A limit."""

    limit: int = Field(description="The most that there may be.")


class UsedBound(View):
    """A limit, and the number in use."""

    limit: int = Field(description="The most that there may be.")
    used: int = Field(description="How many there are now.")


class AccountLimits(View):
    """The limits of an account at any one time. Request rates are limited apart from this."""

    workflows: UsedBound = Field(description="Workflows.")
    unfinished_runs: UsedBound = Field(description="Runs of workflows that have not ended.")
    descendants: Bound = Field(description="Unfinished runs below one run that runs workflows.")
    streams: Bound = Field(description="Streams and requests with `wait` that are open.")
    ingest_waits: Bound = Field(
        description="Events sent with `wait` that are waited for, apart from streams."
    )


@router.get("")
async def get_limits(caller: Annotated[Caller, require_scope(None)], services: ServicesDep) -> AccountLimits:
    """Get the account's limits, and the numbers in use."""
    settings = services.settings
    async with services.database.connection() as connection:
        workflows = await automations.count(connection, caller.account_id)
        unfinished = await run_counts.count_unfinished(connection, [caller.account_id])
    return AccountLimits(
        workflows=UsedBound(limit=settings.max_workflows, used=workflows),
        unfinished_runs=UsedBound(limit=settings.max_unfinished_runs, used=unfinished[caller.account_id]),
        descendants=Bound(limit=settings.max_descendants),
        streams=Bound(limit=settings.max_streams),
        ingest_waits=Bound(limit=settings.max_ingest_waits),
    )
