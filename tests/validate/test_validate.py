"""POST /api/agent/validate: can an address receive mail?"""

from __future__ import annotations

from typing import Any

import pytest

from settings import Settings
from tests.api_server import Person
from tests.email.sources import Sources, running_with

PATH = "/api/agent/validate"
ZONE: dict[str, dict[str, list[str]]] = {
    "example.com": {"MX": ["10 mail.example.com."]},
    "mailinator.com": {"MX": ["10 mail.mailinator.com."]},
    "nomail.example.com": {"MX": ["0 ."]},
    "here.example.com": {"MX": ["10 localhost."]},
}


@pytest.mark.parametrize(
    ("email", "validity", "checks"),
    [
        (
            "Ada@Example.com",
            "valid",
            {
                "domain": True,
                "mx": True,
                "mailbox": None,
                "disposable": None,
                "role": None,
                "free_provider": None,
            },
        ),
        ("info@example.com", "risky", {"mx": True, "role": True}),
        ("ada@mailinator.com", "risky", {"mx": True, "disposable": True}),
        ("ada@nomail.example.com", "invalid", {"domain": True, "mx": False}),
        ("ada@here.example.com", "invalid", {"domain": True, "mx": False}),
        ("ada@nowhere.example.org", "invalid", {"domain": False, "mx": False}),
    ],
)
async def test_an_address_is_judged_by_its_domain_and_its_name(
    email: str, validity: str, checks: dict[str, bool | None], person: Person, sources: Sources
) -> None:
    sources.zone.update(ZONE)
    answer = (await person.key.post(PATH, json={"email": email})).json()
    assert (answer["email"], answer["validity"]) == (email.lower(), validity)
    assert answer["checks"]["syntax"] is True
    assert {name: answer["checks"][name] for name in checks} == checks
    assert answer["message"]
    assert answer["credits"] == 0
    assert not sources.asked


@pytest.mark.parametrize(
    "email", ["ada", "ada@", "https://example.com", "ada(x)@example.com", "x" * 10_000, ""]
)
async def test_what_is_no_address_is_invalid_and_not_an_error(
    email: str, person: Person, sources: Sources
) -> None:
    response = await person.key.post(PATH, json={"email": email})
    assert response.status_code == 200
    answer: dict[str, Any] = response.json()
    assert (answer["validity"], answer["message"]) == ("invalid", "This is not an e-mail address.")
    assert answer["checks"] == {
        "syntax": False, "domain": None, "mx": None, "mailbox": None, "disposable": None, "role": None,
        "free_provider": None,
    }  # fmt: skip
    assert answer["email"] == email[:320]


async def test_kept_local_the_domain_is_not_known(settings: Settings, sources: Sources) -> None:
    async with running_with(sources, settings, local_only=True) as api:
        person = await api.person()
        answer = (await person.key.post(PATH, json={"email": "ada@example.com"})).json()
    assert (answer["validity"], answer["checks"]["mx"]) == ("unknown", None)
    assert answer["message"] == "Whether the domain takes mail could not be found out."


async def test_a_validation_and_a_lookup_share_what_the_name_server_said(
    person: Person, sources: Sources
) -> None:
    sources.say("empty")
    await person.key.post("/api/agent/lookup", json={"email": "ada@example.com"})
    sources.zone.clear()
    answer = (await person.key.post(PATH, json={"email": "ada@example.com"})).json()
    assert (answer["validity"], answer["cached"]) == ("valid", True)
