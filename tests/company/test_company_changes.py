"""What a monitor is told of a company when a source fails that helps to find out which one it is."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from database import Database
from outbound.client import Outbound
from providers.lookup.lookup import Lookups
from providers.lookup.questions import LookupOptions
from providers.lookup.replay import collect_said, editions
from providers.lookup.result import LookupResult
from sealing import Keyring
from settings import Settings
from tests.company.fixture_servers import Servers


@asynccontextmanager
async def process(
    settings: Settings, database: Database, keyring: Keyring, servers: Servers
) -> AsyncGenerator[Lookups]:
    configured = settings.model_copy(update={"providers": servers.providers, "local_only": False})
    async with Outbound(configured) as outbound:
        lookups = Lookups(configured, database, keyring, outbound)
        await lookups.open()
        yield lookups
        await lookups.close()


@pytest.fixture
async def lookups(
    settings: Settings, database: Database, keyring: Keyring, servers: Servers
) -> AsyncGenerator[Lookups]:
    async with process(settings, database, keyring, servers) as lookups:
        yield lookups


async def test_an_older_answer_of_a_register_that_fails_now_is_no_silence(
    lookups: Lookups, settings: Settings, database: Database, keyring: Keyring, servers: Servers
) -> None:
    for name in ("wikidata", "sec", "gleif"):
        servers.say(name, "ok")
    await search(lookups)
    async with database.connection() as connection:
        await connection.execute("update lookup_answers set expires_at = now()")
    del servers.exchanges["wikidata"]
    async with process(settings, database, keyring, servers) as another:
        result = await another.lookup("company", "EXAMPLE BANK")
    assert (result.data["company"], result.data["profile"]["name"]) == ("EXAMPLE BANK", "Example Bank")
    assert result.partial


async def search(lookups: Lookups) -> LookupResult:
    return await lookups.lookup("company", "Example Bank", LookupOptions(max_age=0))


async def test_who_cannot_be_told_from_others_for_want_of_a_source_has_not_been_heard(
    lookups: Lookups, servers: Servers
) -> None:
    for name in ("wikidata", "sec", "gleif"):
        servers.say(name, "ok")
    assert collect_said((await search(lookups)).outcomes).keys() == {"wikidata", "sec", "gleif"}
    del servers.exchanges["wikidata"]
    part = await search(lookups)
    assert part.data["candidates"]
    assert not collect_said(part.outcomes)


async def test_a_source_that_speaks_of_the_same_company_again_speaks_in_the_same_edition(
    lookups: Lookups, servers: Servers
) -> None:
    for name in ("wikidata", "sec"):
        servers.say(name, "ok")
    servers.say("gleif", "empty")
    whole, again = await search(lookups), await search(lookups)
    assert collect_said(again.outcomes)["sec"] == collect_said(whole.outcomes)["sec"]
    assert editions(again.outcomes)["sec"] == editions(whole.outcomes)["sec"]
    del servers.exchanges["wikidata"]
    assert not collect_said((await search(lookups)).outcomes), "which company is meant, nobody can tell now"


async def test_a_company_is_no_candidate_any_more_only_where_all_have_been_heard(
    lookups: Lookups, servers: Servers
) -> None:
    servers.say("wikidata", "two_of_one_name")
    servers.say("sec", "ok")[0]["body"] = {}
    servers.say("gleif", "empty")
    assert collect_said((await search(lookups)).outcomes)["wikidata"]["candidates"]
    del servers.exchanges["gleif"]
    part = await search(lookups)
    assert part.data["candidates"]
    assert "wikidata" not in collect_said(part.outcomes)
