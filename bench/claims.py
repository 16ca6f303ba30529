"""The cost of a claim as history grows, beside an old snapshot, and with ever more queues with work.

    python -m bench.claims [--stored 10000 1000000] [--queues 1 100 1000 10000] [--rounds 200]

Each round claims runs, ends them and accepts as many anew; the time of the claims is printed.

`stored`: claims of 64 runs of one workflow, also while somebody else's snapshot keeps dead rows in the index;
last comes how Postgres finds the runs of a queue. `queues`: so many workflows, of up to 200 accounts, have 4
runs waiting each; a claim takes 4 runs at most, then 256; once 25,000 others are at work. A table that is
given no number is left out. docs/benchmarks.md says how to read it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from bench import load
from bench.machine import machine
from database import Connection, Database
from embedded.postgres import Postgres
from embedded.report import Report
from language.definition import Definition
from migrations.upgrade import upgrade
from models.accounts import accounts
from models.accounts.accounts import NewAccount
from models.audit import Actor
from models.automations import automations, run_targets
from models.automations.definitions import CheckedDefinition, find_data_reads
from models.automations.run_targets import RunTarget
from models.identifiers import new_id
from models.runs import run_work, shifts
from models.runs.acceptance import RunRequest, accept
from models.runs.claim_order import Turn
from models.runs.claim_requests import MAX_ROWS, ClaimRequest
from models.runs.low_water import LowWater
from models.runs.run_work import Claim
from models.runs.run_writes import Change, End, record_changes_if_claimed
from sealing import Keyring

_KEYRING = Keyring(["0" * 40])
_ROWS, _ROWS_A_QUEUE = 64, 4
_ACCOUNTS, _ELSEWHERE_ACCOUNTS = 200, 100
_LINE_SECONDS = 60
_STORE = """
insert into runs (id, account_id, automation_id, version, status, trigger, input, input_bytes, queued_at,
                  started_at, completed_at)
select uuidv7(), %s, %s, 1, 'completed', 'webhook', '{"n": 1}', 8, now(), now(), now()
from generate_series(1, %s)
"""
_FIND = """
explain (analyze, buffers, costs off, timing off, summary off)
select run_id from run_work
where status = 'queued' and not held and not own and priority = %s
  and account_id = %s and gate = %s and not begun and available_at >= %s
