"""The states of the newest runs, jobs, runs of monitors and approvals of several accounts at once."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, LiteralString, NamedTuple
from uuid import UUID

from database import Connection
from models.runs.runs import STATUS

Kind = Literal["run", "job", "monitor_run", "approval"]

NEWEST = 100
"""The number of things of each kind that are read of each account."""


class State(NamedTuple):
    """The state of one thing. The id of an approval is that of its run, a slash, and its step."""

    account_id: UUID
    kind: Kind
    id: str
    state: str


WAITING_STEPS: LiteralString = """
  select w.run_id, k.step_id from run_work w
  join automation_versions v on v.automation_id = w.automation_id and v.version = w.version
  cross join lateral json_object_keys(w.progress->'steps') as k (step_id)
  where w.run_id = any(n.ids) and exists (
    select from json_array_elements(v.definition->'steps') d
    where d->>'id' = k.step_id and d->>'type' = 'wait'
  ) and not exists (select from run_answers o where o.run_id = w.run_id and o.step_id = k.step_id)
"""
"""The steps that wait for an answer in the runs `n.ids`."""

# Each part reads a bounded range of an index for each account.
_READ: LiteralString = (
    """
select a.id as account_id, 'run' as kind, r.id::text as id, """
    + STATUS
    + """ as state
from unnest(%(accounts)s::uuid[]) as a (id)
cross join lateral (
  select id, status from runs where account_id = a.id order by id desc limit %(newest)s
) r
left join run_work w on w.run_id = r.id where r.status is not null or w.run_id is not null
union all
select a.id, 'job', j.id::text, j.status from unnest(%(accounts)s::uuid[]) as a (id)
cross join lateral (
  select id, status from jobs where account_id = a.id and deleted_at is null order by id desc limit %(newest)s
) j
union all
select a.id, 'monitor_run', m.id::text, m.status from unnest(%(accounts)s::uuid[]) as a (id)
cross join lateral (
  select id, status from monitor_runs where account_id = a.id order by id desc limit %(newest)s
) m
union all
select a.id, 'approval', s.run_id || '/' || s.step_id, 'waiting' from unnest(%(accounts)s::uuid[]) as a (id)
cross join lateral (
  select array(
    select run_id from run_work where account_id = a.id and status = 'waiting' order by run_id desc
    limit %(newest)s) as ids
) n
cross join lateral ("""
    + WAITING_STEPS
    + ") s"
)
_ENDED: LiteralString = (
    "select account_id, 'run' as kind, id::text as id, status as state from runs"
    " where id = any(%s) and account_id = any(%s) and status is not null"
)


async def read(connection: Connection, accounts: Collection[UUID]) -> list[State]:
    """Return the states of the newest things of each account."""
    cursor = await connection.execute(_READ, {"accounts": list(accounts), "newest": NEWEST})
    return [State(**row) for row in await cursor.fetchall()]


async def read_ended(
    connection: Connection, accounts: Collection[UUID], run_ids: Collection[UUID]
) -> list[State]:
    """Return how these runs ended, of those that are of these accounts."""
    cursor = await connection.execute(_ENDED, (list(run_ids), list(accounts)))
    return [State(**row) for row in await cursor.fetchall()]
