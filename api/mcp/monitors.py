"""Tools of monitors: make one, run it, read its changes."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from uuid import UUID

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult
from pydantic import Field

from api.mcp.answers import make_result, schema, schema_of
from api.mcp.calling import Ctx, InternalClient, in_path
from api.mcp.toolbox import DELETED, Deleted, Full, Key, Limit, Offset, Seconds, Toolbox, Total
from api.schemas.monitor_validity import MonitorValidity
from models.lists.lists import TargetType
from models.monitors import runs
from models.monitors.monitor_views import Frequency, MonitorView
from models.monitors.results import ResultView
from models.monitors.run_views import MonitorRunView
from services.run_waiter import Watcher

toolbox = Toolbox()

MonitorId = Annotated[str, Field(description="The monitor's id, from list_monitors.")]

_LOOK_SECONDS = 1.0
_RUN = schema_of(MonitorRunView)


@toolbox.tool(
    "List monitors",
    schema(monitors={"type": "array", "items": schema_of(MonitorView)}, total=Total),
    reads=True,
)
async def list_monitors(
    ctx: Ctx,
    type: Annotated[TargetType | None, Field(description="Only monitors of this type of targets.")] = None,
    limit: Limit = 20,
    offset: Offset = 0,
) -> CallToolResult:
    """List the account's monitors, newest first, with their next run and the result of the last."""
    found: list[Any] = (await InternalClient(ctx).get("/api/monitors", type=type))["monitors"]
    shown = {"monitors": found[offset : offset + limit], "total": len(found)}
    return make_result(shown, hint="use a smaller `limit` and `offset`")


Name = Annotated[str, Field(description="What the monitor is called.")]
Type = Annotated[TargetType, Field(description="What its targets are.")]
GivenTargets = Annotated[
    list[str] | None, Field(description="Up to 10,000 targets; leave it out with list_id.")
]
ListId = Annotated[str | None, Field(description="A contact list to watch instead of targets of its own.")]
GivenFrequency = Annotated[
    Frequency | None, Field(description="How often it runs; with neither this nor cron: monthly.")
]
Cron = Annotated[str | None, Field(description="When it runs, as in `0 9 * * MON-FRI`.")]
Timezone = Annotated[str, Field(description="An IANA zone, such as Europe/Berlin.")]
TrackedFields = Annotated[
    list[str] | None, Field(description="The fields whose changes count, such as dns or whois.registrar.")
]
When = Annotated[
    list[dict[str, Any]] | None,
    Field(
        description="Conditions, of which a change must meet one: a dotted `field`, and one of above,"
        " below, crosses, changes_by, contains, matches (a glob), becomes with its value, as in"
        ' {"field": "threat.abuse_score", "above": 50}.'
    ),
]


@toolbox.tool("Create a monitor", schema_of(MonitorView))
async def create_monitor(
    name: Name,
    type: Type,
    ctx: Ctx,
    targets: GivenTargets = None,
    list_id: ListId = None,
    frequency: GivenFrequency = None,
    cron: Cron = None,
    timezone: Timezone = "UTC",
    tracked_fields: TrackedFields = None,
    when: When = None,
) -> CallToolResult:
    """Create a monitor, which looks targets up repeatedly and records changes. It is active at once.

    Each run costs 1 credit a target that is answered: tell the user the total.
    """
    given = GivenMonitor(name, type, timezone, targets, list_id, frequency, cron, tracked_fields, when)
    return make_result(await InternalClient(ctx).post("/api/monitors", given.make_body()))


@toolbox.tool("Validate a monitor", schema_of(MonitorValidity), reads=True)
async def validate_monitor(
    name: Name,
    type: Type,
    ctx: Ctx,
    targets: GivenTargets = None,
    list_id: ListId = None,
    frequency: GivenFrequency = None,
    cron: Cron = None,
    timezone: Timezone = "UTC",
    tracked_fields: TrackedFields = None,
    when: When = None,
) -> CallToolResult:
    """Report the errors in a monitor, and the sources that its runs would wait for; store nothing."""
    given = GivenMonitor(name, type, timezone, targets, list_id, frequency, cron, tracked_fields, when)
    return make_result(await InternalClient(ctx).post("/api/monitors/validate", given.make_body()))


@dataclass(frozen=True, slots=True)
class GivenMonitor:
    """A monitor as an agent describes it."""

    name: str
    type: TargetType
    timezone: str
    targets: list[str] | None
    list_id: str | None
    frequency: Frequency | None
    cron: str | None
    tracked_fields: list[str] | None
    when: list[dict[str, Any]] | None

    def make_body(self) -> dict[str, Any]:
        """Return the body of the request that creates it."""
        given = {
            "targets": self.targets, "data_source_ref": self.list_id, "frequency": self.frequency,
            "cron": self.cron, "tracked_fields": self.tracked_fields, "when": self.when,
            "data_source_type": None if self.list_id is None else "list",
        }  # fmt: skip
        body: dict[str, Any] = {"name": self.name, "monitor_type": self.type, "timezone": self.timezone}
        return body | {field: value for field, value in given.items() if value is not None}