order by available_at, run_id limit 256 for update skip locked
"""


async def new_account(database: Database) -> UUID:
    """Create an account; return its id."""
    async with database.transaction() as connection:
        email = f"{uuid4().hex}@example.com"
        return (await accounts.create_account(connection, NewAccount(email, "-"))).id


async def new_target(
    database: Database, account_id: UUID, steps: Sequence[Mapping[str, Any]] = (), limit: int | None = None
) -> RunTarget:
    """Create a workflow of an account, with a limit on concurrent runs."""
    given: dict[str, Any] = {"name": "bench", "steps": list(steps)}
    if limit is not None:
        given["concurrency"] = {"limit": limit}
    async with database.transaction() as connection:
        actor = Actor(account_id, "system", name="bench")
        definition = Definition.model_validate(given)
        checked = CheckedDefinition(definition, "active", find_data_reads(definition))
        created = await automations.create(connection, _KEYRING, actor, checked)
        return await run_targets.run_target(connection, account_id, created)


async def add_runs(connection: Connection, target: RunTarget, count: int) -> None:
    """Accept this many runs of a workflow."""
    await accept(connection, [RunRequest(target, "webhook", {"n": 1}) for _ in range(count)])


class Claimer:
    """Claims and ends runs like a worker. Only this class knows how to do either."""

    def __init__(self, connection: Connection, rows: int = MAX_ROWS) -> None:
        """Create the claimer; a claim takes `rows` runs at most."""
        self._connection = connection
        self._rows = rows
        self._shift_id: UUID | None = None
        self._turn = Turn()
        self._low_water = LowWater()

    async def claim(self) -> Claim | None:
        """Claim the runs that a worker may have; None if nothing waits."""
        if self._shift_id is None:
            self._shift_id = new_id()
            await shifts.begin(self._connection, self._shift_id, new_id())
        marks = self._low_water.marks()
        request = ClaimRequest(
            rows=self._rows, turn=self._turn, marks=marks, on_read=self._low_water.note_read
        )
        claim = await run_work.claim(self._connection, self._shift_id, request)
        if isinstance(claim, bool):
            return None
        self._low_water.note(claim)
        return claim

    async def end(self, claim: Claim) -> None:
        """End the runs of a claim."""
        runs = [run for some in claim.groups.values() for run in some]
        changes = [Change(run.claim_id, run.run_id, [], End("completed")) for run in runs]
        assert len((await record_changes_if_claimed(self._connection, changes)).runs) == len(changes)

    async def cycle(self, queues: Mapping[UUID, RunTarget]) -> tuple[float, int]:
        """Claim, end, and accept as many again; return the seconds of the claim, and its number of runs."""
        began = time.perf_counter()
        claim = await self.claim()
        took = time.perf_counter() - began
        assert claim is not None, "the runs that were accepted are there"
        await self.end(claim)
        for of, runs in claim.groups.items():
            await add_runs(self._connection, queues[of.automation_id], len(runs))
        return took, claim.size


async def measure(database: Database, target: RunTarget, rounds: int, *, snapshot: bool) -> str:
    """Return one line: the median and the 99th percentile of claims in the first and the last quarter."""
    holder = await database.connect_dedicated()
    async with holder, database.connection() as connection:
        claimer = Claimer(connection)
        if snapshot:
            await holder.execute("begin isolation level repeatable read")
            await holder.execute("select count(*) from run_work")
        cycles = [await claimer.cycle({target.automation_id: target}) for _ in range(rounds)]
    assert {runs for _, runs in cycles} == {_ROWS}
    took = [seconds * 1000 for seconds, _ in cycles]
    quarter = max(2, rounds // 4)
    return "  ".join(
        f"{statistics.median(part):6.2f} {statistics.quantiles(part, n=100)[-1]:6.2f}"
        for part in (took[:quarter], took[-quarter:])
    )


async def explain(database: Database, target: RunTarget) -> list[str]:
    """Return the plan that finds the runs of a queue."""
    async with database.connection() as connection:
        for name in ("enable_seqscan", "enable_bitmapscan"):
            # As in the claim function.
            await connection.execute(f"set {name} = off".encode())
        cursor = await connection.execute(
            _FIND, (target.priority, target.account_id, target.gate, "2026-01-01T00:00:00Z")
        )
        return [row["QUERY PLAN"] for row in await cursor.fetchall()]


async def compare(database: Database, stored: list[int], rounds: int) -> None:
    """Print a line for each number of stored runs, without a snapshot open and with one."""
    target = await new_target(database, await new_account(database))
    async with database.connection() as connection:
        await add_runs(connection, target, _ROWS)
    print("\n                          first quarter    last quarter")
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


@asynccontextmanager
async def runs_at_work(database: Database, count: int) -> AsyncGenerator[None]:
    """Keep this many runs of other accounts at work in other processes, for the block."""
    elsewhere = [await new_target(database, await new_account(database)) for _ in range(_ELSEWHERE_ACCOUNTS)]
    async with database.connection() as connection:
        claimer, claims = Claimer(connection), list[Claim]()
        for target in elsewhere:
            await add_runs(connection, target, count // _ELSEWHERE_ACCOUNTS)
        while (claim := await claimer.claim()) is not None:
            claims.append(claim)
        at_work = sum(claim.size for claim in claims)
        assert at_work == len(elsewhere) * (count // _ELSEWHERE_ACCOUNTS), at_work
        yield
        for claim in claims:
            await claimer.end(claim)
        await connection.execute("vacuum analyze run_work")


async def queue_line(database: Database, queues: Mapping[UUID, RunTarget], rounds: int, rows: int) -> str:
    """Return a line: the number of claims, p50 and p99 in milliseconds, and runs per claim."""
    found, until = load.Result(0), time.monotonic() + _LINE_SECONDS
    runs: list[int] = []
    async with database.connection() as connection:
        claimer = Claimer(connection, rows)
        while len(runs) < rounds and time.monotonic() < until:
            seconds, given = await claimer.cycle(queues)
            found.latencies.append(seconds)
            runs.append(given)
    p50, p99 = found.percentile(0.5), found.percentile(0.99)
    return f"{len(runs):6} {p50:8.2f} {p99:8.2f} {statistics.mean(runs):12.1f}"


async def compare_queues(database: Database, sizes: list[int], elsewhere: int, rounds: int) -> None:
    """Print a line for each number of queues with work; of the first also with runs at work elsewhere."""
    print("\n queues with work  at work elsewhere  claims  p50, ms      p99  runs a claim")
    ids = [await new_account(database) for _ in range(min(_ACCOUNTS, max(sizes)))]
    queues: dict[UUID, RunTarget] = {}

    async def fill(size: int) -> None:
        """Fill this many queues with work."""
        async with database.connection() as connection:
            while len(queues) < size:
                target = await new_target(database, ids[len(queues) % len(ids)])
                queues[target.automation_id] = target
                await add_runs(connection, target, _ROWS_A_QUEUE)
            await connection.execute("vacuum analyze run_work")

    async def print_lines(size: int, at_work: int) -> None:
        for rows in (_ROWS_A_QUEUE, MAX_ROWS):
            line = await queue_line(database, queues, rounds, rows)
            print(f"{size:17} {at_work:18}  {line}", flush=True)

    for number, size in enumerate(sorted(sizes)):
        if number == 0:
            async with runs_at_work(database, elsewhere):
                await fill(size)
                await print_lines(size, elsewhere)
        await fill(size)
        await print_lines(size, 0)


async def run_table(data: Path, table: Callable[[Database], Awaitable[None]]) -> None:
    """Print a table that is measured on a separate Postgres."""
    postgres = Postgres(data, data / "logs" / "postgres.log", Report())
    try:
        await postgres.start()
        await asyncio.to_thread(upgrade, postgres.url)
        # As for a worker's claims: no commit waits for the disk.
        database = Database(postgres.url, name="bench", size=4, parameters={"synchronous_commit": "off"})
        await database.open()
        try:
            await table(database)
        finally:
            await database.close()
    finally:
        await postgres.stop()


def main() -> None:
    """Run the requested tables; each has a Postgres of its own, with few stored rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--stored", type=int, nargs="*", default=[10_000, 1_000_000])
    parser.add_argument("--queues", type=int, nargs="*", default=[1, 100, 1000, 10_000])
    parser.add_argument("--elsewhere", type=int, default=25_000, help="runs at work in other processes")
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.parse_args()
    tables: list[Callable[[Database], Awaitable[None]]] = []
    if given.stored:
        tables.append(lambda database: compare(database, given.stored, given.rounds))
    if given.queues:
        tables.append(lambda database: compare_queues(database, given.queues, given.elsewhere, given.rounds))
    print(machine(), flush=True)
    for table in tables:
        with tempfile.TemporaryDirectory(prefix="vedette-bench-") as name:
            data = Path(name)
            data.chmod(0o711)
            asyncio.run(run_table(data, table))


if __name__ == "__main__":
    main()
