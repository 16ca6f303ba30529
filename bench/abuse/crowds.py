"""Crowds: very many workflows, queues, accounts or runs, beside a neighbour whose runs must start at once.

The neighbour is an honest account, whose events come as those of the crowd do. How soon its runs begin is
read from the record: from when they were accepted to when they were claimed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, LiteralString
from urllib.parse import urlsplit
from uuid import UUID

import psycopg

from bench.abuse.cases import Tally, case
from bench.abuse.families import log_of_postgres
from bench.abuse.target import Account, Target
from bench.claims import new_account, new_target
from bench.families import find_faults
from database import Database
from models.gates import NONE

_BOUND_MS = 100
_PAUSE = 0.02
_RUN_SECONDS = 60
_NAP: dict[str, Any] = {"id": "nap", "type": "delay", "config": {"seconds": 1}}
_YEAR: dict[str, Any] = {"id": "year", "type": "delay", "config": {"days": 365}}
# Copies of a workflow, each in a separate account if `apart` is true.
_COPY: tuple[LiteralString, ...] = (
    "create temporary table copies as select uuidv7() as id,"
    " case when %(apart)s then uuidv7() else %(account)s end as account_id"
    " from generate_series(1, %(count)s)",
    "insert into accounts (id, email, password_hash, created_at, updated_at)"
    " select account_id, account_id || '@example.com', '-', now(), now() from copies where %(apart)s",
    "insert into automations select (jsonb_populate_record(a, jsonb_build_object('id', c.id, 'account_id',"
    " c.account_id, 'ingest_token_hash', sha256(c.id::text::bytea)))).* from automations a, copies c"
    " where a.id = %(automation)s",
    "insert into automation_versions select (jsonb_populate_record(v, jsonb_build_object('automation_id',"
    " c.id))).* from automation_versions v, copies c where v.automation_id = %(automation)s",
    "insert into gates (workflow_id, lim) select c.id, g.lim from gates g, copies c"
    " where g.workflow_id = %(automation)s",
    "insert into copies values (%(automation)s, %(account)s)",
)
_RUNS: tuple[LiteralString, ...] = (
    "create temporary table asked as select uuidv7() as id, c.id as automation_id, account_id, case when"
    " exists (select from gates where workflow_id = c.id) then c.id else %(none)s end as gate"
    " from copies c, generate_series(1, %(runs)s)",
    "insert into runs (id, account_id, automation_id, version, trigger, input, input_bytes, queued_at)"
    """ select id, account_id, automation_id, 1, 'webhook', '{"n": 1}', 8, now() from asked""",
    "insert into run_work (run_id, account_id, automation_id, version, priority, gate, own, status, begun,"
    " available_at, bytes, wake_at) select id, account_id, automation_id, 1, %(priority)s, gate, false,"
    " %(status)s, %(status)s = 'waiting', clock_timestamp(), 8,"
    " case when %(status)s = 'waiting' then now() + interval '1 year' end from asked",
    "drop table copies, asked",
)


@asynccontextmanager
async def _database(target: Target) -> AsyncGenerator[Database]:
    database = Database(target.stack.record.database_url, name="crowd", size=2)
    await database.open()
    try:
        yield database
    finally:
        await database.close()


@dataclass(frozen=True, slots=True)
class _Crowd:
    """Many workflows and their runs; `apart`: each in an account of its own."""

    workflows: int
    runs: int
    steps: Sequence[dict[str, Any]] = ()
    limit: int | None = None
    apart: bool = False
    status: str = "queued"


async def _fill(
    target: Target,
    database: Database,
    crowd: _Crowd,
) -> UUID:
    """Store many workflows, of one account or each of its own, and many runs of each, by SQL.

    This takes seconds instead of an hour through the API, and stores the same rows.

    Returns:
        The account, or one of them.
    """
    account_id = await new_account(database)
    of = await new_target(database, account_id, crowd.steps, crowd.limit)
    given = {
        "account": of.account_id, "automation": of.automation_id, "count": crowd.workflows - 1,
        "apart": crowd.apart,
        "runs": crowd.runs, "priority": of.priority, "status": crowd.status, "none": NONE,
    }  # fmt: skip
    async with await psycopg.AsyncConnection[tuple[Any, ...]].connect(
        target.stack.record.database_url, autocommit=True
    ) as connection:
        for query in (*_COPY, *_RUNS, "analyze run_work", "analyze automations"):
            await connection.execute(query, given if "%(" in query else None)
    return of.account_id


class _Neighbour:
    """An honest account: posts an event, waits until its run has ended, and posts the next."""

    def __init__(self, account: Account, path: str, database: Database) -> None:
        self._account = account
        self._path = path
        self._database = database

    async def run(self) -> float:
        """Run once; return the milliseconds from the acceptance to the start of the run."""
        answer = await self._account.key.post(self._path, json={"n": 1})
        assert answer.status_code == 202, answer.text
        return await self._begin_of(UUID(answer.json()["run_id"]))

    async def _begin_of(self, run_id: UUID) -> float:
        async with asyncio.timeout(_RUN_SECONDS):
            while True:
                async with self._database.connection() as connection:
                    cursor = await connection.execute(
                        "select extract(epoch from started_at - queued_at) * 1000 as ms from runs"
                        " where id = %s and completed_at is not null",
                        (run_id,),
                    )
                    if row := await cursor.fetchone():
                        return float(row["ms"])
                await asyncio.sleep(_PAUSE)


@asynccontextmanager
async def _crowd(target: Target, tally: Tally) -> AsyncGenerator[Database]:
    """Add a second worker, measure the neighbour once the block has made the crowd, then remove the crowd."""
    account = await target.new_account()
    workflow = await account.workflow([{"id": "t", "type": "transform", "config": {"expression": "trigger"}}])
    path = urlsplit(workflow["webhook_url"]).path

    def lags() -> int:
        """Return how often the event loop of a worker has stalled."""
        logs = (target.stack.data / "logs").glob("worker*.log")
        return sum(log.read_bytes().count(b"event_loop_lags") for log in logs)

    logged, lagged = len(log_of_postgres(target)), lags()
    async with target.other_worker(), _database(target) as database:
        neighbour = _Neighbour(account, path, database)
        alone = [await neighbour.run() for _ in range(target.times(50, 5))]
        yield database
        beside = [await neighbour.run() for _ in range(target.times(300, 5))]
        await _forget(database)
    tally.figures["alone"] = _line(alone)
    tally.figures["beside"] = _line(beside)
    tally.figures["workers late"] = f"{lags() - lagged} times for two seconds"
    p99 = _percentile(beside, 0.99)
    if target.full:
        tally.check(p99 <= _BOUND_MS, f"its runs begin within {_BOUND_MS} ms (p99)", f"{p99:.0f} ms")
    faults = find_faults(log_of_postgres(target)[logged:])
    for name in ("crashes", "deadlocks"):
        tally.check(not faults[name], f"Postgres' log tells of no {name}", faults[name][:1])


def _percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def _line(values: Sequence[float]) -> str:
    p50, p99 = (_percentile(values, share) for share in (0.5, 0.99))
    return f"{len(values)} runs began after {p50:.0f} ms, p99 {p99:.0f}, at most {max(values):.0f}"


async def _until_count(
    database: Database, account_id: UUID, status: LiteralString, count: int, seconds: float
) -> int:
    """Wait until `count` unfinished runs of an account have this status; return how many have in the end."""
    deadline = time.monotonic() + seconds
    while True:
        async with database.connection() as connection:
            cursor = await connection.execute(
                "select count(*)::int as runs from run_work where account_id = %s and status = %s",
                (account_id, status),
            )
            row = await cursor.fetchone()
        found = row["runs"] if row else 0
        if found >= count or time.monotonic() > deadline:
            return found
        await asyncio.sleep(0.2)


async def _forget(database: Database) -> None:
    """Delete the crowd's work before the next case."""
    async with database.connection() as connection:
        await connection.execute("set statement_timeout = 0")
        await connection.execute("delete from run_work")
        await connection.execute("update gates set begun = 0")


