"""Runs that a Temporal workflow of their own takes forward: hand-over, what it goes on from, its end.

Such a run has `WORKFLOW` in the place of a shift. It keeps that, and the `claim_id` that its workflow knows,
while it waits or is queued again: then its workflow is there, and whoever claims the run tells it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

from psycopg.types.json import Json

from database import Connection
from language.records import INLINE_BYTES
from models.priorities import ALONE
from models.runs.run_work import ClaimedRun, Of

WORKFLOW = UUID(int=0)
"""The carrier of a run that its own workflow has."""
UNTAKEN_SECONDS = 10
"""A hand-over that nothing has taken up after so long is queued."""
SLOT_SECONDS = 10
"""Waits that workflows have are counted by when they are due, in slots of so long."""
# Below this a wait is not worth a workflow.
_LEAST_WAIT_SECONDS = 60
_PAGE = 100


async def hand_over(connection: Connection, claims: Mapping[UUID, UUID]) -> dict[UUID, bool]:
    """Give claimed runs to workflows of their own, but for those that none took up when they were given last.

    Returns:
        The runs that were one's own still, each with whether it was given.
    """
    cursor = await connection.execute(
        "update run_work w set carrier = case when w.handed_at is null then %s else w.carrier end,"
        " handed_at = case when w.handed_at is null then clock_timestamp() end"
        " from unnest(%s::uuid[], %s::uuid[]) as n (run_id, claim_id)"
        " where w.run_id = n.run_id and w.claim_id = n.claim_id"
        " returning w.run_id, w.handed_at is not null as given",
        (WORKFLOW, list(claims), list(claims.values())),
    )
    return {row["run_id"]: row["given"] for row in await cursor.fetchall()}


async def take_back(connection: Connection, run_id: UUID, claim_id: UUID, shift_id: UUID) -> UUID | None:
    """Take a run back whose workflow could not be told.

    Returns:
        The new `claim_id`, so that a workflow which was told after all is refused; None if it goes on.
    """
    cursor = await connection.execute(
        "update run_work set carrier = %s, handed_at = null, claim_id = gen_random_uuid()"
        " where run_id = %s and claim_id = %s and handed_at is not null returning claim_id",
        (shift_id, run_id, claim_id),
    )
    row = await cursor.fetchone()
    return row["claim_id"] if row else None


async def put_back(connection: Connection, claims: Mapping[UUID, UUID]) -> None:
    """Queue runs that nothing but a workflow is to take forward, and for which there is no place."""
    await connection.execute(
        "update run_work w set status = 'queued', carrier = null, handed_at = null, claim_id = null,"
        " own = true, available_at = clock_timestamp()"
        " from unnest(%s::uuid[], %s::uuid[]) as n (run_id, claim_id)"
        " where w.run_id = n.run_id and w.claim_id = n.claim_id"
        " and (w.carrier <> %s or w.handed_at is not null)",
        (list(claims), list(claims.values()), WORKFLOW),
    )


class OwnRow(NamedTuple):
    """A run as its rows have it, for its workflow.

    Attributes:
        progress_no: how often `progress` was written.
        waits_until: of a run that only waits.
    """

    of: Of
    run: ClaimedRun
    progress_no: int
    waits_until: datetime | None


_LOAD: LiteralString = """
select w.account_id, w.automation_id, w.version, w.run_id, w.claim_id, w.started_at, w.bytes, w.progress,
  w.progress_no, w.parent_run_id, w.wake_at, w.status = 'waiting' as waits, r.queued_at,
  case when w.bytes <= %(inline)s then r.input end as input,
  case when w.bytes <= %(inline)s then r.request end as request
from run_work w join runs r on r.id = w.run_id
where w.run_id = %(run)s and r.id = %(run)s and w.claim_id = %(claim)s and w.carrier = %(workflow)s
  and w.status <> 'queued'
