"""`lookup.completed`: once for each lookup that was answered, with its charge, where somebody wants it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from database import Database
from models.accounts import suppressions
from providers.lookup.billing import Payer
from sealing import Keyring
from settings import Settings
from tests.api_server import Api, Person, running
from tests.automations.engine import until
from tests.datasets import write_small_datasets
from tests.deliveries.receivers import Hooks, told

NOWHERE = "http://127.0.0.1:9/"


@pytest.fixture(scope="module")
async def api(settings: Settings) -> AsyncGenerator[Api]:
    """An API with data on this machine."""
    write_small_datasets(settings.data)
    async with running(settings) as api:
        yield api


CREDITS = 10


@pytest.fixture
async def wants(
    api: Api, person: Person, database: Database, keyring: Keyring
) -> Callable[[], Awaitable[Hooks]]:
    """Makes an endpoint of the person that wants to hear of lookups, and waits until the API knows it."""

    async def make() -> Hooks:
        hooks = Hooks(database, keyring, person.account.id)
        await hooks.endpoint(NOWHERE, events=["lookup.*"])
        await until(lambda: api.services.lookups.events.has_subscriber(person.account.id))
        return hooks

    return make


Wants = Callable[[], Awaitable[Hooks]]


async def test_a_free_lookup_is_told(person: Person, wants: Wants) -> None:
    hooks = await wants()
    answer = (await person.key.post("/api/agent/ip", json={"ip": "8.8.8.8"})).json()
    [event] = await told(hooks)
    assert event["type"] == "lookup.completed"
    assert event["data"] == {
        "kind": "ip", "query": "8.8.8.8", "credits_used": 0, "cached": False, "partial": answer["partial"],
        "sources": event["data"]["sources"], "via": "api", "key_id": event["data"]["key_id"],
        "run_id": None,
    }  # fmt: skip
    UUID(event["data"]["key_id"])


async def test_a_lookup_that_costs_is_told_with_its_charge(person: Person, wants: Wants) -> None:
    hooks = await wants()
    await person.key.post("/api/agent/phone", json={"phone": "+14155552671"})
    [event] = await told(hooks)
    assert (event["data"]["kind"], event["data"]["credits_used"]) == ("phone", 1)


async def test_a_lookup_that_cannot_be_paid_is_neither_charged_nor_told(
    api: Api, person: Person, wants: Wants
) -> None:
    hooks = await wants()
    charged = [
        person.key.post("/api/agent/phone", json={"phone": f"+1415555267{number % 10}"})
        for number in range(15)
    ]
    answers = await asyncio.gather(*charged)
    assert sorted(answer.status_code for answer in answers) == [200] * 10 + [402] * 5
    assert len(await told(hooks)) == 10


async def test_the_same_work_is_told_once(api: Api, person: Person, wants: Wants) -> None:
    hooks = await wants()

    async def look_up() -> Any:
        payer = Payer(person.account.id, "lookup/the-same-work")
        return await api.services.lookups.lookup("phone", "+14155552671", payer=payer)

    await asyncio.gather(*(look_up() for _ in range(5)))
    await look_up()
    assert len(await told(hooks)) == 1


async def test_where_nobody_wants_it_nothing_is_kept(person: Person, database: Database) -> None:
    await person.key.post("/api/agent/ip", json={"ip": "8.8.8.8"})
    async with database.connection() as connection:
        cursor = await connection.execute("select from events where account_id = %s", (person.account.id,))
        assert await cursor.fetchone() is None


async def test_it_is_no_longer_told_once_the_endpoint_is_gone(
    api: Api, person: Person, wants: Wants, database: Database
) -> None:
    hooks = await wants()
    async with database.connection() as connection:
        await connection.execute("update endpoints set is_active = false where account_id = %s",
                                 (person.account.id,))  # fmt: skip
    await person.key.post("/api/agent/ip", json={"ip": "8.8.8.8"})
    assert await told(hooks) == []


async def test_what_was_told_of_a_person_is_erased(
    person: Person, wants: Wants, database: Database, keyring: Keyring
) -> None:
    hooks = await wants()
    await person.key.post("/api/agent/validate", json={"email": "Ada@example.com"})
    await person.key.post("/api/agent/ip", json={"ip": "8.8.8.8"})
    async with database.connection() as connection:
        await suppressions.erase(connection, keyring, ["validate"], "ada@example.com")
    assert [event["data"]["kind"] for event in await told(hooks)] == ["ip"]
    assert len(await hooks.rows()) == 1
