"""Paid lookups in runs are charged once and seen in what the run cost, whatever is lost on the way."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Identifier
from temporalio.client import Client

from database import Database
from embedded.postgres import Postgres
from models.credits import credits
from models.credits.credits import Booking
from models.runs.runs import QUEUED_CHANNEL
from sealing import Keyring
from settings import Settings
from tests.automations import sources
from tests.automations.engine import (
    NewTarget,
    Work,
    accept,
    cancel,
    ended,
    hasty_worker,
    transform,
    until,
    working,
)
from tests.automations.sources import Account, books

providers, live_settings, account = sources.providers, sources.live_settings, sources.account

EXECUTION = "shift"

# What is looked up, and what that costs: all that the account has.
PAID = {
    "phone": ("+14155552671", 1),
    "username": ("ada", 1),
    "darkweb": ("example.com", 1),
    "company": ("Example Bank", 2),
}

DISCONNECT = "select pg_terminate_backend(pid) from pg_stat_activity"


def look(kind: str, **more: Any) -> dict[str, Any]:
    return {"id": "look", "type": f"{kind}_lookup", "config": {"value": PAID[kind][0]}, **more}


async def charged(database: Database, run_id: UUID) -> bool:
    return bool((await books(database, run_id)).charges)


@asynccontextmanager
async def written_by_nobody(database: Database, table: str) -> AsyncGenerator[None]:
    """For the time of the block, whoever writes to the table waits."""
    async with database.transaction() as connection:
        await connection.execute(SQL("lock table {} in share mode").format(Identifier(table)))
        yield


async def waiting(database: Database, table: str) -> list[int]:
    """The backends that wait to write to the table."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select pid from pg_locks where relation = %s::regclass and not granted", (table,)
        )
        return [row["pid"] for row in await cursor.fetchall()]


async def administer(server: Postgres, statement: str) -> None:
    """Execute a statement from outside the module's database."""
    connection = await psycopg.AsyncConnection.connect(server.url, autocommit=True)
    async with connection:
        await connection.execute(statement)  # pyright: ignore[reportArgumentType, reportCallIssue]


# Between the charge and the record


async def take_away(database: Database, run_id: UUID) -> None:
    """A run is queued again, as by who has ended its shift: whoever had it has lost it."""
    async with database.connection() as connection:
        await connection.execute(
            "update run_work set status = 'queued', carrier = null, claim_id = null where run_id = %s",
            (run_id,),
        )


@pytest.mark.parametrize("items", [False, True], ids=["a step", "an item"])
@pytest.mark.parametrize("kind", PAID)
async def test_what_was_charged_and_not_recorded_is_delivered_for_that_charge(
    at_work: Work, database: Database, account: Account, new_target: NewTarget, kind: str, items: bool
) -> None:
    price, step, table = PAID[kind][1], look(kind), "run_steps"
    if items:
        step, table = step | {"for_each": "trigger"}, "run_step_items"
    target = await new_target([step, transform("end", "'done'")], account_id=await account(price))
    [run_id] = await accept(database, target, 1, ["an item"])
    async with at_work() as notifier:
        async with written_by_nobody(database, table):
            notifier.notify(QUEUED_CHANNEL)
            await until(lambda: charged(database, run_id))
            await take_away(database, run_id)
        view = await ended(database, notifier, target.account_id, run_id)
    assert (view.status, view.error) == ("completed", None)
    assert view.steps[0].credits_used == view.credits_used == price
    assert await books(database, run_id) == (0, [price], price)


@pytest.mark.long
@pytest.mark.executions("shift", "workflow")
@pytest.mark.usefixtures("short_periods")
async def test_a_worker_killed_between_charge_and_record_costs_no_second_credit(
    open_settings: Settings,
    client: Client,
    database: Database,
    keyring: Keyring,
    account: Account,
    new_target: NewTarget,
) -> None:
    target = await new_target([look("phone"), transform("end", "look.valid")], account_id=await account(1))
    [run_id] = await accept(database, target)
    async with written_by_nobody(database, "run_steps"):
        with hasty_worker(open_settings) as killed:
            await until(lambda: charged(database, run_id))
            killed.kill()
            killed.join()
    async with working(open_settings, client, database, keyring) as notifier:
        view = await ended(database, notifier, target.account_id, run_id)
    assert (view.status, view.output, view.steps[0].credits_used) == ("completed", True, 1)
    assert await books(database, run_id) == (0, [1], 1)


