"""Runs with a Temporal workflow of their own: hand-over, the state it continues from, its end.

The carrier of such a run is `WORKFLOW` instead of a shift. The run keeps it, and the `claim_id` that its
workflow has, while it waits or is queued again: its workflow still exists, and the worker that claims the run
signals it.
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
from models.runs.run_work import LOCKED_CLAIMS, ClaimedRun, VersionRef
from tracing import Origin

WORKFLOW = UUID(int=0)
"""The carrier of a run that has its own workflow."""
UNTAKEN_SECONDS = 10
"""A run that was handed over but not taken up is queued after this time."""
SLOT_SECONDS = 10
"""Waits of workflows are counted by the time at which they end, in slots of this length."""
# A shorter wait is not worth a workflow.
_LEAST_WAIT_SECONDS = 60
_PAGE = 100


async def hand_over(
    connection: Connection, claims: Mapping[UUID, UUID], *, always: bool = False
) -> dict[UUID, bool]:
    """Hand claimed runs to workflows of their own, except those that no workflow took up the last time.

    Args:
        connection: outside a transaction.
        claims: the runs with their claims.
        always: whether those too are handed over, because only workflows may carry them.

    Returns:
        The runs that were still the caller's, each with whether it was handed over.
    """
    cursor = await connection.execute(
        "update run_work w set"
        " carrier = case when w.handed_at is null or n.always then %s else w.carrier end,"
        " handed_at = case when w.handed_at is null or n.always then clock_timestamp() end"
        f" from {LOCKED_CLAIMS}, (select %s::boolean as always) n where w.run_id = locked.run_id"
        " returning w.run_id, w.handed_at is not null as given",
        (WORKFLOW, list(claims), list(claims.values()), always),
    )
    return {row["run_id"]: row["given"] for row in await cursor.fetchall()}


async def take_back(connection: Connection, run_id: UUID, claim_id: UUID, shift_id: UUID) -> UUID | None:
    """Take back a run whose workflow could not be started or signalled.

    Returns:
        The new `claim_id`, which fences off a workflow that was reached after all; None if the workflow has
        taken the run up.
    """
    cursor = await connection.execute(
        "update run_work set carrier = %s, handed_at = null, claim_id = gen_random_uuid()"
        " where run_id = %s and claim_id = %s and handed_at is not null returning claim_id",
        (shift_id, run_id, claim_id),
    )
    row = await cursor.fetchone()
    return row["claim_id"] if row else None


async def put_back(connection: Connection, claims: Mapping[UUID, UUID]) -> None:
    """Queue runs that only a workflow may carry, when there is no place for one."""
    await connection.execute(
        "update run_work w set status = 'queued', carrier = null, handed_at = null, claim_id = null,"
        " own = true, available_at = clock_timestamp()"
        f" from {LOCKED_CLAIMS} where w.run_id = locked.run_id"
        " and (w.carrier <> %s or w.handed_at is not null)",
        (list(claims), list(claims.values()), WORKFLOW),
    )


class OwnRow(NamedTuple):
    """A run's rows, for its workflow.

    Attributes:
        progress_no: the number of times that `progress` was written.
        waits_until: the end of the wait, for a run that only waits.
    """

    of: VersionRef
    run: ClaimedRun
    progress_no: int
    waits_until: datetime | None


_LOAD: LiteralString = """
select w.account_id, w.automation_id, w.version, w.run_id, w.claim_id, w.started_at, w.bytes, w.progress,
  w.progress_no, w.parent_run_id, w.wake_at, w.status = 'waiting' as waits, r.queued_at,
  r.traceparent, r.request_id,
  case when w.bytes <= %(inline)s then r.input end as input,
  case when w.bytes <= %(inline)s then r.request end as request
from run_work w join runs r on r.id = w.run_id
where w.run_id = %(run)s and r.id = %(run)s and w.claim_id = %(claim)s and w.carrier = %(workflow)s
  and w.status <> 'queued'