"""


async def load(connection: Connection, run_id: UUID, claim_id: UUID) -> OwnRow | None:
    """Read a run for its workflow, and note that it was taken up; None if it is somebody else's."""
    mine = {"run": run_id, "claim": claim_id, "workflow": WORKFLOW, "inline": INLINE_BYTES}
    await connection.execute(
        "update run_work set handed_at = null"
        " where run_id = %(run)s and claim_id = %(claim)s and handed_at is not null",
        mine,
    )
    cursor = await connection.execute(_LOAD, mine)
    row = await cursor.fetchone()
    if row is None:
        return None
    run = ClaimedRun(
        run_id, claim_id, row["started_at"], row["input"], row["request"], row["bytes"], True,
        row["progress"], unloaded=row["bytes"] > INLINE_BYTES, queued_at=row["queued_at"],
        parent_run_id=row["parent_run_id"],
    )  # fmt: skip
    of = Of(row["account_id"], row["automation_id"], row["version"])
    return OwnRow(of, run, row["progress_no"], row["wake_at"] if row["waits"] else None)


async def find_end(connection: Connection, run_id: UUID) -> str | None:
    """Return how a run has ended; None if it has not, or is unknown."""
    cursor = await connection.execute(
        "select status from runs where id = %s and completed_at is not null", (run_id,)
    )
    row = await cursor.fetchone()
    return row["status"] if row else None


async def change_progress(
    connection: Connection, run_id: UUID, claim_id: UUID, change: Callable[[Any], str], *, went_on: bool
) -> bool:
    """Change the progress of a run beside others that do; returns whether it was the workflow's still.

    Args:
        connection: outside a transaction.
        run_id: of the run.
        claim_id: the workflow's.
        change: makes the new progress, as JSON, of what is stored.
        went_on: a call has come to its end: the run was not lost with its worker.
    """
    async with connection.transaction():
        cursor = await connection.execute(
            "select progress from run_work where run_id = %s and claim_id = %s and status = 'running'"
            " for update",
            (run_id, claim_id),
        )
        row = await cursor.fetchone()
        if row is None:
            return False
        await connection.execute(
            "update run_work set progress = %s, progress_no = progress_no + 1,"
            " lost = case when %s then 0 else lost end where run_id = %s",
            (Json(change(row["progress"]), dumps=str), went_on, run_id),
        )
    return True


async def find_of(connection: Connection, run_id: UUID, claim_id: UUID) -> Of | None:
    """Return whose and of what a run is that its workflow has under this claim, or had last; else None."""
    cursor = await connection.execute(
        "select account_id, automation_id, version from run_work"
        " where run_id = %s and carrier = %s and claim_id = %s",
        (run_id, WORKFLOW, claim_id),
    )
    row = await cursor.fetchone()
    return Of(**row) if row else None


async def wake(connection: Connection, run_id: UUID) -> bool:
    """Queue a run whose timer has ended; returns whether it still waited."""
    cursor = await connection.execute(
        "update run_work set status = 'queued', available_at = clock_timestamp(), wake_at = null"
        " where run_id = %s and status = 'waiting' and wake_at <= clock_timestamp()",
        (run_id,),
    )
    return bool(cursor.rowcount)


async def queue_untaken(connection: Connection) -> int:
    """Queue runs that were handed over and that nothing has taken up, for a shift; returns how many."""
    cursor = await connection.execute(
        "update run_work set status = 'queued', carrier = null, claim_id = null,"
        " available_at = clock_timestamp() where run_id in (select run_id from run_work"
        " where carrier = %s and handed_at < statement_timestamp() - make_interval(secs => %s)"
        " order by run_id limit 1000 for update skip locked)",
        (WORKFLOW, UNTAKEN_SECONDS),
    )
    return cursor.rowcount


async def queue_alone(connection: Connection, run_id: UUID, claim_id: UUID) -> None:
    """Queue a run with which workers were lost, for a shift that has nothing beside it."""
    await connection.execute(
        "update run_work set status = 'queued', carrier = null, claim_id = null, own = false,"
        " lost = lost + 2, available_at = clock_timestamp(), priority = priority %% %(alone)s + %(alone)s"
        " where run_id = %(run)s and claim_id = %(claim)s",
        {"run": run_id, "claim": claim_id, "alone": ALONE},
    )


async def queue_lost(connection: Connection, run_id: UUID, claim_id: UUID) -> bool:
    """Queue a run whose workflow is gone, if nobody has changed it since it was looked at."""
    cursor = await connection.execute(
        "update run_work set status = 'queued', carrier = null, claim_id = null, wake_at = null,"
        " available_at = clock_timestamp(), lost = lost + (status = 'running')::int"
        " where run_id = %s and carrier = %s and claim_id = %s and status <> 'queued'",
        (run_id, WORKFLOW, claim_id),
    )
    return bool(cursor.rowcount)


