"""Monitors: targets that are due at once, very many of one monitor, and what it costs to compare an answer.

    python -m bench.monitors [--part due large judge simulate pace] [--monitors 50] [--targets 100]
                             [--large 100000] [--runs 10000] [--paced 60] [--hour 30]

`due`: so many monitors of five accounts, each with so many IP addresses, all due by their calendars at one
moment; then once more, by hand, when nothing is new. `large`: one monitor with so many addresses, and the
memory of its worker meanwhile. `judge`: from an answer and what is stored of a target to what is to be
recorded, by kind; without the lookup and without Postgres. `simulate`: so many runs with outages, limits,
first hearings and true changes at random, beside a model of what they are to say. `pace`: one with so many
e-mail addresses, whose sources on this machine allow one request a second and 25 an hour; an hour lasts so
many seconds.

Addresses are looked up in the data of `vedette data fetch`. Seconds are from when the first run was due or
accepted to the end of the last, by Postgres' clock. Rows written are those of all tables, of other work too.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString, Self, cast
from uuid import UUID

from bench.lookups import addresses, fetch_data
from bench.machine import machine
from bench.measuring import PARTS
from bench.monitor_pace import print_pace
from bench.stack import Runners, Stack, running
from database import Database
from models.accounts import accounts
from models.accounts.accounts import NewAccount
from models.audit import Actor
from models.identifiers import new_id
from models.monitors import monitors, runs
from models.monitors.defaults import DEFAULTS
from models.monitors.monitors import MonitorSettings
from models.monitors.queue import Chunk, TargetResult
from providers.lookup.replay import retell
from providers.lookup.result import LookupResult
from providers.registry import KINDS
from providers.sources.base import Fields
from providers.sources.kind import Kind
from services.target_comparison import Stored, Watching
from tests.monitors.simulation import simulate
from tests.monitors.worlds import value, world

_PARTS = ("due", "large", "judge", "simulate", "pace")
_ACCOUNTS = 5
_CREDITS = 10**9
# Schedules must be made before they are due.
_LEAD_SECONDS = 25
# With a fast clock, a run is accepted before it is due.
_EARLY = timedelta(seconds=5)
_LOOK_SECONDS = 0.25
_DONE_SECONDS = 1800
# Postgres counts a session's writes after it has been idle for ten seconds.
_COUNTED_SECONDS = 12
_MENTION: Fields = {
    "source": "intelx", "body": "a line of a paste with an address of someone@example.com in it\n" * 5,
    "domain": "example.onion", "hackishness": 0.5, "crawl_date": "2026-11-20T00:00:00Z",
    "emails": ["someone@example.com"],
}  # fmt: skip


@dataclass
class Watcher:
    """Accounts of a stack with monitors of addresses, directly in its database."""

    stack: Stack
    database: Database

    @classmethod
    @contextlib.asynccontextmanager
    async def connected(cls, stack: Stack) -> AsyncGenerator[Self]:
        """Connect for the block."""
        url = stack.settings.database_url
        assert url is not None
        database = Database(url.get_secret_value(), name="bench")
        await database.open()
        try:
            yield cls(stack, database)
        finally:
            await database.close()

    async def account(self) -> Actor:
        """Create an account with enough credits."""
        async with self.database.transaction() as connection:
            email = f"{new_id().hex}@example.com"
            account = await accounts.create_account(connection, NewAccount(email, "-", credits=_CREDITS))
        return Actor(account.id, "system", name="bench")

    async def monitor(self, actor: Actor, cron: str, targets: Sequence[str]) -> UUID:
        """Create a monitor of these addresses."""
        plan = MonitorSettings("bench", frequency=None, cron=cron)
        async with self.database.transaction() as connection:
            return await monitors.create(connection, actor, "ip", plan, targets)

    async def start(self, owned: Sequence[tuple[Actor, UUID]]) -> datetime:
        """Start a run of each monitor; return the time before."""
        since = await self.value("select clock_timestamp()")
        async with self.database.connection() as connection:
            for actor, monitor_id in owned:
                async with connection.transaction():
                    await runs.start(connection, actor.account_id, monitor_id)
        return since

    async def value(self, query: LiteralString, *values: Any) -> Any:
        """Return the single value of a query."""
        async with self.database.connection() as connection:
            row = await (await connection.execute(query, values)).fetchone()
        assert row is not None
        return next(iter(row.values()))

    async def ended(self, since: datetime, expected: int) -> Ended:
        """Wait until this many later runs have ended."""
        deadline, memory = time.monotonic() + _DONE_SECONDS, list[int]()
        query: LiteralString = (
            "select count(*) from monitor_runs where created_at >= %s and completed_at is not null"
        )
        accepted = since - _EARLY
        while (ended := await self.value(query, accepted)) < expected:
            assert time.monotonic() < deadline, f"{expected - ended} of {expected} runs do not end"
            memory.append(self.stack.resident_mib()["worker"])
            await asyncio.sleep(_LOOK_SECONDS)
        async with self.database.connection() as connection:
            cursor = await connection.execute(
                "select sum(processed_records)::int as targets, sum(failed_records)::int as failed,"
                " extract(epoch from max(completed_at) - %(since)s)::float as seconds"
                " from monitor_runs where created_at >= %(accepted)s",
                {"since": since, "accepted": accepted},
            )
            row = await cursor.fetchone()
        assert row is not None and not row["failed"], f"{row} failed"
        return Ended(row["targets"], row["seconds"], memory or [0])


@dataclass(frozen=True)
class Ended:
    """Ended runs: the number of targets and of seconds, and the worker's memory over time in MiB."""

    targets: int
    seconds: float
    memory: list[int]


