"""Tools about the account and the service itself: credits, contact lists, the documentation."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from mcp.types import CallToolResult
from pydantic import Field

from api.mcp.answers import answered, schema, schema_of
from api.mcp.calling import Ctx, Door
from api.mcp.toolbox import Limit, Offset, Toolbox, Total
from api.routes.lists import ListCreated
from models.credits import BalanceView
from models.lists import ListView, TargetType
from services import documentation
from services.section_index import shortened

toolbox = Toolbox()

_SECTION_CHARACTERS = 1_500


@toolbox.tool("Show credits", schema_of(BalanceView), reads=True)
async def get_credits(ctx: Ctx) -> CallToolResult:
    """The balance of credits, and what is held for work under way. Look here before work that costs much."""
    return answered(await Door(ctx).get("/api/credits"))


@toolbox.tool(
    "List contact lists",
    schema(lists={"type": "array", "items": schema_of(ListView)}, total=Total),
    reads=True,
)
async def list_contact_lists(
    ctx: Ctx,
    type: Annotated[TargetType | None, Field(description="Only lists of this type of targets.")] = None,
    limit: Limit = 20,
    offset: Offset = 0,
) -> CallToolResult:
    """The account's contact lists, newest first: their ids, names, types and how many targets they have."""
    found = await Door(ctx).get("/api/lists", type=type)
    shown = {"lists": found[offset : offset + limit], "total": len(found)}
    return answered(shown, hint="use a smaller `limit` and `offset`")


@toolbox.tool("Create a contact list", schema_of(ListCreated))
async def create_contact_list(
    name: Annotated[str, Field(description="What the list is called.")],
    type: Annotated[TargetType, Field(description="What its targets are.")],
    targets: Annotated[list[str], Field(description="Up to 10,000 targets.")],
    ctx: Ctx,
) -> CallToolResult:
    """Make a contact list, which monitors can watch. Free.

    Texts that are no targets of the type are left out, and named in `invalid`.
    """
    body: dict[str, Any] = {"name": name, "type": type, "targets": targets}
    return answered(await Door(ctx).post("/api/lists", body))


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
    """Search the documentation of this service. Look here before you write a workflow.

    It has the workflow language with its steps, triggers and expressions, monitors, webhooks, errors, limits.
    """
    hits = await asyncio.to_thread(documentation.search, query, limit)
    address = Door(ctx).address
    sections = [
        {
            "page": hit.page,
            "heading": hit.heading,
            "url": f"{address}/docs/{hit.page}.md#{hit.anchor}",
            "text": shortened(documentation.read(hit.page, hit.anchor) or hit.excerpt, _SECTION_CHARACTERS),
        }
        for hit in hits
    ]
    return answered({"sections": sections}, hint="ask for fewer sections with `limit`")
