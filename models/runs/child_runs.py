"""Child runs: runs of other workflows that steps of a run begin, and their results."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

from database import Connection
from models.run_values import GATHERED
from models.runs.run_views import RunStatus
from models.runs.run_writes import MAX_DEPTH

TOO_DEEP = (
    f"Events and runs that follow from each other end after {MAX_DEPTH}: this one would be too many."
    " See whether an event starts the very workflow that it comes from."
)
"""The message for a chain of events and runs that is too long."""
MAX_OUTPUT_BYTES = 1024 * 1024
"""The largest output of a child that its parent receives."""


class Key(NamedTuple):
    """The key of a child: the workflow that it runs, and a text that names the step or item."""

    automation_id: UUID
    name: str


class Child(NamedTuple):
    """A child run.

    Attributes:
        workflow: the name of its workflow.
        status: its status.
        error: why it failed.
        output: its output, if it has ended and `size` is not too large.
        size: the size of the output, in bytes of JSON.
    """

    run_id: UUID
    workflow: str
    status: RunStatus
    error: dict[str, Any] | None
    output: Any
    size: int


def key_of(automation_id: UUID, parent_run_id: UUID, step_id: str, item: int | None) -> Key:
    """Return the key of the child that a step, or an item of it, begins: there is never a second one."""
    which = step_id if item is None else f"{step_id}/{item}"
    return Key(automation_id, f"parent/{parent_run_id}/{which}")


_FIND: LiteralString = """
select r.id, a.name, coalesce(r.status, 'running') as status, r.error, s.size,
  case when s.size <= %(most)s then s.output end as output
from runs r join automations a on a.id = r.automation_id left join lateral (
  select o.output, octet_length(o.output::text) as size from (
    select case when s.gathered then (
      select {gathered} from run_step_items i where i.run_id = s.run_id and i.step_id = s.step_id)
    else s.output end as output
    from run_steps s where s.run_id = r.id and s.step_id = r.output_of offset 0) o) s on true
where r.id = any(%(ids)s)
""".replace("{gathered}", GATHERED)


async def find(connection: Connection, keys: Sequence[Key]) -> list[Child | None]:
    """Return children by their keys; None in place of a child that has not begun."""
    cursor = await connection.execute(
        "select automation_id, dedupe_key, run_id from run_dedupe_keys where (automation_id, dedupe_key) in"
        " (select * from unnest(%s::uuid[], %s::text[]))",
        ([key.automation_id for key in keys], [key.name for key in keys]),
    )
    ids = {Key(row["automation_id"], row["dedupe_key"]): row["run_id"] for row in await cursor.fetchall()}
    cursor = await connection.execute(_FIND, {"ids": list(ids.values()), "most": MAX_OUTPUT_BYTES})
    found = {
        row["id"]: Child(row["id"], row["name"], row["status"], row["error"], row["output"], row["size"] or 0)
        for row in await cursor.fetchall()
    }
    return [found.get(ids[key]) if key in ids else None for key in keys]


class ChildPosition(NamedTuple):
    """The position of a child below other runs.

    Attributes:
        depth: the number of runs above it; more than `MAX_DEPTH` if the child is not allowed.
        root_run_id: the first of these runs.
    """

    depth: int
    root_run_id: UUID


_LOCK_PARENTS: LiteralString = """
select run_id, coalesce(root_run_id, run_id) as root from run_work where run_id = any(%s)
order by run_id for key share skip locked
"""


async def lock_place_below(connection: Connection, parent_run_id: UUID) -> ChildPosition | None:
    """Return the place of a child of a run, and lock the run against its end until the commit.

    Returns:
        None if the run has ended.
    """
    cursor = await connection.execute(
        "select coalesce(root_run_id, run_id) as root from run_work where run_id = %s for key share",
        (parent_run_id,),
    )
    if (parent := await cursor.fetchone()) is None:
        return None
    return ChildPosition(await depth_of_next(connection, parent_run_id), parent["root"])


async def lock_places_below(
    connection: Connection, parent_run_ids: Collection[UUID]
) -> tuple[dict[UUID, ChildPosition], set[UUID]]:
    """Return the places of children of several runs, as `lock_place_below`, without waiting for a lock.

    A wait could be a deadlock: a cancellation locks the runs of a family in an order of its own.

    Returns:
        The places by parent, and the parents that somebody else has locked. A parent in neither has ended.
    """
    cursor = await connection.execute(_LOCK_PARENTS, (list(parent_run_ids),))
    rows = await cursor.fetchall()
    cursor = await connection.execute(
        "select id, depth from runs where id = any(%s)", ([row["run_id"] for row in rows],)
    )
    depths = {row["id"]: row["depth"] or 0 for row in await cursor.fetchall()}
    places = {row["run_id"]: ChildPosition(1 + depths[row["run_id"]], row["root"]) for row in rows}
    busy = set[UUID]()
    if missing := [run_id for run_id in parent_run_ids if run_id not in places]:
        cursor = await connection.execute("select run_id from run_work where run_id = any(%s)", (missing,))
        busy = {row["run_id"] for row in await cursor.fetchall()}
    return places, busy


async def depth_of_next(connection: Connection, run_id: UUID) -> int:
    """Return the number of runs above one that follows from this run, by a step, an event or a request."""
    cursor = await connection.execute("select depth from runs where id = %s", (run_id,))
    row = await cursor.fetchone()
    return 1 + (row["depth"] or 0 if row else 0)


def is_too_deep(depth: int) -> bool:
    """Return whether this number of runs above a run is too high."""
    return depth > MAX_DEPTH
