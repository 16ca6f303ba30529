"""Sources of every kind of lookup, as servers on loopback, for steps that look something up."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import NamedTuple
from uuid import UUID

import pytest

from database import Database
from models.accounts import accounts
from models.accounts.accounts import NewAccount
from models.identifiers import new_id
from providers.registry import KINDS
from providers.sources.base import RemoteSource
from settings import ProviderSettings, Settings
from tests.company.fixture_servers import serving
from tests.email.sources import sources_on_loopback

Account = Callable[[int], Awaitable[UUID]]

_ANSWERING = {
    "company": ("wikidata", "sec", "gleif"),
    "darkweb": ("ahmia",),
    "username": ("keybase",),
    "websearch": ("searxng",),
}


@pytest.fixture(scope="module")
async def providers() -> AsyncGenerator[dict[str, ProviderSettings]]:
    """Serve sources that answer as their `ok` fixtures say: their settings, and those of the others, off."""
    every = (source for kind in KINDS.values() for source in kind.sources if isinstance(source, RemoteSource))
    providers = {source.spec.name: ProviderSettings(enabled=False) for source in every}
    async with AsyncExitStack() as stack:
        people = await stack.enter_async_context(sources_on_loopback())
        people.say("ok")
        people.zone["example.com"] = {"A": ["192.0.2.1"], "MX": ["10 mail.example.com."]}
        providers |= people.providers | {"dns": people.providers["mx"]}
        for kind, names in _ANSWERING.items():
            servers = await stack.enter_async_context(serving(kind))
            for name in names:
                servers.say(name, "ok")
                providers[name] = servers.providers[name]
        yield providers


@pytest.fixture(scope="module")
def live_settings(live_settings: Settings, providers: dict[str, ProviderSettings]) -> Settings:
    """The module's settings, with these sources."""
    return live_settings.model_copy(update={"providers": providers})


@pytest.fixture
def account(database: Database) -> Account:
    """Makes an account with so many credits; sources may be asked as if for the first time."""

    async def create(balance: int) -> UUID:
        async with database.connection() as connection:
            # Each by itself: an answer may be on its way into both.
            await connection.execute("truncate lookup_answers")
            await connection.execute("truncate provider_states, source_windows, source_turns")
        async with database.transaction() as connection:
            email = f"{new_id()}@example.com"
            return (await accounts.create_account(connection, NewAccount(email, "-", credits=balance))).id

    return create


class Books(NamedTuple):
    """What an account has left, what was charged for a run, entry by entry, and what the run says it cost."""

    balance: int
    charges: list[int]
    credits_used: int


async def books(database: Database, run_id: UUID) -> Books:
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select r.credits_used, b.balance, coalesce((select json_agg(-amount) from credit_entries"
            " where kind = 'charge' and reference like 'run/' || r.id || '/%%'), '[]') as charges"
            " from runs r join credit_balances b using (account_id) where r.id = %s",
            (run_id,),
        )
        row = await cursor.fetchone()
    assert row is not None
    return Books(**row)
