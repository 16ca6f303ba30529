"""What a lookup costs: what was delivered, once, and never more than there is."""

import asyncio
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from database import Database
from models.credits import credits
from models.errors import InsufficientCredits
from providers.lookup.billing import LookupBilling, Payer, Terms
from providers.lookup.result import LookupResult
from providers.registry import KINDS
from providers.sources.base import Query
from sealing import Keyring
from tests.api_server import Api, Person

VALID, INVALID = "+14155552671", "+1 415"


async def balance(person: Person) -> int:
    return (await person.key.get("/api/credits")).json()["balance"]


async def test_a_valid_number_costs_one_credit_and_an_invalid_one_none(api: Api) -> None:
    person = await api.person(credits=5)
    valid = await person.key.post("/api/agent/phone", json={"phone": VALID})
    assert (valid.status_code, valid.json()["credits"], await balance(person)) == (200, 1, 4)
    invalid = await person.key.post("/api/agent/phone", json={"phone": "+14155550", "country": "US"})
    assert (invalid.json()["valid"], invalid.json()["credits"], await balance(person)) == (False, 0, 4)


async def test_without_credits_nobody_is_asked(api: Api) -> None:
    person = await api.person(credits=0)
    refused = await person.key.post("/api/agent/phone", json={"phone": VALID})
    assert (refused.status_code, refused.json()["code"]) == (402, "insufficient_credits")
    assert (refused.json()["required"], refused.json()["balance"]) == (1, 0)


async def test_a_free_lookup_needs_no_credits(api: Api) -> None:
    person = await api.person(credits=0)
    assert (await person.key.post("/api/agent/ip", json={"ip": "10.0.0.1"})).status_code == 200


async def test_a_repeat_with_the_same_idempotency_key_is_charged_once(api: Api) -> None:
    person = await api.person(credits=5)
    headers = {"Idempotency-Key": uuid4().hex}
    answers = [
        await person.key.post("/api/agent/phone", json={"phone": VALID}, headers=headers) for _ in range(3)
    ]
    assert {answer.text for answer in answers} == {answers[0].text}
    assert await balance(person) == 4


async def test_the_use_is_counted_for_the_key(api: Api) -> None:
    person = await api.person(credits=5)
    await person.key.post("/api/agent/phone", json={"phone": VALID})
    [key] = (await person.session.get("/api/keys")).json()["keys"]
    assert key["credits_used"] == 1


@pytest.fixture
def billing(database: Database, keyring: Keyring) -> LookupBilling:
    return LookupBilling(database, keyring)


def result(query: str, block: int) -> LookupResult:
    return LookupResult("darkweb", query, "query", {}, 1, False, False, [], {}, {}, block=block)


async def paid(billing: LookupBilling, account_id: UUID, query: str, block: int) -> int:
    payer, terms = Payer(account_id, f"test/{uuid4()}"), Terms(limit=None, charged=0)
    return (await billing.charge(payer, terms, result(query, block), by_block=True)).credits


async def test_a_block_that_was_paid_for_is_free_for_a_day(
    api: Api, billing: LookupBilling, database: Database
) -> None:
    account_id = (await api.person(credits=10)).account.id
    costs = [await paid(billing, account_id, *place) for place in (("a", 0), ("a", 0), ("a", 1), ("b", 0))]
    assert costs == [1, 0, 1, 1]
    async with database.connection() as connection:
        await connection.execute("update paid_blocks set paid_at = paid_at - %s", (timedelta(hours=25),))
    assert await paid(billing, account_id, "a", 0) == 1


async def test_a_block_is_paid_once_by_those_who_want_it_at_the_same_time(
    api: Api, billing: LookupBilling
) -> None:
    account_id = (await api.person(credits=10)).account.id
    costs = await asyncio.gather(*(paid(billing, account_id, "together", 0) for _ in range(8)))
    assert sorted(costs) == [0] * 7 + [1]


async def test_a_lookup_that_costs_by_result_delivers_what_can_be_paid(
    api: Api, billing: LookupBilling
) -> None:
    payer = Payer((await api.person(credits=3)).account.id, "x")
    company, query = KINDS["company"], Query("company", "Acme")
    asked = [(await billing.get_terms(payer, company, query, 0, limit)).limit for limit in (25, 2, None)]
    assert asked == [3, 2, 3]


async def test_the_pages_of_a_paid_block_need_no_credits(api: Api, billing: LookupBilling) -> None:
    account_id, darkweb = (await api.person(credits=1)).account.id, KINDS["darkweb"]
    await paid(billing, account_id, "a", 0)
    payer = Payer(account_id, "x")
    assert await billing.get_terms(payer, darkweb, Query("darkweb", "a"), 20, None) == Terms(None, 0)
    with pytest.raises(InsufficientCredits):
        await billing.get_terms(payer, darkweb, Query("darkweb", "a"), 100, None)


async def test_credits_that_are_gone_meanwhile_are_never_owed(
    api: Api, billing: LookupBilling, database: Database
) -> None:
    account_id = (await api.person(credits=1)).account.id
    await paid(billing, account_id, "a", 0)
    with pytest.raises(InsufficientCredits):
        await paid(billing, account_id, "b", 0)
    async with database.connection() as connection:
        assert (await credits.get_balance(connection, account_id)).balance == 0
