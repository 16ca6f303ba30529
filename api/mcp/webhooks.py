"""Tools of webhooks: the addresses for the account's events. Secrets and headers are left to people."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.types import CallToolResult
from pydantic import Field

from api.mcp.answers import JSONObject, make_result, schema, schema_of
from api.mcp.calling import Ctx, InternalClient, in_path
from api.mcp.toolbox import DELETED, Deleted, Toolbox
from models.webhooks.endpoints import EndpointView

toolbox = Toolbox()

_WEBHOOK = schema_of(EndpointView)
_WEBHOOK["properties"]["headers"] = {"type": "array", "description": "Their names."}


def _hide_headers(webhook: JSONObject) -> JSONObject:
    """Return a webhook with only the names of its headers, whose values may be credentials."""
    left = {name: value for name, value in webhook.items() if name not in ("secret", "headers")}
    return left | {"headers": sorted(webhook["headers"])}


@toolbox.tool("List webhooks", schema(webhooks={"type": "array", "items": _WEBHOOK}), reads=True)
async def list_webhooks(ctx: Ctx) -> CallToolResult:
    """List the addresses that the account's events are sent to, with the events; newest first."""
    found: list[JSONObject] = (await InternalClient(ctx).get("/api/webhooks"))["webhooks"]
    return make_result({"webhooks": [_hide_headers(one) for one in found]})


@toolbox.tool("Create a webhook", _WEBHOOK, outside=True)
async def create_webhook(
    url: Annotated[str, Field(description="Where events go: http or https.")],
    events: Annotated[
        list[str],
        Field(description="Types such as monitor.run.completed, or prefixes such as monitor.*."),
    ],
    ctx: Ctx,
    description: Annotated[str | None, Field(description="What it is for.")] = None,
) -> CallToolResult:
    """Send events of the account to an address from now on: ask the user first whether it is theirs.

    The user gets the secret that signs them by POST /api/webhooks/{id}/rotate-secret.
    """
    body: dict[str, Any] = {"url": url, "events": events, "description": description}
    return make_result(_hide_headers(await InternalClient(ctx).post("/api/webhooks", body)))


@toolbox.tool("Delete a webhook", DELETED, destroys=True, repeatable=True)
async def delete_webhook(
    webhook_id: Annotated[str, Field(description="The webhook's id, from list_webhooks.")], ctx: Ctx
) -> CallToolResult:
    """Delete a webhook, for good. Its pending events are not sent any more."""
    await InternalClient(ctx).delete(f"/api/webhooks/{in_path(webhook_id)}")
    return make_result(Deleted)