@dataclass(frozen=True)
class Used:
    """The resources that a stack has used so far.

    Attributes:
        cpu: seconds, by part.
        wal: bytes of log that Postgres has written.
        rows: inserted, updated and deleted rows. Those of a session count once it has been idle.
    """

    cpu: dict[str, float]
    wal: int
    rows: int

    @classmethod
    async def so_far(cls, watcher: Watcher) -> Self:
        """Read the current values."""
        cpu = watcher.stack.cpu_seconds()
        wal = await watcher.value("select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint")
        return cls(cpu, wal, await cls._rows(watcher))

    @classmethod
    async def in_all(cls, watcher: Watcher) -> Self:
        """Read the current values; rows are read after all sessions have reported their writes."""
        found = await cls.so_far(watcher)
        await asyncio.sleep(_COUNTED_SECONDS)
        return replace(found, rows=await cls._rows(watcher))

    @staticmethod
    async def _rows(watcher: Watcher) -> int:
        return await watcher.value(
            "select sum(n_tup_ins + n_tup_upd + n_tup_del)::bigint from pg_stat_user_tables"
        )


def line(name: str, ended: Ended, before: Used, after: Used) -> str:
    """Return a line of the targets' durations and costs."""
    thousands = ended.targets / 1000
    cpu = "".join(f"{(after.cpu[part] - before.cpu[part]) / thousands:9.2f}" for part in PARTS)
    wal, rows = (after.wal - before.wal) / ended.targets / 1024, (after.rows - before.rows) / ended.targets
    return (
        f"{name:20}{ended.targets:8}{ended.seconds:9.1f}{ended.targets / ended.seconds:8.0f}{cpu}"
        f"{wal:8.2f}{rows:7.2f}{max(ended.memory):12}"
    )


HEADS = (
    f"\n{'':45}   CPU seconds for 1,000 targets{'':17}Postgres, a target",
    f"{'':20}{'targets':>8}{'seconds':>9}{'each s':>8}"
    + "".join(f"{p:>9}" for p in PARTS)
    + " KiB log   rows  worker, MiB",
)


async def due(watcher: Watcher, count: int, targets: int) -> None:
    """Print the durations of monitors that are due at once, and the same once more."""
    actors = [await watcher.account() for _ in range(_ACCOUNTS)]
    found = addresses(count * targets, seed=2)
    at = datetime.now(UTC) + timedelta(seconds=_LEAD_SECONDS)
    at = at.replace(second=0, microsecond=0) + timedelta(minutes=1)
    owned: list[tuple[Actor, UUID]] = []
    for number in range(count):
        actor, own = actors[number % _ACCOUNTS], found[number * targets :][:targets]
        owned.append((actor, await watcher.monitor(actor, f"{at.minute} {at.hour} * * *", own)))
    await asyncio.sleep((at - datetime.now(UTC)).total_seconds())
    before = await Used.so_far(watcher)
    ended = await watcher.ended(at, count)
    print(line("due, first look", ended, before, await Used.in_all(watcher)), flush=True)
    before = await Used.so_far(watcher)
    ended = await watcher.ended(await watcher.start(owned), count)
    print(line("by hand, no news", ended, before, await Used.in_all(watcher)), flush=True)


