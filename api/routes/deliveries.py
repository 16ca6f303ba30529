"""Deliveries of outgoing webhooks: the log, and sending again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from api.deps import Caller, Id, ServicesDep, require_scope
from api.http.cursors import Cursor, Limit, cursor_of_id, id_of
from api.http.idempotency import Idempotent
from api.http.openapi import problems
from api.http.strict_route import StrictRoute
from api.http.validation import Body, Moment
from models.events.events import QUEUED_CHANNEL
from models.webhooks import deliveries, resending
from models.webhooks.deliveries import DeliveryDetail, DeliveryQuery, DeliveryStatus, DeliveryView

router = APIRouter(prefix="/api/webhooks", tags=["events"], route_class=StrictRoute)

Owner = Annotated[Caller, require_scope("webhooks")]


class DeliveryPage(BaseModel):
    """Deliveries, newest first."""

    deliveries: list[DeliveryView] = Field(description="The deliveries of this page.")
    next_cursor: str | None = Field(
        description="Pass it as `cursor` for the next page; null on the last one."
    )


def _is_past(moment: datetime) -> datetime:
    if moment > datetime.now(UTC):
        raise PydanticCustomError("out_of_range", "Must not be in the future.")
    return moment


def _is_later(until: datetime, info: ValidationInfo) -> datetime:
    if "since" in info.data and until < info.data["since"]:
        raise PydanticCustomError("out_of_range", "Must not be before `since`.")
    return until


class Recovery(Body):
    """The deliveries to send again: those that failed, and were made in this period."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"since": "2026-11-01T00:00:00Z"}]})

    since: Annotated[Moment, AfterValidator(_is_past)] = Field(description="From then on.")
    until: Annotated[Moment, AfterValidator(_is_later)] | None = Field(
        None, description="And before this; by default there is no bound."
    )


class Recovered(BaseModel):
    """The deliveries are queued."""

    queued: int = Field(description="How many; if it is 10,000, there may be more.")


async def read_query(
    webhook_id: Annotated[Id | None, Query(description="Only those for this webhook.")] = None,
    status: Annotated[DeliveryStatus | None, Query(description="Only those with this status.")] = None,
    event_type: Annotated[
        str | None,
        Query(max_length=100, pattern=r"^[A-Za-z0-9_.]+$", description="Only those of this type of events."),
    ] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> DeliveryQuery:
    """Return the query of a list of deliveries."""
    return DeliveryQuery(webhook_id, status, event_type, id_of(cursor), limit)


@router.get("/deliveries")
async def list_deliveries(
    caller: Owner, services: ServicesDep, query: Annotated[DeliveryQuery, Depends(read_query)]
) -> DeliveryPage:
    """List the account's deliveries, newest first; none if the webhook is unknown."""
    async with services.database.connection() as connection:
        page, more = await deliveries.list_page(connection, caller.account_id, query)
    return DeliveryPage(deliveries=page, next_cursor=cursor_of_id(more))


@router.get("/deliveries/{delivery_id}")
async def get_delivery(delivery_id: Id, caller: Owner, services: ServicesDep) -> DeliveryDetail:
    """Get the delivery, with all its attempts."""
    async with services.database.connection() as connection:
        return await deliveries.get(connection, caller.account_id, delivery_id)


@router.post(
    "/deliveries/{delivery_id}/resend",
    status_code=202,
    dependencies=[Idempotent],
    responses=problems("webhook_deleted", "webhook_not_active"),
)
async def resend_delivery(
    delivery_id: Id, caller: Owner, services: ServicesDep, response: Response
) -> DeliveryDetail:
    """Send the delivery again, now, with the same `webhook-id`; one that is being sent stays as it is."""
    async with services.database.transaction() as connection:
        await resending.resend(connection, caller.account_id, delivery_id)
        delivery = await deliveries.get(connection, caller.account_id, delivery_id)
    services.notifier.notify(QUEUED_CHANNEL)
    response.headers["Location"] = f"/api/webhooks/deliveries/{delivery_id}"
    return delivery


@router.post(
    "/{webhook_id}/recover",
    status_code=202,
    dependencies=[Idempotent],
    responses=problems("webhook_not_active"),
)
async def recover_deliveries(
    webhook_id: Id, body: Recovery, caller: Owner, services: ServicesDep, response: Response
) -> Recovered:
    """Send the failed deliveries of a period again, the oldest first, at most 10,000 at a time."""
    async with services.database.transaction() as connection:
        queued = await resending.recover(connection, caller.account_id, webhook_id, body.since, body.until)
    services.notifier.notify(QUEUED_CHANNEL)
    response.headers["Location"] = f"/api/webhooks/deliveries?webhook_id={webhook_id}"
    return Recovered(queued=queued)
