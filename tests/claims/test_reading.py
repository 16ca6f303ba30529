"""Claims and sweeps read what they find, however much else is queued, waits or is held."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, LiteralString

import pytest

from database import Connection, Database
from models import gates
from models.gates import NONE
from models.runs import acceptance, own_runs, run_work, stuck_runs
from models.runs.acceptance import RunRequest
from models.runs.claim_requests import ClaimRequest
from models.runs.own_runs import WORKFLOW
from tests.automations.claims import new_shift
from tests.automations.engine import NewTarget

_MANY, _FEW = 2000, 200
# Plans are made for all values when a statement has come so often.
_OFTEN = 12
_READ = """
select pg_stat_get_xact_tuples_returned('run_work'::regclass) + sum(
  pg_stat_get_xact_tuples_returned(indexrelid))::int as read
from pg_index where indrelid = 'run_work'::regclass
"""
_ADD: LiteralString = """
insert into run_work (run_id, account_id, automation_id, version, priority, gate, own, status, begun,
                      available_at, bytes, wake_at, carrier, held)
select gen_random_uuid(), %(account)s, %(automation)s, 1, 2, %(gate)s, false, %(status)s, %(begun)s, now(), 2,
  case when %(status)s = 'waiting' then now() + interval '1 year' end, %(carrier)s, %(held)s
from generate_series(1, %(count)s)
"""
_FIND: LiteralString = """
select * from find_queues_2(false, 2, %(after)s, 64, 8, '{}', '{}', '{}', '{}', '{}', '{}')
"""
Add = Callable[..., Awaitable[None]]
Sweep = Callable[[Connection], Awaitable[Any]]


@pytest.fixture
async def add(database: Database, new_target: NewTarget) -> Add:
    """Adds rows of a new workflow of a new account; there are no others."""

    async def add(count: int, **of: Any) -> None:
        target = await new_target([])
        given = {"status": "queued", "begun": False, "carrier": None, "held": False, "gate": NONE}
        given |= {"account": target.account_id, "automation": target.automation_id, "count": count} | of
        async with database.connection() as connection:
            await connection.execute(_ADD, given)
            await connection.execute("analyze run_work")

    async with database.connection() as connection:
        await connection.execute("delete from run_work")
        await connection.execute("delete from gates")
        # Whoever reads an index first comes upon the entries of rows that are gone.
        await connection.execute("vacuum run_work")
    return add


async def rows_read(connection: Connection, do: Callable[[], Awaitable[Any]]) -> int:
    """Do something in a transaction; how many rows and entries of indexes were read of `run_work`."""

    async def count() -> int:
        row: Any = await (await connection.execute(_READ)).fetchone()
        return row["read"]

    async with connection.transaction():
        before = await count()
        await do()
        return await count() - before


async def promote(connection: Connection) -> None:
    await gates.promote(connection, NONE)


SWEEPS: dict[str, Sweep] = {
    "due": run_work.wake_due,
    "strays": run_work.queue_strays,
    "woken": lambda connection: own_runs.find_woken(connection, []),
    "lost": run_work.waits_alone,
    "gates": promote,
    "stuck": stuck_runs.count,
    "age": stuck_runs.find_queue_age,
    "waits of workflows": lambda connection: own_runs.count_waits(connection, _FEW // 4),
}
CROWDS: dict[str, dict[str, Any]] = {
    "wait": {"status": "waiting", "begun": True},
    "wait in workflows": {"status": "waiting", "begun": True, "carrier": WORKFLOW},
    "are queued": {},
}


@pytest.mark.parametrize("crowd", CROWDS)
@pytest.mark.parametrize("sweep", SWEEPS)
async def test_a_sweep_does_not_read_all_that_wait(
    database: Database, add: Add, sweep: str, crowd: str
) -> None:
    await add(_MANY, **CROWDS[crowd])
    async with database.connection() as connection:
        assert await rows_read(connection, lambda: SWEEPS[sweep](connection)) < _FEW


async def test_a_sweep_of_a_gate_does_not_read_the_runs_of_others(
    database: Database, add: Add, new_target: NewTarget
) -> None:
    target = await new_target([])
    async with database.connection() as connection:
        await connection.execute(
            "insert into gates (workflow_id, lim, begun) values (%s, 1, 1)", (target.automation_id,)
        )
    await add(_MANY, status="waiting", begun=True)
    await add(1, status="waiting", begun=True, gate=target.automation_id)
    await add(5, held=True, gate=target.automation_id)
    async with database.connection() as connection:
        assert await rows_read(connection, lambda: promote(connection)) < _FEW
        # With room it counts for itself, and queues one.
        await connection.execute("update gates set lim = 2")
        assert await gates.promote(connection, NONE) == (1, NONE)


async def test_a_claim_does_not_read_the_queues_of_those_whose_turn_it_was(
    database: Database, add: Add
) -> None:
    for _ in range(20):
        await add(100)
    read: list[int] = []
    async with database.connection() as connection:
        cursor = await connection.execute("select account_id from run_work order by 1 desc limit 1")
        [last] = await cursor.fetchall()
        given = {"after": last["account_id"]}
        for _ in range(_OFTEN):
            read.append(await rows_read(connection, lambda: connection.execute(_FIND, given)))
    # The first may come upon entries of rows that are gone.
    assert max(read[1:]) < _FEW, read


async def test_a_claim_reads_little_even_while_postgres_believes_that_the_table_is_empty(
    database: Database, add: Add, new_target: NewTarget
) -> None:
    """As after an idle hour, when rows that are gone still fill the table's pages."""
    await add(_MANY)
    target, neighbour = await new_target([]), await new_target([])
    shift_id, request, read = await new_shift(database), ClaimRequest(rows=1), list[int]()
    async with database.connection() as connection:
        await connection.execute("delete from run_work where ctid < (select max(ctid) from run_work)")
        await connection.execute("vacuum analyze run_work")
        for _ in range(_MANY // 100):
            await acceptance.accept(connection, [RunRequest(neighbour, "webhook", {}) for _ in range(100)])
        for _ in range(_OFTEN):
            await acceptance.accept(connection, [RunRequest(target, "webhook", {}, is_waited_for=True)])
            read.append(await rows_read(connection, lambda: run_work.claim(connection, shift_id, request)))
    assert max(read) < _FEW, read
