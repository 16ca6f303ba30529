"""Tools about the account and the service itself: credits, figures, names of secrets, the documentation."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from mcp.types import CallToolResult
from pydantic import Field

from api.mcp.answers import make_result, schema, schema_of
from api.mcp.calling import Ctx, InternalClient
from api.mcp.toolbox import Limit, Offset, Toolbox
from models.accounts.secrets import SecretView
from models.credits.credits import BalanceView
from services import documentation
from services.section_index import shorten_text

toolbox = Toolbox()

_SECTION_CHARACTERS = 1_500


@toolbox.tool("Show credits", schema_of(BalanceView), reads=True)
async def get_credits(ctx: Ctx) -> CallToolResult:
    """Get the balance of credits, and what is held for work in progress. Call this before expensive work."""
    return make_result(await InternalClient(ctx).get("/api/credits"))


@toolbox.tool("Show figures", schema(totals={"type": "object"}), reads=True)
async def get_stats(
    ctx: Ctx, window: Annotated[str, Field(description="From 1h to 30d, up to now.")] = "24h"
) -> CallToolResult:
    """Get how runs, lookups and deliveries ended, and durations by workflow."""
    found = await InternalClient(ctx).get("/api/stats", window=window, by="workflow")
    found.pop("buckets")
    return make_result(found, hint="use a shorter `window`")


@toolbox.tool("List activity", schema(entries={"type": "array"}), reads=True)
async def list_activity(ctx: Ctx, limit: Limit = 20) -> CallToolResult:
    """List what happened lately: failures, changes, approvals, ended jobs."""
    found = await InternalClient(ctx).get("/api/activity", limit=limit)
    return make_result(found, hint="use a smaller `limit`", untrusted=("entries[].title",))


@toolbox.tool("List secrets", schema(secrets={"type": "array", "items": schema_of(SecretView)}), reads=True)
async def list_secrets(ctx: Ctx, limit: Limit = 50, offset: Offset = 0) -> CallToolResult:
    """List the names of secrets, which webhook steps use as {{ secrets.NAME }}.

    No tool returns their values.
    """
    found: list[Any] = (await InternalClient(ctx).get("/api/workflows/secrets"))["secrets"]
    shown = [
        {name: one[name] for name in ("name", "created_at", "updated_at")}
        for one in found[offset : offset + limit]
    ]
    return make_result({"secrets": shown, "total": len(found)}, hint="use a smaller `limit` and `offset`")


_HIT = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("page", "heading", "url", "text")},
}


@toolbox.tool("Search the documentation", schema(sections={"type": "array", "items": _HIT}), reads=True)
async def search_docs(
    query: Annotated[str, Field(description="Words to look for, such as: retry webhook step.")],
    ctx: Ctx,
    limit: Annotated[int, Field(ge=1, le=10, description="How many sections to give at most.")] = 3,
) -> CallToolResult:
    """Search the documentation of this service. Call this before you write a workflow.

    It covers the workflow language with its steps, triggers and expressions, monitors, webhooks, errors,
    limits.
    """
    hits = await asyncio.to_thread(documentation.search, query, limit)
    address = InternalClient(ctx).address
    sections = [
        {
            "page": hit.page,
            "heading": hit.heading,
            "url": f"{address}/docs/{hit.page}.md#{hit.anchor}",
            "text": shorten_text(
                documentation.read_page(hit.page, hit.anchor) or hit.excerpt, _SECTION_CHARACTERS
            ),
        }
        for hit in hits
    ]
    return make_result({"sections": sections}, hint="ask for fewer sections with `limit`")
