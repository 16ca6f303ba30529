"""What happened in an account: counted once, also while sums are made, and shown by /api/stats."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID, uuid4

import pytest

import metrics
from database import Connection, Database
from metrics import Tally
from models.credits import credits
from models.credits.credits import Booking
from models.errors import DomainError
from models.lookups.lookups import AllProvidersFailed
from models.stats import entries
from providers.lookup.counting import count_sources
from services.figure_writer import FigureWriter
from tests.api_server import Api, Person
from tests.runs.workflows import create, start

END: LiteralString = """
with gone as (delete from run_work where run_id = any(%(ids)s))
update runs set status = %(status)s, started_at = now() - interval '2 seconds', completed_at = now(),
  error = %(error)s where id = any(%(ids)s)
"""


async def end(database: Database, ids: Iterable[str], status: str, code: str | None = None) -> None:
    error = None if code is None else f'{{"code": "{code}", "message": "."}}'
    async with database.connection() as connection:
        await connection.execute(END, {"ids": list(ids), "status": status, "error": error})


async def stats(person: Person, **query: str) -> dict[str, Any]:
    response = await person.key.get("/api/stats", params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def roll_up(database: Database, most: int = 1000) -> int:
    async with database.transaction() as connection:
        return await entries.roll_up(connection, most)


async def sums(connection: Connection, account_id: UUID, grain: str) -> dict[str, int]:
    cursor = await connection.execute(
        "select outcome, sum(amount)::int as n from stats"
        " where account_id = %s and grain = %s and part = 'all' and figure <> 'durations' group by outcome",
        (account_id, grain),
    )
    return {row["outcome"]: row["n"] for row in await cursor.fetchall()}


async def test_runs_that_ended_are_counted_before_and_after_sums_are_made(
    api: Api, database: Database
) -> None:
    person, other = await api.person(), await api.person()
    one, two = await create(person, name="first"), await create(person, name="second")
    ids = [await start(person, one) for _ in range(4)] + [await start(person, two)]
    await end(database, ids[:2], "completed")
    await end(database, ids[2:3], "failed", "step_failed")
    for _ in range(2):  # before and after
        seen = await stats(person, by="workflow")
        assert seen["totals"]["runs"] == {"completed": 2, "failed": 1, "cancelled": 0}
        assert seen["totals"]["run_ms"]["p50"] == pytest.approx(2000, rel=0.2)
        assert [(group["key"], group["name"], group["total"]) for group in seen["groups"]] == [
            (one, "first", 3)
        ]
        assert seen["groups"][0]["outcomes"] == {"completed": 2, "failed": 1}
        assert len(seen["buckets"]) == 24
        assert seen["buckets"][-1]["runs"] == seen["totals"]["runs"] or datetime.now(UTC).minute == 0
        await roll_up(database)
    await end(database, ids[3:], "failed", "no_credits")
    by_code = (await stats(person, by="error_code"))["groups"]
    assert {group["key"]: group["total"] for group in by_code} == {"no_credits": 2, "step_failed": 1}
    for bucket in ("1m", "5m", "1h", "1d"):
        found = await stats(person, window="2h", bucket=bucket)
        assert found["totals"]["runs"] == {"completed": 2, "failed": 3, "cancelled": 0}
        assert sum(one["runs"]["failed"] for one in found["buckets"]) == 3
    assert (await stats(other))["totals"]["runs"] == {"completed": 0, "failed": 0, "cancelled": 0}


async def test_a_later_change_of_an_ended_run_counts_nothing(api: Api, database: Database) -> None:
    person = await api.person()
    run_id = await start(person, await create(person))
    await end(database, [run_id], "failed", "step_failed")
    async with database.connection() as connection:
        await connection.execute("update runs set credits_used = 5, takeovers = 1 where id = %s", (run_id,))
        await connection.execute("delete from runs where id = %s", (run_id,))
    assert (await stats(person))["totals"]["runs"] == {"completed": 0, "failed": 1, "cancelled": 0}


async def test_what_is_rolled_back_counts_nothing_and_what_is_counted_counts_once(
    api: Api, database: Database
) -> None:
    person = await api.person()
    tally = Tally(person.account.id, "deliveries", str(uuid4()), "delivered", 1)
    async with database.connection() as connection:
        for _ in range(50):
            await entries.add(connection, [tally])
        with pytest.raises(ZeroDivisionError):
            async with connection.transaction():
                await entries.add(connection, [tally])
                assert await entries.roll_up(connection) >= 51
                raise ZeroDivisionError
    done = asyncio.Event()

    async def watch() -> None:
        while not done.is_set():
            assert (await stats(person))["totals"]["deliveries"] == {"delivered": 50, "failed": 0}

    watching = asyncio.create_task(watch())
    while sum(await asyncio.gather(*(roll_up(database, 7) for _ in range(3)))):
        pass
    done.set()
    await watching
    async with database.connection() as connection:
        for grain in ("1m", "5m", "1h", "1d"):
            assert await sums(connection, person.account.id, grain) == {"delivered": 50}


async def test_an_entry_that_is_committed_late_is_counted_in_its_minute(api: Api, database: Database) -> None:
    person = await api.person()
    tally = Tally(person.account.id, "deliveries", str(uuid4()), "failed", 1)
    async with database.connection() as late, late.transaction():
        await entries.add(late, [tally])
        async with database.connection() as connection:
            await entries.add(connection, [tally])
        await roll_up(database)
        assert (await stats(person))["totals"]["deliveries"]["failed"] == 1
    assert (await stats(person))["totals"]["deliveries"]["failed"] == 2
    await roll_up(database)
    assert (await stats(person))["totals"]["deliveries"]["failed"] == 2


async def test_old_sums_are_deleted_by_their_grain(api: Api, database: Database) -> None:
    account_id = (await api.person()).account.id
    async with database.connection() as connection:
        for days in (1, 3, 89, 91):
            await connection.execute(
                "insert into stat_entries"
                " (account_id, minute, figure, subject, outcome, code, bucket, amount)"
                " values (%s, now() - make_interval(days => %s), 'runs', '', %s, '', 0, 1)",
                (account_id, days, str(days)),
            )
        await roll_up(database)
        await entries.delete_old(connection)
        kept = {grain: set(await sums(connection, account_id, grain)) for grain in ("1m", "5m", "1h", "1d")}
    assert kept == {"1m": {"1"}, "5m": {"1"}, "1h": {"1", "3", "89"}, "1d": {"1", "3", "89"}}


async def test_entries_of_a_deleted_account_are_dropped(api: Api, database: Database) -> None:
    async with database.connection() as connection:
        await entries.add(connection, [Tally(uuid4(), "deliveries", "", "failed", 1)])
        await roll_up(database)
        cursor = await connection.execute("select from stat_entries")
        assert not await cursor.fetchall()


async def test_credits_lookups_and_deliveries_are_counted_by_the_processes(
    api: Api, database: Database
) -> None:
    account_id = (person := await api.person(credits=100)).account.id
    async with database.connection() as connection:
        await credits.charge(connection, Booking(account_id, 9, f"work/{account_id}", "work"))
        await credits.refund(connection, Booking(account_id, 2, f"work/{account_id}", "work"))
    endpoint = str(uuid4())
    metrics.count_for(account_id, "deliveries", endpoint, "delivered", 3)
    reports = [{"name": "a", "status": "timeout"}, {"name": "b", "status": "skipped"}]
    count_sources(account_id, AllProvidersFailed(reports))
    count_sources(account_id, DomainError("invalid", "No address."))
    await person.key.post("/api/agent/ip", json={"ip": "192.168.0.1"})
    await FigureWriter(database).write()
    seen = await stats(person, by="source")
    assert (seen["totals"]["credits"], seen["totals"]["deliveries"]["delivered"]) == (7, 3)
    assert {"source": "a", "outcomes": {"timeout": 1}} in seen["sources"]
    assert "b" not in {one["source"] for one in seen["sources"]}
    assert seen["totals"]["lookups"]["timeout"] == 1
    assert {group["key"] for group in seen["groups"]} == {one["source"] for one in seen["sources"]}
    assert (await stats(person, by="endpoint"))["groups"][0]["total"] == 3


async def test_what_could_not_be_written_is_written_later(database: Database) -> None:
    account_id = uuid4()
    metrics.count_for(account_id, "deliveries", "", "delivered")
    away = Database(database.url.replace("/test_", "/none_", 1), name="away")
    await away._pool.open(wait=False)  # pyright: ignore[reportPrivateUsage]
    await FigureWriter(away).write()
    await away.close()
    assert [tally.amount for tally in metrics.take_tallies() if tally.account_id == account_id] == [1]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"window": "40d"}, "out_of_range"),
        ({"window": "30d", "bucket": "5m"}, "out_of_range"),
        ({"bucket": "2h"}, "not_allowed"),
        ({"by": "colour"}, "not_allowed"),
        ({"windows": "1h"}, "unknown_parameter"),
    ],
)
async def test_what_cannot_be_shown_is_refused(api: Api, query: dict[str, str], code: str) -> None:
    response = await (await api.person()).key.get("/api/stats", params=query)
    assert response.status_code == 400
    assert [one["code"] for one in response.json()["errors"]] == [code]


async def test_a_key_needs_the_scope(api: Api) -> None:
    person = await api.person(scopes=["lookups"])
    assert (await person.key.get("/api/stats")).status_code == 403


async def test_changes_of_monitors_are_grouped_by_monitor(api: Api, database: Database) -> None:
    person = await api.person()
    body = {"name": "watch", "frequency": "daily", "monitor_type": "ip", "targets": ["192.0.2.1"]}
    monitor = (await person.key.post("/api/monitors", json=body)).json()
    async with database.connection() as connection:
        for _ in range(2):
            await entries.add(connection, [Tally(person.account.id, "changes", monitor["id"], "", 4)])
    seen = await stats(person, by="monitor", window="30d")
    assert (seen["totals"]["changes"], seen["bucket"], len(seen["buckets"])) == (8, "1d", 30)
    assert seen["groups"] == [
        {"key": monitor["id"], "name": "watch", "total": 8, "outcomes": {}, "run_ms": None}
    ]
    assert datetime.fromisoformat(seen["until"]) - datetime.fromisoformat(seen["since"]) == timedelta(days=30)
