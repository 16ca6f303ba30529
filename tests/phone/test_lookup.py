"""POST /api/agent/phone: what is known of a number."""

from __future__ import annotations

import pytest

from providers.phone.answer import PhoneAnswer
from settings import Settings
from tests.api_server import Person
from tests.email.sources import Sources, running_with, sources_on_loopback

PATH = "/api/agent/phone"


@pytest.mark.parametrize(
    "body",
    [
        {"phone": "+1 (415) 555-2671"},
        {"query": "+14155552671"},
        {"phone": "415-555-2671", "country": "us"},
        {"query": "(415) 555 2671", "country": "US"},
    ],
)
async def test_a_number_is_looked_up_however_it_is_written(
    body: dict[str, str], person: Person, sources: Sources
) -> None:
    response = await person.key.post(PATH, json=body)
    assert response.status_code == 200
    answer = response.json()
    PhoneAnswer.model_validate(answer)
    assert (answer["phone"], answer["valid"], answer["credits"]) == ("+14155552671", True, 1)
    assert answer["country"]["code"] == "US"
    assert answer["risk"] == {"risk_level": None, "is_disposable": None, "is_abuse_detected": None}


async def test_a_number_that_no_plan_has_is_invalid_and_free(settings: Settings) -> None:
    async with sources_on_loopback(keys=True) as sources, running_with(sources, settings) as api:
        sources.say("ok")
        person = await api.person(credits=1)
        answer = (await person.key.post(PATH, json={"phone": "+10000000000"})).json()
    assert (answer["valid"], answer["validation"]["is_valid"], answer["credits"]) == (False, False, 0)
    assert answer["type"] is None
    assert not sources.asked, "and nobody is asked for it"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"phone": "07400 123456"}, "/phone"),
        ({"query": "nonsense"}, "/query"),
        ({"phone": "1" * 10_000}, "/phone"),
        ({"phone": "415 555 2671", "country": "Utopia"}, "/country"),
        ({}, "/phone"),
        ({"country": "US"}, "/phone"),
    ],
)
async def test_what_is_no_number_is_refused_with_an_example(
    body: dict[str, str], pointer: str, person: Person, sources: Sources
) -> None:
    response = await person.key.post(PATH, json=body)
    assert response.status_code == 400
    [error] = response.json()["errors"]
    assert error["pointer"] == pointer
    assert "+14155552671" in error["message"] or pointer == "/country"


async def test_with_a_key_who_looks_the_number_up_comes_first(settings: Settings) -> None:
    async with sources_on_loopback(keys=True) as sources, running_with(sources, settings) as api:
        sources.say("ok")
        person = await api.person(credits=10)
        answer = (await person.key.post(PATH, json={"phone": "+14159929960"})).json()
    assert answer["carrier"] == {"name": "T-Mobile", "line_type": "mobile"}
    assert answer["country"]["region"] == "California"
    assert answer["breaches"]["total_breaches"] == 1
    assert answer["format"]["e164"] == "+14159929960"
    assert answer["conflicts"]["carrier.line_type"] == {
        "abstractphone": "mobile", "phonenumbers": "landline_or_mobile",
    }  # fmt: skip