"""


async def load(
    connection: Connection, run_id: UUID, claim_id: UUID, *, decides: bool = False
) -> OwnRow | None:
    """Read a run for its workflow, and record that it was taken up.

    Args:
        connection: outside a transaction.
        run_id: the run.
        claim_id: the claim of its workflow.
        decides: whether its answers are read next, so that it need not be woken for those that are there.

    Returns:
        None if the run has another carrier.
    """
    mine = {"run": run_id, "claim": claim_id, "workflow": WORKFLOW, "inline": INLINE_BYTES}
    await connection.execute(
        "update run_work set handed_at = null, woken = woken and not %(decides)s"
        " where run_id = %(run)s and claim_id = %(claim)s"
        " and (handed_at is not null or woken and %(decides)s)",
        {**mine, "decides": decides},
    )
    cursor = await connection.execute(_LOAD, mine)
    row = await cursor.fetchone()
    if row is None:
        return None
    run = ClaimedRun(
        run_id, claim_id, row["started_at"], row["input"], row["request"], row["bytes"], True,
        row["progress"], unloaded=row["bytes"] > INLINE_BYTES, queued_at=row["queued_at"],
        parent_run_id=row["parent_run_id"], origin=Origin(row["traceparent"], row["request_id"]),
    )  # fmt: skip
    of = VersionRef(row["account_id"], row["automation_id"], row["version"])
    return OwnRow(of, run, row["progress_no"], row["wake_at"] if row["waits"] else None)


async def find_end(connection: Connection, run_id: UUID) -> str | None:
    """Return the final status of a run; None if it has not ended, or is unknown."""
    cursor = await connection.execute(
        "select status from runs where id = %s and completed_at is not null", (run_id,)
    )
    row = await cursor.fetchone()
    return row["status"] if row else None


async def change_progress(
    connection: Connection, run_id: UUID, claim_id: UUID, change: Callable[[Any], str], *, went_on: bool
) -> bool:
    """Change the progress of a run safely beside other writers; return whether it still had this workflow.

    Args:
        connection: outside a transaction.
        run_id: the run.
        claim_id: the workflow's claim.
        change: returns the new progress, as JSON, for the stored one.
        went_on: whether a call has ended: then the run was not lost with its worker.
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


async def find_of(connection: Connection, run_id: UUID, claim_id: UUID) -> VersionRef | None:
    """Return the owner, workflow and version of a run whose workflow has this claim, also while it waits.

    Otherwise return None.
    """
    cursor = await connection.execute(
        "select account_id, automation_id, version from run_work"
        " where run_id = %s and carrier = %s and claim_id = %s",
        (run_id, WORKFLOW, claim_id),
    )
    row = await cursor.fetchone()
    return VersionRef(**row) if row else None


async def wake(connection: Connection, run_id: UUID) -> bool:
    """Queue a run whose timer has ended; return whether it was still waiting.

    A difference of clocks that is too small to be measured ends a timer early.
    """
    cursor = await connection.execute(
        "update run_work set status = 'queued', available_at = clock_timestamp(), wake_at = null"
        " where run_id = %s and status = 'waiting' and wake_at <= clock_timestamp() + interval '1 second'",
        (run_id,),
    )
    return bool(cursor.rowcount)


_IS_UNTAKEN: LiteralString = "carrier = %s and handed_at < statement_timestamp() - make_interval(secs => %s)"


async def find_untaken(connection: Connection) -> dict[UUID, UUID]:
    """Return runs that were handed over but not taken up, each with its account."""
    cursor = await connection.execute(
        f"select run_id, account_id from run_work where {_IS_UNTAKEN} limit 1000", (WORKFLOW, UNTAKEN_SECONDS)
    )
    return {row["run_id"]: row["account_id"] for row in await cursor.fetchall()}


async def queue_untaken(connection: Connection, run_ids: Collection[UUID]) -> int:
    """Queue those of these runs that still nobody has taken up; return their number."""
    cursor = await connection.execute(
        "update run_work set status = 'queued', carrier = null, claim_id = null,"
        " available_at = clock_timestamp() where run_id = any(array(select run_id from run_work"
        f" where run_id = any(%s) and {_IS_UNTAKEN} order by run_id for update skip locked))",
        (list(run_ids), WORKFLOW, UNTAKEN_SECONDS),
    )
    return cursor.rowcount


async def queue_alone(connection: Connection, run_id: UUID, claim_id: UUID) -> None:
    """Queue a run with which workers were lost, for a shift that runs nothing beside it."""
    await connection.execute(
        "update run_work set status = 'queued', carrier = null, claim_id = null, own = false,"
        # Its other activities learn of it by their heartbeats, and break off their calls first.
        " lost = lost + 2, available_at = clock_timestamp() + interval '10 seconds',"
        " priority = priority %% %(alone)s + %(alone)s"
        " where run_id = %(run)s and claim_id = %(claim)s",
        {"run": run_id, "claim": claim_id, "alone": ALONE},
    )