@toolbox.tool("Run a monitor now", _RUN, outside=True)
async def run_monitor(
    monitor_id: MonitorId, ctx: Ctx, wait_seconds: Seconds = 30, idempotency_key: Key = None
) -> CallToolResult:
    """Run a monitor now, outside its calendar; get_monitor_results then has the changes.

    It costs 1 credit a target that is answered.
    """
    client, path = InternalClient(ctx), f"/api/monitors/{in_path(monitor_id)}"
    with client.waiting(wait_seconds):
        run_id: str = (await client.post(f"{path}/run", key=idempotency_key))["run_id"]
        first = await client.get(f"{path}/runs/{run_id}")
        total = max(first["total_records"], 1)

        def _count_done(run: MonitorRunView) -> int:
            return total if run.completed_at else min(run.processed_records, total - 1)

        if wait_seconds and not first["completed_at"]:
            watched = _watch(client, UUID(first["monitor_id"]), UUID(run_id))
            await client.follow(watched, _count_done, total, wait_seconds)
    return make_result(await client.get(f"{path}/runs/{run_id}"))


def _watch(
    client: InternalClient, monitor_id: UUID, run_id: UUID
) -> AbstractContextManager[Watcher[MonitorRunView]]:
    """Watch a run of a monitor. There are no notifications of its progress."""

    async def look(last: MonitorRunView | None) -> MonitorRunView:
        async with client.services.database.connection() as connection:
            return await runs.get(connection, client.account_id, monitor_id, run_id)

    key = ("monitor run", client.account_id, run_id)
    return client.services.waiter.watch(key, run_id, look, lambda: _LOOK_SECONDS)


@toolbox.tool(
    "Read what a monitor has found",
    schema(
        run=_RUN,
        total={"type": "integer", "description": "How many results there are in all."},
        results={"type": "array", "items": schema_of(ResultView)},
    ),
    reads=True,
)
async def get_monitor_results(
    monitor_id: MonitorId,
    ctx: Ctx,
    run_id: Annotated[str | None, Field(description="Of which run; without it, the last one.")] = None,
    changes_only: Annotated[
        bool, Field(description="Only targets that have changed, and of those the changes alone.")
    ] = True,
    limit: Annotated[int, Field(ge=1, le=100, description="How many targets to give at most.")] = 20,
    offset: Annotated[int, Field(ge=0, le=1_000_000, description="How many to leave out.")] = 0,
    full: Full = False,
) -> CallToolResult:
    """Read the results of a monitor's run: by default its changes (`old` and `new` of each field)."""
    client, path = InternalClient(ctx), f"/api/monitors/{in_path(monitor_id)}"
    if run_id is None:
        runs: list[Any] = (await client.get(f"{path}/runs", limit=1))["runs"]
        if not runs:
            raise ToolError("not_found: This monitor has never run.\nWhat to do: call run_monitor.")
        run_id = str(runs[0]["id"])
    run = await client.get(f"{path}/runs/{in_path(run_id)}")
    page = await client.get(
        f"{path}/runs/{in_path(run_id)}/results", changes_only=changes_only, limit=limit, offset=offset
    )
    left_out = {"id", "email", *(["data"] if changes_only and not full else [])}
    results = [
        {name: value for name, value in one.items() if name not in left_out} for one in page["results"]
    ]
    found = {"run": run, "total": page["total"], "results": results}
    hint = "use a smaller `limit` and `offset`, or set `full`"
    return make_result(found, full=full, hint=hint, untrusted=["results", "run.error"])


@toolbox.tool("Pause or resume a monitor", schema_of(MonitorView), repeatable=True)
async def set_monitor_status(
    monitor_id: MonitorId,
    status: Annotated[Literal["active", "paused"], Field(description="paused: no runs by its calendar.")],
    ctx: Ctx,
) -> CallToolResult:
    """Stop or restart a monitor's runs by its calendar. A run in progress continues."""
    action = "pause" if status == "paused" else "resume"
    return make_result(await InternalClient(ctx).post(f"/api/monitors/{in_path(monitor_id)}/{action}"))


@toolbox.tool("Cancel a run of a monitor", _RUN, destroys=True, repeatable=True)
async def cancel_monitor_run(
    monitor_id: MonitorId,
    run_id: Annotated[str, Field(description="The run's id, from run_monitor.")],
    ctx: Ctx,
) -> CallToolResult:
    """End a run of a monitor now. Finished results stay, and are paid."""
    path = f"/api/monitors/{in_path(monitor_id)}/runs/{in_path(run_id)}/cancel"
    return make_result(await InternalClient(ctx).post(path), untrusted=["error"])


@toolbox.tool("Delete a monitor", DELETED, destroys=True, repeatable=True)
async def delete_monitor(monitor_id: MonitorId, ctx: Ctx) -> CallToolResult:
    """Delete a monitor with its targets, runs and results, for good. set_monitor_status only pauses it."""
    await InternalClient(ctx).delete(f"/api/monitors/{in_path(monitor_id)}")
    return make_result(Deleted)