@case("full gates", "10,000 workflows with one run that waits for a year, and another held behind it")
async def full_gates(target: Target, tally: Tally) -> None:
    """Check that an account at its limits costs its neighbour nothing."""
    count = target.times(10_000, 30)
    async with _crowd(target, tally) as database:
        of = await _fill(target, database, _Crowd(workflows=count, runs=2, steps=[_YEAR], limit=1))
        waiting = await _until_count(database, of, "waiting", count, target.times(300, 120))
        held = await _until_count(database, of, "queued", count, 1)
        tally.check((waiting, held) == (count, count), "one of each waits, one is queued", (waiting, held))


@case("many queues", "10,000 queues of one account that have work")
async def many_queues(target: Target, tally: Tally) -> None:
    """Check that an account with very many queues counts as one account."""
    async with _crowd(target, tally) as database:
        await _fill(
            target, database, _Crowd(workflows=target.times(10_000, 30), runs=4, steps=[_NAP], limit=1)
        )


@case("many accounts", "1,000 accounts that have work")
async def many_accounts(target: Target, tally: Tally) -> None:
    """Check that accounts with as much work as the neighbour take turns with it."""
    async with _crowd(target, tally) as database:
        workflows, runs = target.times(1000, 10), target.times(100, 4)
        await _fill(target, database, _Crowd(workflows=workflows, runs=runs, steps=[_NAP], apart=True))


@case("a million waiting", "an account with a million runs that wait")
async def million_waiting(target: Target, tally: Tally) -> None:
    """Check that waiting runs cost other accounts nothing."""
    async with _crowd(target, tally) as database:
        runs = target.times(1_000_000, 100)
        await _fill(target, database, _Crowd(workflows=1, runs=runs, steps=[_YEAR], status="waiting"))


@case("a million queued", "an account with a million runs that are queued")
async def million_queued(target: Target, tally: Tally) -> None:
    """Check that an account with very much work gets its share, and no more."""
    async with _crowd(target, tally) as database:
        await _fill(target, database, _Crowd(workflows=1, runs=target.times(1_000_000, 100)))