async def queue_lost(connection: Connection, run_id: UUID, claim_id: UUID) -> bool:
    """Queue a run whose workflow is gone, unless it was changed since it was read; return whether it was."""
    cursor = await connection.execute(
        "update run_work set status = 'queued', carrier = null, claim_id = null, wake_at = null,"
        " available_at = clock_timestamp(), lost = lost + (status = 'running')::int"
        " where run_id = %s and carrier = %s and claim_id = %s and status <> 'queued'",
        (run_id, WORKFLOW, claim_id),
    )
    return bool(cursor.rowcount)


class WaitingRun(NamedTuple):
    """A run that waits without a workflow.

    Attributes:
        execution: the setting of its workflow for the carrier of its runs.
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
    """Count up to `most` waits of workflows, by the time slot, since the epoch, in which they end."""
    cursor = await connection.execute(
        "select floor(extract(epoch from wake_at) / %s)::bigint as slot, count(*)::int as runs from ("
        " select wake_at from run_work where carrier = %s and status = 'waiting' limit %s) w group by 1",
        (SLOT_SECONDS, WORKFLOW, most),
    )
    return {row["slot"]: row["runs"] for row in await cursor.fetchall()}


async def find_long_waits(connection: Connection, after: datetime | None) -> list[WaitingRun]:
    """Return runs without a workflow that wait for longer than a minute, by the end of their wait.

    Args:
        connection: inside or outside a transaction.
        after: only waits that end later than this.
    """
    cursor = await connection.execute(
        "select w.run_id, w.account_id, w.automation_id, w.version, w.priority, w.parent_run_id, w.wake_at,"
        " a.execution from (select * from run_work where status = 'waiting' and carrier is null"
        " and wake_at > greatest(%s, statement_timestamp() + make_interval(secs => %s))"
        " order by wake_at limit %s) w join automations a on a.id = w.automation_id order by w.wake_at",
        (after, _LEAST_WAIT_SECONDS, _PAGE),
    )
    return [WaitingRun(**row) for row in await cursor.fetchall()]


async def give_wait(connection: Connection, run_id: UUID) -> tuple[UUID, str] | None:
    """Hand a waiting run to a workflow of its own.

    Returns:
        The claim under which the workflow has the run, and the run's trigger; None if the run no longer
        waits.
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
    """Take back a waiting run whose workflow could not be started."""
    await connection.execute(
        "update run_work set carrier = null, claim_id = null"
        " where run_id = %s and claim_id = %s and status = 'waiting'",
        (run_id, claim_id),
    )


class CarriedRun(NamedTuple):
    """A run that has a workflow of its own.

    Attributes:
        claim_id: the claim that its workflow has.
        since: the time when it was last queued.
        handed: whether it was handed to its workflow but not yet taken up.
        at_work: whether a call of it should be under way.
    """

    run_id: UUID
    account_id: UUID
    claim_id: UUID
    since: datetime
    handed: bool
    at_work: bool


async def find_all(connection: Connection, after: UUID, limit: int) -> list[CarriedRun]:
    """Return runs that have workflows of their own, by id, after this id."""
    cursor = await connection.execute(
        "select run_id, account_id, claim_id, available_at as since, handed_at is not null as handed,"
        " status = 'running' and wake_at is null and handed_at is null as at_work from run_work"
        " where carrier = %s and claim_id is not null and run_id > %s order by run_id limit %s",
        (WORKFLOW, after, limit),
    )
    return [CarriedRun(**row) for row in await cursor.fetchall()]


async def find_at_work(connection: Connection, run_ids: Collection[UUID]) -> set[UUID]:
    """Return those of these runs that are running in their workflows now."""
    cursor = await connection.execute(
        "select run_id from run_work where run_id = any(%s) and carrier = %s and status = 'running'",
        (list(run_ids), WORKFLOW),
    )
    return {row["run_id"] for row in await cursor.fetchall()}


async def find_woken(connection: Connection, told: Collection[UUID]) -> list[UUID]:
    """Return runs in workflows that must check for new answers.

    Args:
        connection: inside or outside a transaction.
        told: runs to leave out, because their workflows were already signalled.
    """
    cursor = await connection.execute(
        "select run_id from run_work where carrier = %s and status = 'running' and woken"
        " and run_id <> all(%s) limit 100",
        (WORKFLOW, list(told)),
    )
    return [row["run_id"] for row in await cursor.fetchall()]