# Beside the charge


@pytest.mark.executions("shift", "workflow")
async def test_a_lookup_that_a_cancel_comes_upon_before_its_charge_is_dropped_and_costs_nothing(
    at_work: Work, database: Database, account: Account, new_target: NewTarget
) -> None:
    account_id = await account(1)
    target = await new_target([look("phone"), transform("end", "'done'")], account_id=account_id)
    [run_id] = await accept(database, target)
    async with at_work() as notifier:
        async with written_by_nobody(database, "credit_balances"):
            notifier.notify(QUEUED_CHANNEL)
            await until(lambda: waiting(database, "credit_balances"))
            await cancel(database, notifier, account_id, run_id)

            async def is_dropped() -> bool:
                return not await waiting(database, "credit_balances")

            await until(is_dropped)
        view = await ended(database, notifier, account_id, run_id)
    assert (view.status, view.credits_used) == ("cancelled", 0)
    assert await books(database, run_id) == (1, [], 0)


@pytest.mark.executions("shift", "workflow")
async def test_a_lookup_that_was_charged_and_lost_counts_for_its_run_when_that_is_cancelled(
    at_work: Work, database: Database, account: Account, new_target: NewTarget
) -> None:
    account_id = await account(1)
    target = await new_target([look("phone"), transform("end", "'done'")], account_id=account_id)
    [run_id] = await accept(database, target)
    async with at_work() as notifier:
        async with written_by_nobody(database, "run_steps"):
            notifier.notify(QUEUED_CHANNEL)
            await until(lambda: charged(database, run_id))
            await cancel(database, notifier, account_id, run_id)
        view = await ended(database, notifier, account_id, run_id)
    assert (view.status, view.credits_used) == ("cancelled", 1)
    assert await books(database, run_id) == (0, [1], 1)


@pytest.mark.parametrize("how", ["back at once", "back after a while"])
@pytest.mark.parametrize("table", ["provider_states", "credit_balances"], ids=["asking", "charging"])
async def test_postgres_may_go_away_during_a_lookup(
    open_settings: Settings,
    client: Client,
    postgres: Postgres,
    database: Database,
    keyring: Keyring,
    account: Account,
    new_target: NewTarget,
    table: str,
    how: str,
) -> None:
    name = conninfo_to_dict(database.url)["dbname"]
    account_id = await account(1)
    target = await new_target([look("username") | {"retry": {"max_attempts": 1}}], account_id=account_id)
    victim = Database(database.url, name="victim")
    await victim.open()
    async with working(open_settings, client, victim, keyring) as notifier:
        async with written_by_nobody(database, table):
            [run_id] = await accept(database, target)
            notifier.notify(QUEUED_CHANNEL)
            [backend] = await until(lambda: waiting(database, table))
            if how == "back at once":
                await administer(postgres, f"{DISCONNECT} where pid = {backend}")
            else:
                await administer(postgres, f"alter database {name} allow_connections false")
                await administer(postgres, f"{DISCONNECT} where application_name = 'victim'")
                # It is back once the worker has tried to connect again, and failed.
                await until(lambda: is_missed(victim))
                await administer(postgres, f"alter database {name} allow_connections true")
        view = await ended(database, notifier, account_id, run_id)
    await victim.close()
    assert (view.status, view.error) == ("completed", None)
    assert view.output["total"] == view.steps[0].credits_used == 1
    assert await books(database, run_id) == (0, [1], 1)


async def is_missed(database: Database) -> bool:
    try:
        async with database.connection() as connection:
            await connection.execute("select 1")
    except psycopg.Error:
        return True
    return False


async def test_a_charge_counts_for_its_run_in_the_transaction_of_the_charge(
    database: Database, account: Account, new_target: NewTarget
) -> None:
    target = await new_target([look("phone")], account_id=await account(10))
    [run_id] = await accept(database, target)

    async def charge(commits: bool) -> None:
        async with database.transaction() as connection:
            reference = f"run/{run_id}/look"
            await credits.charge(connection, Booking(target.account_id, 3, reference, "test", run_id=run_id))
            if not commits:
                raise RuntimeError

    with pytest.raises(RuntimeError):
        await charge(commits=False)
    assert await books(database, run_id) == (10, [], 0)
    for _ in range(2):
        await charge(commits=True)
        assert await books(database, run_id) == (7, [3], 3)