async def large(watcher: Watcher, targets: int) -> None:
    """Print the duration of one monitor, twice, and the worker's memory meanwhile."""
    actor = await watcher.account()
    monitor_id = await watcher.monitor(actor, "0 0 1 1 *", addresses(targets, seed=3))
    for name in ("one, first look", "one, no news"):
        before = await Used.so_far(watcher)
        ended = await watcher.ended(await watcher.start([(actor, monitor_id)]), 1)
        print(line(name, ended, before, await Used.in_all(watcher)))
        tenths = [ended.memory[len(ended.memory) * tenth // 10] for tenth in range(10)]
        print(f"  MiB of the worker, by tenths of the time: {' '.join(map(str, tenths))}", flush=True)


def words_of(kind: Kind, mentions: int) -> dict[str, Fields]:
    """Return the fields of all sources of a kind for a target; for the dark web with this many mentions."""
    words = world(kind, random.Random(1))
    if kind.name == "darkweb":
        words["intelx"] = {"results": [{**_MENTION, "title": f"paste {n}"} for n in range(mentions)]}
    return words


def judged(name: str, kind: Kind, words: Mapping[str, Fields], seconds: float = 0.5) -> str:
    """Return a line of the cost of judging an answer: the first, an unchanged and a changed one."""
    query, moment = kind.normalise(kind.example, ""), datetime.now(UTC)
    ids = (new_id(), new_id(), new_id())
    chunk = Chunk(
        *ids, cast(Any, kind.name), False, (), (), {}, timedelta(days=7), moment, None, [(0, query.text)]
    )
    watching = Watching(chunk)

    def judge(stored: Stored | None, result: LookupResult) -> TargetResult:
        return watching.judge(0, query.text, stored, result)

    old = retell(kind, query, words, moment)
    first = judge(None, old)
    assert first.baseline is not None and first.content_hash is not None
    stored = first.content_hash, first.baseline.encode()
    others = (retell(kind, query, one, moment) for one in _altered(kind, words))
    new = next(one for one in others if judge(stored, one).changes)
    assert judge(stored, old).changes is None
    figures = ""
    for kept, result in ((None, old), (stored, old), (stored, new)):
        times, started = 0, time.perf_counter()
        while (spent := time.perf_counter() - started) < seconds:
            judge(kept, result)
            times += 1
        figures += f"{spent / times * 1000:11.2f}"
    return f"{name:24}{len(stored[1]) / 1024:8.1f}{figures}"


def _altered(kind: Kind, words: Mapping[str, Fields]) -> Iterator[dict[str, Fields]]:
    """Yield the same fields with one field of each changed, or a list extended, for ever."""
    chance = random.Random(2)
    while True:
        source, fields = chance.choice(list(words.items()))
        for path in fields:
            new, old = value(kind, path, chance), fields[path]
            yield {**words, source: {**fields, path: new + old if isinstance(old, list) else new}}


async def measure(stack: Stack, arguments: argparse.Namespace) -> None:
    """Print the figures that need a stack."""
    await stack.change_worker({})
    async with Watcher.connected(stack) as watcher:
        print(*HEADS, sep="\n")
        if "due" in arguments.part:
            await due(watcher, arguments.monitors, arguments.targets)
        if "large" in arguments.part:
            await large(watcher, arguments.large)


async def run_paced(stack: Stack, emails: list[str]) -> tuple[float, int]:
    """Run a monitor of these addresses; return its seconds, and how many targets had a silent source."""
    await stack.change_worker({})
    async with Watcher.connected(stack) as watcher:
        actor = await watcher.account()
        plan = MonitorSettings("bench", frequency="daily", tracked_fields=["breach"])
        async with watcher.database.transaction() as connection:
            monitor_id = await monitors.create(connection, actor, "email", plan, emails)
        ended = await watcher.ended(await watcher.start([(actor, monitor_id)]), 1)
        silent = await watcher.value(
            "select targets_partial from monitor_runs where monitor_id = %s", monitor_id
        )
    return ended.seconds, silent


def main(arguments: argparse.Namespace) -> None:
    """Start a stack if one is needed, measure, print."""
    print(machine(), flush=True)
    if "judge" in arguments.part:
        print(f"\n{'to judge an answer':24}{'KiB kept':>8}   first, ms  unchanged  one change")
        for name, mentions in (*((name, 10) for name in DEFAULTS), ("darkweb", 1_000)):
            kind = KINDS[name]
            shown = f"{name}, {mentions:,} mentions" if name == "darkweb" else name
            print(judged(shown, kind, words_of(kind, mentions)), flush=True)
    if "simulate" in arguments.part:
        simulation = simulate(arguments.runs, seed=0)
        faults = ", ".join(f"{name} {count:,}" for name, count in simulation.faults.items())
        print(
            f"\n{arguments.runs:,} simulated runs with {simulation.changes:,} changes; wrong: {faults}",
            flush=True,
        )
    if "pace" in arguments.part:
        print_pace(run_paced, arguments.paced, arguments.hour)
    if {"due", "large"} & set(arguments.part):
        with Runners.made() as runners, running(runners, fetch_data, VEDETTE_LOCAL_ONLY="1") as stack:
            runners.plain.run(measure(stack, arguments))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", nargs="+", choices=_PARTS, default=list(_PARTS))
    parser.add_argument("--monitors", type=int, default=50)
    parser.add_argument("--targets", type=int, default=100)
    parser.add_argument("--large", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--paced", type=int, default=60)
    parser.add_argument("--hour", type=int, default=30)
    main(parser.parse_args())