class Waiting(NamedTuple):
    """A run that waits, and that no workflow has.

    Attributes:
        execution: what its workflow says of who takes its runs forward.
    """

    run_id: UUID
    account_id: UUID
    automation_id: UUID
    version: int
    priority: int
    parent_run_id: UUID | None
    wake_at: datetime
    execution: str | None


async def count_waits(connection: Connection, most: int) -> dict[int, int]:
    """Count the waits that workflows have, up to so many, by the slot of the epoch that they are due in."""
    cursor = await connection.execute(
        "select floor(extract(epoch from wake_at) / %s)::bigint as slot, count(*)::int as runs from ("
        " select wake_at from run_work where carrier = %s and status = 'waiting' limit %s) w group by 1",
        (SLOT_SECONDS, WORKFLOW, most),
    )
    return {row["slot"]: row["runs"] for row in await cursor.fetchall()}


async def find_long_waits(connection: Connection, after: datetime | None) -> list[Waiting]:
    """Find runs that wait for longer than a minute and that no workflow has, by when they are due.

    Args:
        connection: any.
        after: those that are due later than this.
    """
    cursor = await connection.execute(
        "select w.run_id, w.account_id, w.automation_id, w.version, w.priority, w.parent_run_id, w.wake_at,"
        " a.execution from (select * from run_work where status = 'waiting' and carrier is null"
        " and wake_at > greatest(%s, statement_timestamp() + make_interval(secs => %s))"
        " order by wake_at limit %s) w join automations a on a.id = w.automation_id order by w.wake_at",
        (after, _LEAST_WAIT_SECONDS, _PAGE),
    )
    return [Waiting(**row) for row in await cursor.fetchall()]


async def give_wait(connection: Connection, run_id: UUID) -> tuple[UUID, str] | None:
    """Give a run that waits to a workflow of its own.

    Returns:
        The claim by which the workflow is known to have it, and what started the run; None if that does not
        wait any more.
    """
    cursor = await connection.execute(
        "update run_work set carrier = %s, claim_id = gen_random_uuid()"
        " where run_id = %s and status = 'waiting' and carrier is null returning claim_id",
        (WORKFLOW, run_id),
    )
    given = await cursor.fetchone()
    cursor = await connection.execute("select trigger from runs where id = %s", (run_id,))
    row = await cursor.fetchone()
    return (given["claim_id"], row["trigger"]) if given and row else None


async def take_wait_back(connection: Connection, run_id: UUID, claim_id: UUID) -> None:
    """Take back a run that waits, whose workflow could not be started."""
    await connection.execute(
        "update run_work set carrier = null, claim_id = null"
        " where run_id = %s and claim_id = %s and status = 'waiting'",
        (run_id, claim_id),
    )


class Seen(NamedTuple):
    """A run that is its workflow's.

    Attributes:
        claim_id: that its workflow knows.
        since: when it was queued last.
        handed: it was given to its workflow, which has not taken it up yet.
    """

    run_id: UUID
    account_id: UUID
    claim_id: UUID
    since: datetime
    handed: bool


async def find_all(connection: Connection, after: UUID, limit: int) -> list[Seen]:
    """Find runs that are their workflows', by id, from after this one."""
    cursor = await connection.execute(
        "select run_id, account_id, claim_id, available_at as since, handed_at is not null as handed"
        " from run_work"
        " where carrier = %s and claim_id is not null and run_id > %s order by run_id limit %s",
        (WORKFLOW, after, limit),
    )
    return [Seen(**row) for row in await cursor.fetchall()]


async def find_at_work(connection: Connection, run_ids: Collection[UUID]) -> set[UUID]:
    """Find those of these runs that their workflows take forward now."""
    cursor = await connection.execute(
        "select run_id from run_work where run_id = any(%s) and carrier = %s and status = 'running'",
        (list(run_ids), WORKFLOW),
    )
    return {row["run_id"] for row in await cursor.fetchall()}


async def find_woken(connection: Connection, told: Collection[UUID]) -> list[UUID]:
    """Find runs that their workflows take forward and that should look for what has come.

    Args:
        connection: any.
        told: those whose workflows know.
    """
    cursor = await connection.execute(
        "select run_id from run_work where carrier = %s and status = 'running' and woken"
        " and run_id <> all(%s) limit 100",
        (WORKFLOW, list(told)),
    )
    return [row["run_id"] for row in await cursor.fetchall()]
