"""POST /api/bulk-…-search: an answer for each query, in order, and none that fails the others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from api.streams.bulk_streams import LINES
from providers.lookup import composition
from providers.lookup.result import LookupResult
from providers.sources.base import Query
from providers.sources.kind import Kind
from settings import Rate, Settings
from tests.api_server import Api, Person, running
from tests.bulk_searches.conftest import EVENTS, Sources, emails
from tests.stacks import eventually

WEB = "/api/bulk-web-search"
SEARCHES = ("company", "web", "domain", "ip")


async def search(person: Person, kind: str, *queries: str, options: str = "") -> dict[str, Any]:
    response = await person.key.post(f"/api/bulk-{kind}-search{options}", json={"queries": queries})
    assert response.status_code == 200, response.text
    assert [entry["query"] for entry in response.json()["results"]] == [*queries]
    return response.json()


async def test_an_address_is_answered_as_by_a_single_lookup(person: Person) -> None:
    alone = (await person.key.post("/api/agent/ip", json={"ip": "8.8.8.8"})).json()
    answer = await search(person, "ip", "193.0.6.139", "8.8.8.8")
    [other, same] = answer["results"]
    assert other["ip"]["location"]["city"] == "Amsterdam"
    assert same["ip"].keys() == alone.keys()
    assert same["ip"]["location"] == alone["location"]
    assert answer["credits_used"] == 0


async def test_a_domain_is_answered_as_by_a_single_lookup(person: Person) -> None:
    alone = (await person.key.post("/api/agent/domain", json={"domain": "example.com"})).json()
    answer = await search(person, "domain", "EXAMPLE.com")
    [entry] = answer["results"]
    assert entry["domain"] == alone | {"cached": True, "providers": entry["domain"]["providers"]}
    assert (entry["domain"]["dns"]["a"], answer["credits_used"]) == (["192.0.2.1"], 1)


async def test_a_web_search_is_answered_as_by_a_single_lookup(person: Person) -> None:
    answer = await search(person, "web", "Ada  Lovelace")
    [entry] = answer["results"]
    assert [page["title"] for page in entry["results"]] == ["Ada Lovelace"]
    assert (entry["credits"], answer["credits_used"]) == (1, 1)


async def test_answers_stand_in_the_order_of_the_queries(person: Person) -> None:
    queries = [f"query {number}" for number in range(100)]
    answer = await search(person, "web", *queries)
    assert [entry["results"][0]["title"] for entry in answer["results"]] == queries


async def test_what_is_no_query_fails_alone(person: Person) -> None:
    answer = await search(person, "ip", "8.8.8.8", "nonsense", "", "x" * 100_000)
    assert "ip" in answer["results"][0]
    assert [entry["error"]["code"] for entry in answer["results"][1:]] == ["invalid_ip"] * 3


async def test_a_query_whose_sources_fail_fails_alone(person: Person, sources: Sources) -> None:
    sources.failing = {"failing"}
    answer = await search(person, "web", "failing", "other")
    assert answer["results"][0]["error"]["code"] == "all_providers_failed"
    assert answer["results"][1]["results"]
    assert answer["credits_used"] == 1


@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/queries"),
        ({"queries": []}, "/queries"),
        ({"queries": "8.8.8.8"}, "/queries"),
        ({"queries": ["8.8.8.8"] * 101}, "/queries"),
        ({"queries": ["8.8.8.8", 8]}, "/queries/1"),
        ({"queries": ["8.8.8.8"], "query": "x"}, "/query"),
    ],
)
async def test_a_body_of_another_shape_is_refused_by_pointer(
    person: Person, kind: str, body: Any, pointer: str
) -> None:
    refused = await person.key.post(f"/api/bulk-{kind}-search", json=body)
    assert refused.status_code == 400
    assert [error["pointer"] for error in refused.json()["errors"]] == [pointer]


async def test_more_than_a_thousand_addresses_are_refused(person: Person) -> None:
    refused = await person.key.post("/api/agent/bulk-lookup", json={"emails": emails(1001)})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (400, "/emails")


@pytest.mark.parametrize("kind", SEARCHES)
async def test_a_session_may_search(person: Person, kind: str) -> None:
    answer = await person.session.post(f"/api/bulk-{kind}-search", json={"queries": ["8.8.8.8"]})
    assert answer.status_code == 200


async def test_bulk_lookup_needs_a_key(person: Person) -> None:
    refused = await person.session.post("/api/agent/bulk-lookup", json={"emails": emails(1)})
    assert (refused.status_code, refused.json()["code"]) == (403, "api_key_required")


@pytest.mark.parametrize(
    "path", [*(f"/api/bulk-{kind}-search" for kind in SEARCHES), "/api/agent/bulk-lookup"]
)
async def test_a_key_needs_the_scope_bulk(api: Api, path: str) -> None:
    person = await api.person(scopes=["lookups"])
    body = {"emails": ["a@example.com"]} if "agent" in path else {"queries": ["8.8.8.8"]}
    refused = await person.key.post(path, json=body)
    assert (refused.status_code, refused.json()["code"]) == (403, "insufficient_scope")


async def test_requests_are_limited_and_not_their_queries(settings: Settings, sources: Sources) -> None:
    async with running(settings, limit_bulk=Rate(2, 60)) as api:
        person = await api.person()
        for _ in range(2):
            await search(person, "ip", *["8.8.8.8"] * 100)
        refused = await person.key.post("/api/bulk-ip-search", json={"queries": ["8.8.8.8"]})
        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")


async def test_fields_prune_the_answers(person: Person) -> None:
    answer = await search(person, "ip", "193.0.6.139", options="?fields=location.city")
    assert answer["results"][0]["ip"]["location"] == {"city": "Amsterdam"}
    assert "asn" not in answer["results"][0]["ip"]


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_fields_that_no_answer_has_are_refused(person: Person, accept: str) -> None:
    for path, field in (("ip", "profile"), ("company", "profile.name"), ("company", "results")):
        refused = await person.key.post(
            f"/api/bulk-{path}-search?fields={field}",
            json={"queries": ["8.8.8.8"]},
            headers={"accept": accept},
        )
        assert (refused.status_code, refused.json()["errors"][0]["parameter"]) == (400, "fields")


async def test_nocache_asks_anew(person: Person, sources: Sources) -> None:
    for options in ("", "", "?nocache=1"):
        await search(person, "web", "Ada", options=options)
    assert sources.asked == ["Ada", "Ada"]


async def test_no_more_than_sixteen_are_looked_up_at_a_time(person: Person, sources: Sources) -> None:
    sources.open.clear()
    task = asyncio.create_task(search(person, "web", *(f"query {number}" for number in range(60))))
    await eventually(lambda: sources.held == 16)
    sources.open.set()
    await task
    assert sources.most_held == 16


async def test_another_account_is_served_while_one_has_many_looked_up(
    api: Api, person: Person, sources: Sources
) -> None:
    sources.open.clear()
    tasks = [
        asyncio.create_task(search(person, "web", *(f"query {number} {n}" for number in range(40))))
        for n in range(2)
    ]
    await eventually(lambda: sources.held == 16)
    sources.passing = {"quick"}
    async with asyncio.timeout(20):
        answer = await search(await api.person(credits=1), "web", "quick")
    assert answer["results"][0]["results"]
    assert sources.held == 16
    sources.open.set()
    await asyncio.gather(*tasks)


async def test_an_answer_that_makes_our_code_fail_fails_alone(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compose(kind: Kind, query: Query, *given: Any) -> LookupResult:
        if query.text == "odd":
            raise ValueError("This answer is too much.")
        return composition.compose(kind, query, *given)

    monkeypatch.setattr("providers.lookup.lookup.compose", compose)
    answer = await search(person, "web", "odd", "even")
    assert answer["results"][0]["error"]["code"] == "internal_error"
    assert answer["results"][1]["results"]
    assert answer["credits_used"] == 1


async def test_both_forms_of_the_answer_are_documented(api: Api) -> None:
    paths = (await api.http.get("/openapi.json")).json()["paths"]
    for kind in SEARCHES:
        content = paths[f"/api/bulk-{kind}-search"]["post"]["responses"]["200"]["content"]
        assert content.keys() == {"application/json", "text/event-stream"}
    content = paths["/api/agent/bulk-lookup"]["post"]["responses"]["200"]["content"]
    assert content.keys() == {"text/event-stream", *LINES}
    assert all(form["example"] for form in content.values())


async def test_a_client_that_names_both_forms_gets_the_one_that_it_names_first(person: Person) -> None:
    for accept, expected in (
        ("application/json, text/event-stream", "application/json"),
        ("text/event-stream;q=1, application/json", EVENTS["accept"]),
        ("*/*", "application/json"),
    ):
        answer = await person.key.post(
            "/api/bulk-ip-search", json={"queries": ["8.8.8.8"]}, headers={"accept": accept}
        )
        assert answer.headers["content-type"].startswith(expected)
