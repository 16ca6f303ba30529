"""What bulk searches cost: what is delivered, once, and no more than there is."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import uuid4

import httpx
import pytest

from database import Database
from models.credits import credits
from models.credits.credits import Booking
from models.identifiers import new_id
from providers.lookup.billing import Payer
from sealing import Keyring
from services.bulk_searches import Question
from tests.api_server import Api, Person
from tests.automations.engine import until
from tests.bulk_searches.conftest import EVENTS, Sources, charges, emails
from tests.deliveries.receivers import Hooks, told
from tests.stacks import eventually

WEB, PEOPLE = "/api/bulk-web-search", "/api/agent/bulk-lookup"


async def search(person: Person, *queries: str, key: str | None = None) -> dict[str, Any]:
    headers = {"idempotency-key": key} if key else {}
    response = await person.key.post(WEB, json={"queries": queries}, headers=headers)
    assert response.status_code == 200, response.text
    return response.json()


def lines(response: httpx.Response) -> list[dict[str, Any]]:
    """The data of a stream that has come to its end."""
    assert response.status_code == 200, response.text
    data = [line.removeprefix("data: ") for line in response.text.split("\n") if line.startswith("data: ")]
    assert data[-1] == "[DONE]"
    return [json.loads(one) for one in data[:-1]]


async def look_up(person: Person, *given: str) -> list[dict[str, Any]]:
    return lines(await person.key.post(PEOPLE, json={"emails": given}))


def codes(entries: list[dict[str, Any]]) -> list[str | None]:
    return [entry["error"]["code"] if "error" in entry else None for entry in entries]


async def test_what_is_delivered_is_charged_by_one_entry(person: Person, sources: Sources) -> None:
    sources.failing = {"failing"}
    answer = await search(person, "one", "failing", "two", "")
    [(reference, amount)] = await charges(person)
    assert reference.startswith("bulk/")
    assert (amount, answer["credits_used"]) == (2, 2)
    [key] = (await person.session.get("/api/keys")).json()["keys"]
    assert key["credits_used"] == 2


async def test_queries_that_mean_the_same_are_charged_once(person: Person, sources: Sources) -> None:
    answer = await search(person, "Ada Lovelace", "other", " Ada  Lovelace ")
    assert [one["query"] for one in answer["results"]] == ["Ada Lovelace", "other", " Ada  Lovelace "]
    assert [one["credits"] for one in answer["results"]] == [1, 1, 0]
    assert sorted(sources.asked) == ["Ada Lovelace", "other"]
    assert [amount for _, amount in await charges(person)] == [2]


async def test_without_credits_nobody_is_asked(api: Api, sources: Sources) -> None:
    person = await api.person(credits=0)
    for path, body in ((WEB, {"queries": ["Ada"]}), (PEOPLE, {"emails": ["ada@example.com"]})):
        for accept in ("application/json", EVENTS["accept"]):
            refused = await person.key.post(path, json=body, headers={"accept": accept})
            assert (refused.status_code, refused.json()["code"]) == (402, "insufficient_credits")
    assert sources.asked == []


async def test_addresses_need_no_credits(api: Api) -> None:
    person = await api.person(credits=0)
    answer = await person.key.post("/api/bulk-ip-search", json={"queries": ["8.8.8.8"] * 3})
    assert (answer.status_code, answer.json()["credits_used"]) == (200, 0)
    assert await charges(person) == []


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_what_cannot_be_paid_is_not_asked_for(api: Api, sources: Sources, accept: str) -> None:
    person = await api.person(credits=3)
    queries = [f"query {number}" for number in range(40)]
    response = await person.key.post(WEB, json={"queries": queries}, headers={"accept": accept})
    if accept == "application/json":
        entries = response.json()["results"]
        assert codes(entries) == [None] * 3 + ["insufficient_credits"] * 37
    else:
        entries = lines(response)[1:-1]
    assert sorted(codes(entries), key=str) == [None] * 3 + ["insufficient_credits"] * 37
    assert len(sources.asked) == 3
    assert sum(amount for _, amount in await charges(person)) == 3


async def test_a_lookup_that_costs_nothing_leaves_its_credit_to_the_next(api: Api, sources: Sources) -> None:
    person = await api.person(credits=2)
    given = emails(30)
    sources.strangers = set(given[:20])
    profiles = await look_up(person, *given)
    assert codes(profiles).count("insufficient_credits") == 8
    known = [one["email"] for one in profiles if one.get("name")]
    assert len(known) == 2
    assert not sources.strangers & {*known}
    assert sum(amount for _, amount in await charges(person)) == 2


async def test_people_are_charged_and_strangers_are_not(person: Person, sources: Sources) -> None:
    given = emails(50)
    sources.strangers, sources.failing = set(given[:20]), set(given[20:22])
    profiles = await look_up(person, *given, "no address")
    found = {one["email"]: one.get("credits") for one in profiles}
    assert found.keys() == {*given, "no address"}
    assert sum(amount for _, amount in await charges(person)) == 28
    assert sum(filter(None, found.values())) == 28
    assert codes(profiles).count("invalid_email") == 1


async def test_an_address_given_twice_has_two_lines_and_costs_once(person: Person, sources: Sources) -> None:
    profiles = await look_up(person, "ada@example.com", "ADA@example.com", "ada@example.com")
    assert [one["email"] for one in profiles] == ["ada@example.com", "ADA@example.com", "ada@example.com"]
    assert [one["credits"] for one in profiles] == [1, 0, 0]
    assert len(sources.asked) == 1
    assert [amount for _, amount in await charges(person)] == [1]


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_what_another_has_spent_meanwhile_is_not_delivered(
    api: Api, database: Database, sources: Sources, accept: str
) -> None:
    person = await api.person(credits=10)
    sources.open.clear()
    queries = [f"query {number}" for number in range(20)]
    asked = asyncio.create_task(
        person.key.post(WEB, json={"queries": queries}, headers={"accept": accept}),
    )
    await eventually(lambda: sources.held == 10)
    async with database.connection() as connection:
        await credits.charge(connection, Booking(person.account.id, 7, f"other/{uuid4()}", "another's"))
    sources.open.set()
    response = await asked
    entries = response.json()["results"] if accept == "application/json" else lines(response)[1:-1]
    assert codes(entries).count(None) == 3
    assert codes(entries).count("insufficient_credits") == 17
    assert len(sources.asked) == 10
    assert sum(amount for reference, amount in await charges(person) if reference.startswith("bulk/")) == 3


async def test_nobody_is_asked_any_more_once_another_has_spent_the_credits(
    api: Api, database: Database, sources: Sources
) -> None:
    person = await api.person(credits=100)
    sources.open.clear()
    queries = [f"query {number}" for number in range(100)]
    asked = asyncio.create_task(person.key.post(WEB, json={"queries": queries}, headers=EVENTS))
    await eventually(lambda: sources.held == 16)
    async with database.connection() as connection:
        await credits.charge(connection, Booking(person.account.id, 95, f"other/{uuid4()}", "another's"))
    sources.open.set()
    entries = lines(await asked)[1:-1]
    assert (codes(entries).count(None), codes(entries).count("insufficient_credits")) == (5, 95)
    assert len(sources.asked) < 100


async def test_a_repeat_with_the_same_key_gets_the_same_answer(person: Person) -> None:
    key = uuid4().hex
    first, repeat = [await search(person, "one", "two", key=key) for _ in range(2)]
    assert first == repeat
    assert [amount for _, amount in await charges(person)] == [2]


async def test_a_repeat_whose_first_answer_was_lost_is_charged_once(api: Api, sources: Sources) -> None:
    person = await api.person(credits=2)
    payer, bulk = Payer(person.account.id, f"bulk/{new_id()}"), api.services.bulk_searches
    for queries in (["one", "two"], ["one", "two"], ["one", "two", "three"]):
        search = await bulk.prepare(Question("websearch", queries), payer)
        answers = await search.all()
        assert search.credits_used == 2
    assert [getattr(answer.outcome, "code", None) for answer in answers] == [
        None,
        None,
        "insufficient_credits",
    ]
    assert await charges(person) == [(payer.reference, 2)]


async def test_two_attempts_at_the_same_work_are_charged_once(api: Api, sources: Sources) -> None:
    person = await api.person(credits=10)
    payer, bulk = Payer(person.account.id, f"bulk/{new_id()}"), api.services.bulk_searches
    attempts = [await bulk.prepare(Question("websearch", ["one", "two"]), payer) for _ in range(4)]
    await asyncio.gather(*(attempt.all() for attempt in attempts))
    assert [attempt.credits_used for attempt in attempts] == [2] * 4
    assert await charges(person) == [(payer.reference, 2)]


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_each_lookup_is_told_once_with_its_charge(
    api: Api, person: Person, sources: Sources, database: Database, keyring: Keyring, accept: str
) -> None:
    hooks = Hooks(database, keyring, person.account.id)
    await hooks.endpoint("http://127.0.0.1:9/", events=["lookup.*"])
    await until(lambda: api.services.lookups.events.has_subscriber(person.account.id))
    sources.failing = {"failing"}
    queries = ["one", "two", "one", "failing"]
    await person.key.post(WEB, json={"queries": queries}, headers={"accept": accept})
    events = [event["data"] for event in await told(hooks)]
    assert sorted((one["query"], one["credits_used"], one["via"]) for one in events) == [
        ("one", 1, "api"), ("two", 1, "api"),
    ]  # fmt: skip
