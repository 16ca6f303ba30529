"""Paid lookups whose answer was lost on the way: done again, they are delivered, and not paid again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from uuid import UUID, uuid4

import pytest

from database import Database
from execution.lookup_step import look_up
from language.steps import LookupStep
from models.accounts import accounts
from models.accounts.accounts import NewAccount
from models.credits import credits, ledger
from outbound.client import Outbound
from providers.lookup.billing import Payer
from providers.lookup.composition import Selection
from providers.lookup.lookup import Lookups
from providers.lookup.questions import LookupOptions
from sealing import Keyring
from settings import Settings
from tests.company.fixture_servers import Servers, serving

Process = Callable[[], Awaitable[Lookups]]

# What each costs is what the account has.
PAID = {
    "one credit": ("phone", "+14155552671", 1),
    "a block": ("darkweb", "example.com", 1),
    "a credit for each result": ("company", "Example Bank", 2),
}
SOURCES = {"company": ("wikidata", "sec", "gleif"), "darkweb": ("ahmia",)}


async def forget(database: Database) -> None:
    """Let sources be asked as if for the first time."""
    async with database.connection() as connection:
        await connection.execute("truncate lookup_answers, provider_states, source_windows, source_turns")


@pytest.fixture
async def servers(database: Database) -> AsyncGenerator[Servers]:
    """The sources of companies and of the dark web."""
    await forget(database)
    async with AsyncExitStack() as stack:
        together = Servers()
        for kind, names in SOURCES.items():
            served = await stack.enter_async_context(serving(kind))
            together.providers |= served.providers
            together.exchanges |= {name: served.say(name, "ok") for name in names}
        yield together


@pytest.fixture
async def process(
    settings: Settings, database: Database, keyring: Keyring, servers: Servers
) -> AsyncGenerator[Process]:
    """Opens the lookups of a process of its own, which has heard no answer yet."""
    chosen = settings.model_copy(update={"providers": servers.providers})
    async with AsyncExitStack() as stack:

        async def opened() -> Lookups:
            outbound = await stack.enter_async_context(Outbound(chosen))
            lookups = Lookups(chosen, database, keyring, outbound)
            stack.push_async_callback(lookups.close)
            return lookups

        yield opened


@pytest.fixture
async def lookups(process: Process) -> Lookups:
    return await process()


async def payer_with(database: Database, balance: int) -> Payer:
    async with database.transaction() as connection:
        email = f"{uuid4().hex}@example.com"
        account = await accounts.create_account(connection, NewAccount(email, "-", credits=balance))
    return Payer(account.id, f"test/{uuid4()}")


async def booked(database: Database, account_id: UUID) -> tuple[int, list[int]]:
    """The balance, and what was charged."""
    async with database.connection() as connection:
        entries, _ = await ledger.list_entries(connection, account_id)
        balance = (await credits.get_balance(connection, account_id)).balance
    return balance, [-entry.amount for entry in entries if entry.kind == "charge"]


@pytest.mark.parametrize("case", PAID)
async def test_it_is_delivered_again_when_nothing_is_left_to_pay_with(
    lookups: Lookups, database: Database, case: str
) -> None:
    kind, query, price = PAID[case]
    payer = await payer_with(database, price)
    lost, repeated = [await lookups.lookup(kind, query, payer=payer) for _ in range(2)]
    assert repeated.data == lost.data
    assert lost.credits == repeated.credits == price
    assert await booked(database, payer.account_id) == (0, [price])


@pytest.mark.parametrize("left", [0, 100])
@pytest.mark.parametrize("case", PAID)
async def test_several_attempts_at_once_all_deliver_and_one_pays(
    lookups: Lookups, database: Database, case: str, left: int
) -> None:
    kind, query, price = PAID[case]
    payer = await payer_with(database, price + left)
    results = await asyncio.gather(*(lookups.lookup(kind, query, payer=payer) for _ in range(8)))
    assert {result.credits for result in results} == {price}
    assert await booked(database, payer.account_id) == (left, [price])


async def test_no_more_is_delivered_than_was_paid_for(
    lookups: Lookups, servers: Servers, database: Database
) -> None:
    payer = await payer_with(database, 100)
    lost = await lookups.lookup("company", "Example Bank", LookupOptions(Selection(limit=1)), payer=payer)
    repeated = await lookups.lookup(
        "company", "Example Bank", LookupOptions(Selection(limit=25)), payer=payer
    )
    assert (len(repeated.data["results"]), repeated.credits) == (1, 1) and repeated.data == lost.data


async def test_what_was_paid_for_stays_paid_when_less_is_found_the_next_time(
    process: Process, servers: Servers, database: Database
) -> None:
    payer = await payer_with(database, 1)
    await (await process()).lookup("darkweb", "example.com", payer=payer)
    servers.exchanges["ahmia"][:] = Servers().say("ahmia", "empty")
    await forget(database)
    repeated = await (await process()).lookup("darkweb", "example.com", payer=payer)
    assert (repeated.data["results"], repeated.credits) == ([], 1)
    assert await booked(database, payer.account_id) == (0, [1])


async def test_a_step_says_what_it_was_charged_although_its_repetition_fails(
    process: Process, servers: Servers, database: Database
) -> None:
    account_id, reference = (await payer_with(database, 1)).account_id, f"run/{uuid4()}/look"
    step = LookupStep.model_validate(
        {"id": "look", "type": "darkweb_lookup", "config": {"value": "example.com"}}
    )
    lost = await look_up(await process(), step, {}, account_id, reference)
    servers.exchanges["ahmia"][:] = []
    await forget(database)
    failed = await look_up(await process(), step, {}, account_id, reference)
    assert (lost.error, lost.credits_used) == (None, 1)
    assert failed.error is not None and failed.error.code == "all_providers_failed"
    assert (failed.credits_used, failed.retryable) == (1, True)
    assert await booked(database, account_id) == (0, [1])
