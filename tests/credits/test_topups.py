"""Automatic top-up: credits are added once, never twice at a time, never beyond the month's cap."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from uuid import UUID, uuid4

import pytest
from temporalio.client import Client
from temporalio.worker import Worker

from activities.credits import CreditActivities, Declined, start_due
from database import Database
from models import audit
from models.accounts import accounts
from models.accounts.accounts import NewAccount
from models.audit import Actor
from models.credits import credits, ledger, topups
from models.credits.credits import AutoTopUp
from models.credits.topups import TopUp as DueTopUp
from sealing import Keyring
from settings import Settings
from temporal.client import TASK_QUEUE, connect
from tests.stacks import eventually
from workflows.credits import TopUp


class Biller:
    """Remembers what it was asked for; refuses, or fails the first time, on request."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refuse = False
        self.fail_once = False

    async def charge(self, top_up: DueTopUp) -> None:
        self.asked.append(top_up.reference)
        if self.refuse:
            raise Declined("The card has expired.")
        if self.fail_once:
            self.fail_once = False
            raise ConnectionError("the bank is away")


@pytest.fixture
def biller() -> Biller:
    return Biller()


@pytest.fixture
async def client(
    live_settings: Settings, keyring: Keyring, database: Database, biller: Biller
) -> AsyncGenerator[Client]:
    client = await connect(live_settings, keyring)
    activities = CreditActivities(database, biller)
    async with Worker(client, task_queue=TASK_QUEUE, workflows=[TopUp], activities=[activities.top_up]):
        yield client


async def account(database: Database, balance: int, **wanted: object) -> UUID:
    settings = {"enabled": True, "threshold": 50, "amount": 100, "monthly_cap": None, **wanted}
    async with database.transaction() as connection:
        await connection.execute("update credit_balances set topup_enabled = false")
        created = await accounts.create_account(
            connection, NewAccount(f"{uuid4().hex}@example.com", "x", credits=balance)
        )
        actor = Actor(account_id=created.id, kind="session", name="test")
        await topups.configure(connection, actor, AutoTopUp.model_validate(settings))
    return created.id


async def balance(database: Database, account_id: UUID) -> int:
    async with database.connection() as connection:
        return (await credits.get_balance(connection, account_id)).balance


async def settle_down(client: Client, database: Database) -> None:
    """Start what is due until nothing is, as the dispatcher does every second."""

    async def nothing_due() -> bool:
        await start_due(client, database)
        async with database.connection() as connection:
            return not await topups.list_due(connection)

    await eventually(nothing_due, 30)


async def test_a_balance_under_the_threshold_is_topped_up(
    client: Client, database: Database, biller: Biller
) -> None:
    account_id = await account(database, 49)
    await settle_down(client, database)
    assert await balance(database, account_id) == 149
    assert biller.asked == [f"topup/{account_id}/1"]
    async with database.connection() as connection:
        (entry, _), _ = await ledger.list_entries(connection, account_id)
        assert (entry.kind, entry.reference) == ("topup", f"topup/{account_id}/1")
        assert (await audit.list_entries(connection, account_id))[0].action == "credits.topped_up"


async def test_a_balance_at_the_threshold_is_left_alone(client: Client, database: Database) -> None:
    account_id = await account(database, 50)
    assert await start_due(client, database) == 0
    assert await balance(database, account_id) == 50


async def test_two_never_run_at_once_whoever_starts_them(
    client: Client, database: Database, biller: Biller
) -> None:
    account_id = await account(database, 0)
    started = await asyncio.gather(*(start_due(client, database) for _ in range(8)))
    assert sum(started) >= 1
    await settle_down(client, database)
    assert await balance(database, account_id) == 100
    assert set(biller.asked) == {f"topup/{account_id}/1"}


async def test_top_ups_go_on_until_the_threshold_is_reached(client: Client, database: Database) -> None:
    account_id = await account(database, 0, threshold=250)
    await settle_down(client, database)
    assert await balance(database, account_id) == 300


async def test_the_month_has_a_cap_and_the_next_month_a_new_one(client: Client, database: Database) -> None:
    account_id = await account(database, 0, threshold=1000, monthly_cap=250)
    await settle_down(client, database)
    assert await balance(database, account_id) == 200
    async with database.connection() as connection:
        await connection.execute(
            "update credit_balances set topup_month = '2020-01' where account_id = %s", (account_id,)
        )
    await settle_down(client, database)
    assert await balance(database, account_id) == 400


async def test_a_refusal_turns_it_off_and_is_in_the_audit_log(
    client: Client, database: Database, biller: Biller
) -> None:
    biller.refuse = True
    account_id = await account(database, 0)
    await settle_down(client, database)
    assert await balance(database, account_id) == 0
    async with database.connection() as connection:
        assert not (await credits.get_balance(connection, account_id)).auto_topup.enabled
        entry = (await audit.list_entries(connection, account_id))[0]
    assert (entry.action, entry.changes) == ("credits.topup_declined", {"reason": "The card has expired."})


async def test_a_failure_of_the_biller_is_tried_again_under_the_same_reference(
    client: Client, database: Database, biller: Biller
) -> None:
    biller.fail_once = True
    account_id = await account(database, 0)
    await settle_down(client, database)
    assert await balance(database, account_id) == 100
    assert biller.asked == [f"topup/{account_id}/1"] * 2


async def test_an_activity_that_runs_again_after_its_commit_adds_nothing(
    database: Database, biller: Biller
) -> None:
    account_id = await account(database, 0)
    activities = CreditActivities(database, biller)
    assert await activities.top_up(f"topup/{account_id}/1") == "added"
    assert await activities.top_up(f"topup/{account_id}/1") == "not_due"
    async with database.transaction() as connection:
        assert not await topups.complete(connection, DueTopUp(account_id, 1, 100))
    assert await balance(database, account_id) == 100
