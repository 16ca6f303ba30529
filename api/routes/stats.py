"""Statistics of an account."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query

from api.deps import Caller, ServicesDep, require_scope
from api.http.strict_route import StrictRoute
from models.stats import report
from models.stats.entries import Grain
from models.stats.report import By, StatsView
from models.stats.windows import divide

router = APIRouter(prefix="/api/stats", tags=["activity"], route_class=StrictRoute)

WindowParameter = Annotated[
    str, Query(max_length=8, description="The time up to now, from `1h` to `30d`.", examples=["24h"])
]
BucketParameter = Annotated[
    Grain | None,
    Query(description="The length of a bucket, of which there are 400 at most; by default one that fits."),
]
ByParameter = Annotated[By, Query(description="What `groups` are of.")]


@router.get("")
async def get_stats(
    caller: Annotated[Caller, require_scope("workflows")],
    services: ServicesDep,
    window: WindowParameter = "24h",
    bucket: BucketParameter = None,
    by: ByParameter = "none",
) -> StatsView:
    """Get what happened in the account: runs, lookups, deliveries, credits and changes, over time."""
    chosen = divide(window, bucket, datetime.now(UTC))
    async with services.database.connection() as connection:
        return await report.read(connection, caller.account_id, chosen, by)
