"""What an answer holds: who was asked, and no more than is wanted."""

from __future__ import annotations

from typing import Any

import pytest

from providers.registry import KINDS
from settings import Settings
from tests.api_server import Person, running
from tests.lookups.paths import PATHS

BODIES: dict[str, dict[str, str]] = {
    "/api/agent/ip": {"ip": "10.0.0.1"},
    "/api/agent/validate": {"email": "ada@example"},
    "/api/agent/phone": {"phone": "+14155552671"},
}


CREDITS = 100


async def test_an_answer_lists_who_was_asked_and_on_request_who_was_not(person: Person) -> None:
    path, body = "/api/agent/ip", BODIES["/api/agent/ip"]
    asked = (await person.key.post(path, json=body)).json()["providers"]
    everyone = (await person.key.post(f"{path}?providers=all", json=body)).json()["providers"]
    assert [report["name"] for report in asked] == ["reserved"]
    assert [report["name"] for report in everyone] == [source.spec.name for source in KINDS["ip"].sources]
    assert all(report["detail"] for report in everyone if report["status"] == "skipped")


@pytest.mark.parametrize(
    ("path", "fields", "left"),
    [
        ("/api/agent/ip", "security.is_tor,hostname", {"ip_address", "security", "hostname"}),
        ("/api/agent/ip", "verdict", {"ip_address", "verdict"}),
        ("/api/agent/validate", "checks.syntax", {"email", "checks"}),
        ("/api/agent/phone", "valid", {"phone", "valid"}),
    ],
)
async def test_fields_prune_an_answer_to_what_is_wanted(
    path: str, fields: str, left: set[str], person: Person
) -> None:
    answer = (await person.key.post(path, params={"fields": fields}, json=BODIES[path])).json()
    common = {"credits", "cached", "partial", "providers", "sources", "conflicts"}
    assert answer.keys() == left | common
    names = fields.split(",")
    told = [*answer["sources"], *answer["conflicts"]]
    assert all(any(one == name or one.startswith(f"{name}.") for name in names) for one in told)


async def test_fields_that_are_given_one_by_one_count_all(person: Person) -> None:
    body = BODIES["/api/agent/ip"]
    answer = (await person.key.post("/api/agent/ip?fields=hostname&fields=verdict", json=body)).json()
    assert {"hostname", "verdict"} <= answer.keys() and "location" not in answer


async def test_a_block_has_only_the_members_that_are_wanted(person: Person) -> None:
    body = BODIES["/api/agent/ip"]
    answer = (await person.key.post("/api/agent/ip?fields=location.city", json=body)).json()
    assert answer["location"] == {"city": None}


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("fields", ["nonsense", "", ",", "credits", "location.nonsense"])
async def test_a_field_that_there_is_not_is_refused(path: str, fields: str, person: Person) -> None:
    response = await person.key.post(path, params={"fields": fields}, json=BODIES[path])
    assert response.status_code == 400
    [error] = response.json()["errors"]
    assert (error["code"], error["parameter"]) == ("unknown_field", "fields")


LOOKUPS: dict[str, dict[str, Any]] = {
    **{f"/api/lookups/{kind}": body for kind, (_, body) in PATHS.items()},
    **BODIES,
    "/api/agent/breaches": {"email": "ada@example.com"},
    "/api/agent/lookup": {"email": "ada@example.com"},
    "/api/agent/domain": {"domain": "example.com"},
    "/api/agent/username": {"username": "ada"},
    "/api/agent/websearch": {"query": "ada"},
    "/api/agent/company": {"company": "Example Bank"},
    "/api/agent/darkweb": {"query": "ada@example.com"},
    "/api/bulk-ip-search": {"queries": ["10.0.0.1"]},
    "/api/bulk-domain-search": {"queries": ["example.com"]},
    "/api/bulk-web-search": {"queries": ["ada"]},
    "/api/bulk-company-search": {"queries": ["Example Bank"]},
    "/api/agent/bulk-lookup": {"emails": ["ada@example.com"]},
}


async def test_every_route_with_fields_is_tried_below(person: Person) -> None:
    paths: dict[str, dict[str, Any]] = (await person.key.get("/openapi.json")).json()["paths"]
    taking = {
        path
        for path, operations in paths.items()
        if any(one["name"] == "fields" for one in operations.get("post", {}).get("parameters", []))
    }
    assert taking == LOOKUPS.keys()


@pytest.mark.parametrize("fields", ["nonsense", "verdict.nonsense", "credits"])
@pytest.mark.parametrize("path", LOOKUPS)
async def test_no_kind_takes_a_field_that_it_has_not(path: str, fields: str, person: Person) -> None:
    response = await person.key.post(path, params={"fields": fields}, json=LOOKUPS[path])
    assert response.status_code == 400
    assert [(one["code"], one["parameter"]) for one in response.json()["errors"]] == [
        ("unknown_field", "fields")
    ]


async def test_a_report_has_no_members_that_do_not_apply(settings: Settings) -> None:
    async with running(settings, local_only=True) as api:
        person = await api.person(credits=1)
        answer: dict[str, Any] = (
            await person.key.post("/api/agent/phone", json={"phone": "+14155552671"})
        ).json()
    assert [report.keys() for report in answer["providers"]] == [{"name", "status", "ms", "fields"}]


async def test_every_source_says_where_one_reads_about_it(person: Person) -> None:
    rows = (await person.key.get("/api/providers")).json()["providers"]
    assert all(row["evidence"].keys() == {"url", "grade", "date"} for row in rows)
    assert {row["evidence"]["grade"] for row in rows} == {"verified", "second_hand"}
