"""The runs that a bulk action takes: those of its filter that existed when its dry run was made."""

from __future__ import annotations

from dataclasses import replace
from typing import LiteralString, NamedTuple, cast
from uuid import UUID

from database import Connection
from models.errors import Conflict
from models.runs import search_values
from models.runs.confirmations import Action, moment_of
from models.runs.retries import first_retry_key
from models.runs.run_queries import SCANNED, RunQuery, parameters_of, select_end, select_runs
from models.runs.run_views import RunStatus
from models.runs.search_values import Place

MOST = 10_000
"""The most runs of an action."""
STATUSES: dict[Action, tuple[RunStatus, ...]] = {
    "retry": ("failed", "cancelled"), "cancel": ("queued", "running", "waiting"),
}  # fmt: skip
"""The statuses of the runs that each action takes."""
_MOST_PAGES = 10
_COLUMNS: LiteralString = "c.id, c.automation_id, c.version, c.completed_at"


class ChosenRun(NamedTuple):
    """A run to take, and the version that it ran."""

    id: UUID
    automation_id: UUID
    version: int


async def choose(
    connection: Connection, account_id: UUID, action: Action, query: RunQuery, action_id: UUID
) -> list[ChosenRun]:
    """Return the runs that an action takes, oldest first: of a retry, none that was retried already.

    Args:
        connection: in a transaction of its own, which sees the runs of one moment.
        account_id: the owner.
        action: what is to be done to them.
        query: the filter.
        action_id: the id of the action, which has the moment of its dry run.

    Raises:
        Conflict: `too_many_chosen`.
        Invalid: too many values begin as `q` does.
    """
    await connection.execute("set transaction isolation level repeatable read, read only")
    if query.is_beginning and query.value is not None:
        await search_values.check_beginning(connection, account_id, query.value, Place("/filter/q"))
    statuses = STATUSES[action] if query.status is None else (query.status,)
    chosen: list[ChosenRun] = []
    for status in statuses:
        of_status = replace(query, status=status, before=action_id, limit=MOST)
        chosen += await _choose_of(connection, account_id, action, of_status, action_id)
        if len(chosen) > MOST:
            raise _too_many(f"more than {MOST:,} runs")
    return sorted(chosen)


async def _choose_of(
    connection: Connection, account_id: UUID, action: Action, query: RunQuery, action_id: UUID
) -> list[ChosenRun]:
    moment, chosen = moment_of(action_id), list[ChosenRun]()
    for _ in range(_MOST_PAGES):
        wanted = parameters_of(query, account_id)
        cursor = await connection.execute(select_runs(query, _COLUMNS), wanted)
        found = [
            ChosenRun(row["id"], row["automation_id"], row["version"])
            for row in await cursor.fetchall()
            if row["completed_at"] is None or row["completed_at"] <= moment
        ]
        chosen += await _leave_out_retried(connection, found) if action == "retry" else found
        if len(chosen) > MOST or query.parent_run_id is not None:
            return chosen
        end = await (await connection.execute(select_end(query), wanted)).fetchone()
        if end is None or end["looked_at"] < SCANNED:
            return chosen
        query = replace(query, before=cast(UUID, end["id"]))
    raise _too_many(f"more than {_MOST_PAGES * SCANNED:,} runs to look through")


async def _leave_out_retried(connection: Connection, runs: list[ChosenRun]) -> list[ChosenRun]:
    keys = [first_retry_key(run.id) for run in runs]
    cursor = await connection.execute(
        "select dedupe_key from unnest(%s::uuid[], %s::text[]) as wanted (automation_id, dedupe_key)"
        " join run_dedupe_keys using (automation_id, dedupe_key)",
        ([run.automation_id for run in runs], keys),
    )
    retried = {row["dedupe_key"] for row in await cursor.fetchall()}
    return [run for run, key in zip(runs, keys, strict=True) if key not in retried]


def _too_many(found: str) -> Conflict:
    message = (
        f"The filter has {found}, and an action takes {MOST:,}: narrow it by since and until, or by"
        " workflow_id."
    )
    return Conflict("too_many_chosen", message, limit=MOST)
