"""Paid lookups in runs are charged once and seen in what the run cost, whatever is lost on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Identifier
from temporalio import activity
from temporalio.client import Client
from temporalio.worker import ExecuteActivityInput

from database import Database
from embedded.postgres import Postgres
from models import credits
from sealing import Keyring
from settings import Settings
from tests.automations import sources
from tests.automations.engine import NewTarget, Work, accept, cancel, ended, transform, until, working
from tests.automations.faults import Do, Lost, with_faults
from tests.automations.sources import Account, books
from tests.automations.test_killed_workers import process
from tests.stacks import CLI

providers, live_settings, account = sources.providers, sources.live_settings, sources.account

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


def attempt_at(run_id: UUID, call: ExecuteActivityInput) -> int:
    """Which attempt at the run's lookup this is; 0: it is none. Others may be left from other tests."""
    is_lookup = activity.info().activity_type == "lookup_many" and call.args[0].calls[0].run_id == run_id
    return activity.info().attempt if is_lookup else 0


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


@pytest.mark.parametrize("items", [False, True], ids=["a step", "an item"])
@pytest.mark.parametrize("kind", PAID)
async def test_what_was_charged_and_not_recorded_is_delivered_for_that_charge(
    at_work: Work, database: Database, account: Account, new_target: NewTarget, kind: str, items: bool
) -> None:
    lost, price = 0, PAID[kind][1]

    async def lose_after_the_charge(call: ExecuteActivityInput, do: Do) -> Any:
        nonlocal lost
        if attempt_at(run_id, call) != 1:
            return await do()
        lost += 1
        async with written_by_nobody(database, table):
            doing = asyncio.ensure_future(do())
            await until(lambda: charged(database, run_id))
            doing.cancel()
            await asyncio.wait([doing])
        raise Lost

    step, table = look(kind), "run_steps"
    if items:
        step, table = step | {"for_each": "trigger"}, "run_step_items"
    target = await new_target([step, transform("end", "'done'")], account_id=await account(price))
    [run_id] = await accept(database, target, 1, ["an item"])
    async with at_work(lose_after_the_charge) as notifier:
        view = await ended(database, notifier, target.account_id, run_id)
    assert lost == 1 and (view.status, view.error) == ("completed", None)
    assert view.steps[0].credits_used == view.credits_used == price
    assert await books(database, run_id) == (0, [price], price)


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
        with process(open_settings, str(CLI), "worker") as killed:
            await until(lambda: charged(database, run_id))
            killed.kill()
            killed.wait()
    async with working(open_settings, client, database, keyring) as notifier:
        view = await ended(database, notifier, target.account_id, run_id)
    assert (view.status, view.output, view.steps[0].credits_used) == ("completed", True, 1)
    assert await books(database, run_id) == (0, [1], 1)


# Beside the charge


async def test_a_lookup_that_a_cancel_comes_upon_counts_for_its_run_although_that_has_ended(
    at_work: Work, client: Client, database: Database, account: Account, new_target: NewTarget
) -> None:
    account_id = await account(1)
    target = await new_target([look("phone"), transform("end", "'done'")], account_id=account_id)
    [run_id] = await accept(database, target)
    async with at_work() as notifier:
        async with written_by_nobody(database, "credit_balances"):
            await until(lambda: waiting(database, "credit_balances"))
            await cancel(client, database, account_id, run_id)
            assert (await ended(database, notifier, account_id, run_id)).credits_used == 0
        await until(lambda: charged(database, run_id))
        view = await ended(database, notifier, account_id, run_id)
    assert (view.status, view.credits_used) == ("cancelled", 1)
    assert await books(database, run_id) == (0, [1], 1)


async def test_a_lookup_that_was_charged_and_lost_counts_for_its_run_when_that_is_cancelled(
    at_work: Work, client: Client, database: Database, account: Account, new_target: NewTarget
) -> None:
    async def lose_and_cancel(call: ExecuteActivityInput, do: Do) -> Any:
        if attempt_at(run_id, call) != 1:
            return await do()
        async with written_by_nobody(database, "run_steps"):
            doing = asyncio.ensure_future(do())
            await until(lambda: charged(database, run_id))
            doing.cancel()
            await asyncio.wait([doing])
            await cancel(client, database, account_id, run_id)
        raise Lost

    account_id = await account(1)
    target = await new_target([look("phone"), transform("end", "'done'")], account_id=account_id)
    [run_id] = await accept(database, target)
    async with at_work(lose_and_cancel) as notifier:
        view = await ended(database, notifier, account_id, run_id)
    assert (view.status, view.credits_used) == ("cancelled", 1)
    assert await books(database, run_id) == (0, [1], 1)


@pytest.mark.parametrize("how", ["back at once", "back when the attempt is over"])
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
    attempts, name = 0, conninfo_to_dict(database.url)["dbname"]

    async def go_away(call: ExecuteActivityInput, do: Do) -> Any:
        nonlocal attempts
        attempts = max(attempts, attempt_at(run_id, call))
        if attempt_at(run_id, call) != 1:
            return await do()
        async with written_by_nobody(database, table):
            doing = asyncio.ensure_future(do())
            [backend] = await until(lambda: waiting(database, table))
            if how == "back at once":
                await administer(postgres, f"{DISCONNECT} where pid = {backend}")
                await asyncio.wait([doing])
            else:
                await administer(postgres, f"alter database {name} allow_connections false")
                await administer(postgres, f"{DISCONNECT} where application_name = 'victim'")
                await asyncio.wait([doing])
                await administer(postgres, f"alter database {name} allow_connections true")
        return await doing

    account_id = await account(1)
    target = await new_target([look("username") | {"retry": {"max_attempts": 1}}], account_id=account_id)
    [run_id] = await accept(database, target)
    victim = Database(database.url, name="victim")
    await victim.open()
    async with working(open_settings, with_faults(client, go_away), victim, keyring) as notifier:
        view = await ended(database, notifier, account_id, run_id)
    await victim.close()
    assert attempts > 1 and (view.status, view.error) == ("completed", None)
    assert view.output["total"] == view.steps[0].credits_used == 1
    assert await books(database, run_id) == (0, [1], 1)


async def test_a_charge_counts_for_its_run_in_the_transaction_of_the_charge(
    database: Database, account: Account, new_target: NewTarget
) -> None:
    target = await new_target([look("phone")], account_id=await account(10))
    [run_id] = await accept(database, target)

    async def charge(commits: bool) -> None:
        async with database.transaction() as connection:
            reference = f"run/{run_id}/look"
            await credits.charge(connection, target.account_id, 3, reference, "test", run_id=run_id)
            if not commits:
                raise Lost

    with pytest.raises(Lost):
        await charge(commits=False)
    assert await books(database, run_id) == (10, [], 0)
    for _ in range(2):
        await charge(commits=True)
        assert await books(database, run_id) == (7, [3], 3)
