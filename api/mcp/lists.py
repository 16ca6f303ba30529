"""Tools of contact lists: make and delete them, read and change their targets."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.types import CallToolResult
from pydantic import Field

from api.mcp.answers import make_result, schema, schema_of
from api.mcp.calling import Ctx, InternalClient, in_path
from api.mcp.toolbox import DELETED, Deleted, Limit, Offset, Toolbox, Total
from api.routes.lists import ListCreated
from api.schemas.target_bodies import TargetsAdded, TargetsDeleted
from models.lists.lists import ListView, TargetType

toolbox = Toolbox()

ListId = Annotated[str, Field(description="The list's id, from list_contact_lists.")]
Targets = Annotated[list[str], Field(description="Up to 10,000 targets.")]


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
    """List the account's contact lists, newest first: ids, names, types and numbers of targets."""
    found = await InternalClient(ctx).get("/api/lists", type=type)
    shown = {"lists": found[offset : offset + limit], "total": len(found)}
    return make_result(shown, hint="use a smaller `limit` and `offset`")


@toolbox.tool("Create a contact list", schema_of(ListCreated))
async def create_contact_list(
    name: Annotated[str, Field(description="What the list is called.")],
    type: Annotated[TargetType, Field(description="What its targets are.")],
    targets: Annotated[list[str], Field(description="Up to 10,000 targets.")],
    ctx: Ctx,
) -> CallToolResult:
    """Make a contact list, which monitors can watch. Free.

    Texts that are not targets of the type are left out, and listed in `invalid`.
    """
    body: dict[str, Any] = {"name": name, "type": type, "targets": targets}
    return make_result(await InternalClient(ctx).post("/api/lists", body))


@toolbox.tool(
    "Read the targets of a contact list",
    schema(targets={"type": "array", "items": {"type": "string"}}, total=Total),
    reads=True,
)
async def get_contact_list_targets(
    list_id: ListId, ctx: Ctx, limit: Limit = 100, offset: Offset = 0
) -> CallToolResult:
    """Read the targets of a contact list, in the order of adding."""
    found: list[str] = await InternalClient(ctx).get(f"/api/lists/{in_path(list_id)}/targets")
    shown = {"targets": found[offset : offset + limit], "total": len(found)}
    return make_result(shown, hint="use a smaller `limit` and `offset`", untrusted=["targets"])


@toolbox.tool("Add targets to a contact list", schema_of(TargetsAdded), repeatable=True)
async def add_contact_list_targets(list_id: ListId, targets: Targets, ctx: Ctx) -> CallToolResult:
    """Add targets to a contact list. Monitors that watch it look them up from their next run on."""
    path = f"/api/lists/{in_path(list_id)}/targets"
    return make_result(await InternalClient(ctx).post(path, {"targets": targets}))


@toolbox.tool("Remove targets from a contact list", schema_of(TargetsDeleted), destroys=True, repeatable=True)
async def remove_contact_list_targets(list_id: ListId, targets: Targets, ctx: Ctx) -> CallToolResult:
    """Remove targets from a contact list, in any spelling."""
    path = f"/api/lists/{in_path(list_id)}/targets"
    return make_result(await InternalClient(ctx).delete(path, {"targets": targets}))


@toolbox.tool("Delete a contact list", DELETED, destroys=True, repeatable=True)
async def delete_contact_list(list_id: ListId, ctx: Ctx) -> CallToolResult:
    """Delete a contact list and its targets, for good. Monitors that watch it pause."""
    await InternalClient(ctx).delete(f"/api/lists/{in_path(list_id)}")
    return make_result(Deleted)
