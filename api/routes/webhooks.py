"""Outgoing webhooks: make, change, try and delete the endpoints that events are sent to."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

import fastapi
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from api.deps import Caller, Id, Services, ServicesDep, actor, require_scope
from api.http.openapi import problems
from api.http.strict_route import StrictRoute
from api.http.validation import as_it_came, validate_body
from api.schemas.webhook_bodies import NewWebhook, Rotation, WebhookChanges, WebhookName, WebhookReplacement
from models.accounts import agents
from models.errors import FieldError, Invalid
from models.webhooks import deliveries, endpoints
from models.webhooks.deliveries import DeliveryDetail
from models.webhooks.endpoints import EndpointSettings, EndpointView
from outbound.signing import new_secret
from services import delivery_attempts

router = APIRouter(prefix="/api/webhooks", tags=["webhooks"], route_class=StrictRoute)

Owner = Annotated[Caller, require_scope("webhooks")]
SecretOwner = Annotated[Caller, require_scope("webhooks", proven=True)]

# Validated with the operator's settings, in the function of the route.
GivenWebhook = Annotated[dict[str, Any], as_it_came(NewWebhook), fastapi.Body()]
GivenChanges = Annotated[dict[str, Any], as_it_came(WebhookChanges), fastapi.Body()]
GivenReplacement = Annotated[dict[str, Any], as_it_came(WebhookReplacement), fastapi.Body()]


class WebhookCreated(EndpointView):
    """The new webhook. `secret` is shown this once."""

    secret: str = Field(description="What its requests are signed with, shown this once.")


class SecretRotated(BaseModel):
    """The new secret, shown this once."""

    secret: str = Field(description="What requests are signed with from now on, shown this once.")
    previous_expires_at: datetime = Field(description="Until when the secret before signs, too.")


class Webhooks(BaseModel):
    """All webhooks of the account, newest first."""

    webhooks: list[EndpointView] = Field(description="The webhooks.")


@router.get("")
async def list_webhooks(caller: Owner, services: ServicesDep) -> Webhooks:
    """List the account's webhooks, newest first; no secrets."""
    async with services.database.connection() as connection:
        found = await endpoints.list_all(connection, services.keyring, caller.account_id)
    return Webhooks(webhooks=found)


@router.post("", status_code=201, responses=problems("too_many_webhooks", "person_required"))
async def create_webhook(
    body: GivenWebhook, request: Request, caller: Owner, services: ServicesDep
) -> WebhookCreated:
    """Make a webhook. Its secret is shown this once."""
    chosen = EndpointSettings(**validate_body(NewWebhook, body, _context(services)).model_dump())
    secret, who = new_secret(), actor(request, caller)
    async with services.database.transaction() as connection:
        await agents.check_endpoint(connection, who, chosen.events)
        made = await endpoints.create(connection, services.keyring, who, chosen, secret)
    services.lookups.events.forget_subscribers()
    return WebhookCreated(**made.model_dump(), secret=secret)


@router.put("", responses=problems("not_found"))
async def replace_webhook(
    body: GivenReplacement, request: Request, caller: Owner, services: ServicesDep
) -> EndpointView:
    """Change some fields of the webhook that the body names; absent ones stay."""
    wanted = validate_body(WebhookReplacement, body, _context(services))
    return await _change(services, request, caller, wanted.id, wanted)


@router.delete("", status_code=204, responses=problems("not_found"))
async def delete_webhook_by_body(
    request: Request,
    caller: Owner,
    services: ServicesDep,
    body: WebhookName | None = None,
    id: Annotated[Id | None, Query(description="The webhook's id, unless the body has it.")] = None,
) -> None:
    """Delete the webhook that the body or the query names. Its pending deliveries fail."""
    named = id if body is None else body.id
    if named is None:
        raise Invalid([FieldError("/id", "required", "Name the webhook, here or as `?id=`.")])
    await delete_webhook(named, request, caller, services)


@router.post("/test", responses=problems("not_found"))
async def test_webhook(body: WebhookName, caller: Owner, services: ServicesDep) -> DeliveryDetail:
    """Send a signed `webhook.test` now, once; also to an inactive webhook.

    It is sent whatever events the webhook subscribes to. The answer is the delivery, `delivered` or `failed`.
    """
    async with services.database.connection() as connection:
        delivery = await deliveries.new_test(connection, caller.account_id, body.id)
    attempt = await delivery_attempts.attempt(services.outbound, services.keyring, delivery)
    async with services.database.transaction() as connection:
        await deliveries.store_test(connection, delivery, attempt)
        return await deliveries.get(connection, caller.account_id, delivery.delivery_id)


@router.get("/{webhook_id}")
async def get_webhook(webhook_id: Id, caller: Owner, services: ServicesDep) -> EndpointView:
    """Get the webhook, without its secret."""
    async with services.database.connection() as connection:
        return await endpoints.get(connection, services.keyring, caller.account_id, webhook_id)


@router.patch("/{webhook_id}")
async def change_webhook(
    webhook_id: Id, body: GivenChanges, request: Request, caller: Owner, services: ServicesDep
) -> EndpointView:
    """Change some fields; absent ones stay."""
    return await _change(
        services, request, caller, webhook_id, validate_body(WebhookChanges, body, _context(services))
    )


@router.delete("/{webhook_id}", status_code=204)
async def delete_webhook(webhook_id: Id, request: Request, caller: Owner, services: ServicesDep) -> None:
    """Delete the webhook. Its pending deliveries fail; all deliveries stay in the log."""
    async with services.database.transaction() as connection:
        await endpoints.delete(connection, actor(request, caller), webhook_id)
    services.lookups.events.forget_subscribers()


@router.post("/{webhook_id}/rotate-secret", responses=problems("password_required"))
async def rotate_webhook_secret(
    webhook_id: Id, request: Request, caller: SecretOwner, services: ServicesDep, body: Rotation | None = None
) -> SecretRotated:
    """Give the webhook another secret, which is shown this once. Both secrets sign for a while."""
    secret, overlap = new_secret(), timedelta(seconds=(body or Rotation()).overlap_seconds)
    async with services.database.transaction() as connection:
        until = await endpoints.rotate_secret(
            connection, services.keyring, actor(request, caller), webhook_id, secret, overlap
        )
    return SecretRotated(secret=secret, previous_expires_at=until)


async def _change(
    services: Services, request: Request, caller: Caller, webhook_id: UUID, changes: WebhookChanges
) -> EndpointView:
    async with services.database.transaction() as connection:
        changed = await endpoints.change(
            connection, services.keyring, actor(request, caller), webhook_id, changes.list_given()
        )
    # Other processes are notified; in this one the change holds for the very next lookup.
    services.lookups.events.forget_subscribers()
    return changed


def _context(services: Services) -> dict[str, Any]:
    return {"networks": services.settings.allow_private_networks}
