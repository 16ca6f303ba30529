"""What a claim costs as history grows, and while somebody else's snapshot keeps dead rows in the index.

    python -m bench.claims [--stored 10000 1000000] [--rounds 200]

Each round accepts 64 runs, claims them and ends them; the time of the claims is printed. Last comes how
Postgres finds the runs of a lane. docs/benchmarks.md says how to read it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from uuid import UUID, uuid4

from bench.machine import machine
from bench.stack import Runners, nothing, running
from database import Connection, Database
from language.definition import Definition
from models import accounts, automations, leases, run_work, targets
from models.accepting import Event, accept
from models.audit import Actor
from models.identifiers import new_id
from models.leases import Lease
from models.low_water import LowWater
from models.run_writes import Change, End, record_changes_if_leased
from models.targets import Target
from sealing import Keyring

_ROWS = 64
_STORE = """
insert into runs (id, account_id, automation_id, version, status, trigger, input, input_bytes, queued_at,
                  started_at, completed_at)
select uuidv7(), %s, %s, 1, 'completed', 'webhook', '{"n": 1}', 8, now(), now(), now()
from generate_series(1, %s)
"""
_FIND = """
explain (analyze, buffers, costs off, timing off, summary off)
select run_id from run_work where status = 'queued' and lane_id = %s and not begun and available_at >= %s
order by available_at, run_id limit 256 for update skip locked
"""


async def new_target(database: Database, keyring: Keyring) -> Target:
    """A workflow without steps, of a new account."""
    async with database.transaction() as connection:
        email = f"{uuid4().hex}@example.com"
        account = await accounts.create_account(connection, email, "-", None, credits_granted=0)
        actor = Actor(account.id, "system", name="bench")
        created = await automations.create(
            connection, keyring, actor, Definition.model_validate({"name": "bench"}), "active"
        )
        return await targets.run_target(connection, account.id, created)


async def cycle(connection: Connection, target: Target, low_water: LowWater, worker_id: UUID) -> float:
    """Accept, claim and end 64 runs; the seconds of the claim."""
    await accept(connection, [Event(target, "webhook", {"n": 1}) for _ in range(_ROWS)])
    began = time.perf_counter()
    claim = await run_work.claim(
        connection, Lease(new_id(), new_id()), worker_id, window=1024, marks=low_water.marks()
    )
    took = time.perf_counter() - began
    assert not isinstance(claim, bool), "the runs that were accepted are there"
    assert len(claim.runs) == _ROWS, len(claim.runs)
    low_water.note(claim, run_work.MAX_ROWS)
    changes = [Change(claim.lease, run.run_id, [], End("completed")) for run in claim.runs]
    assert len((await record_changes_if_leased(connection, changes)).runs) == _ROWS
    await leases.leave(connection, claim.lease)
    return took


async def measure(database: Database, target: Target, rounds: int, *, snapshot: bool) -> str:
    """One line: the median and the 99th percentile of the claims of the first and the last quarter."""
    low_water, worker_id = LowWater(), new_id()
    holder = await database.dedicated()
    async with holder, database.connection() as connection:
        if snapshot:
            await holder.execute("begin isolation level repeatable read")
            await holder.execute("select count(*) from run_work")
        took = [await cycle(connection, target, low_water, worker_id) * 1000 for _ in range(rounds)]
    quarter = max(2, rounds // 4)
    return "  ".join(
        f"{statistics.median(part):6.2f} {statistics.quantiles(part, n=100)[-1]:6.2f}"
        for part in (took[:quarter], took[-quarter:])
    )


async def explain(database: Database, target: Target) -> list[str]:
    """How the runs of a lane are found."""
    async with database.connection() as connection:
        cursor = await connection.execute(_FIND, (target.lane_id, "2026-01-01T00:00:00Z"))
        return [row["QUERY PLAN"] for row in await cursor.fetchall()]


async def compare(url: str, stored: list[int], rounds: int) -> None:
    """Print a line for each number of stored runs, without a snapshot open and with one."""
    database = Database(url, name="bench", size=4)
    await database.open()
    target = await new_target(database, Keyring(["0" * 40]))
    print("                          first quarter    last quarter")
    print("   stored  snapshot        p50    p99      p50    p99 ms a claim of 64 runs")
    there = 0
    for number in sorted(stored):
        async with database.connection() as connection:
            await connection.execute("set statement_timeout = 0")
            await connection.execute(_STORE, (target.account_id, target.automation_id, number - there))
            await connection.execute("analyze runs")
            await connection.execute("set statement_timeout = '30s'")
        there = number
        for snapshot in (False, True):
            line = await measure(database, target, rounds, snapshot=snapshot)
            print(f"{number:>9}  {'open' if snapshot else 'none':<10}  {line}", flush=True)
    print("\n".join(await explain(database, target)))
    await database.close()


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--stored", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=200)
    arguments = parser.parse_args()
    print(machine())
    with Runners.made() as runners, running(runners, nothing) as stack:
        url = stack.settings.database_url
        assert url is not None
        asyncio.run(compare(url.get_secret_value(), arguments.stored, arguments.rounds))


if __name__ == "__main__":
    main()
