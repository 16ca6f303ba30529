"""With VEDETTE_CREDITS=off an account without credits does all work, and answers say 0."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from settings import Settings, StartError, load
from tests.api_server import Api, Person, running
from tests.bulk_searches.conftest import EVENTS, Sources, charges, emails


@pytest.fixture
async def api(settings: Settings, sources: Sources) -> AsyncGenerator[Api]:
    async with running(settings, providers=sources.providers, credits="off", local_only=False) as api:
        yield api


@pytest.fixture
async def person(api: Api) -> Person:
    return await api.person(credits=0)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/agent/domain", {"domain": "example.com"}),
        ("/api/agent/websearch", {"query": "engines"}),
        ("/api/agent/lookup", {"email": "ada@example.com"}),
    ],
)
async def test_a_lookup_answers_without_credits_and_says_0(
    person: Person, path: str, body: dict[str, str]
) -> None:
    answer = await person.key.post(path, json=body)
    assert (answer.status_code, answer.json()["credits"]) == (200, 0), answer.text
    assert await charges(person) == []


async def test_a_bulk_search_answers_every_query_and_says_0(person: Person) -> None:
    answer = await person.key.post("/api/bulk-web-search", json={"queries": ["one", "two"]})
    found = answer.json()
    assert [entry.get("error") for entry in found["results"]] == [None, None]
    assert found["credits_used"] == 0
    assert await charges(person) == []


async def test_a_stream_answers_every_address(person: Person) -> None:
    answer = await person.key.post("/api/agent/bulk-lookup", json={"emails": emails(3)}, headers=EVENTS)
    assert answer.status_code == 200 and "insufficient_credits" not in answer.text
    assert await charges(person) == []


async def test_a_job_is_accepted_and_holds_nothing(person: Person) -> None:
    job = await person.key.post("/api/bulk-jobs", json={"type": "domain", "targets": ["example.com"]})
    assert (job.status_code, job.json()["credits_held"]) == (202, 0), job.text
    assert await charges(person) == []


def test_another_value_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(StartError, match="VEDETTE_CREDITS: Input should be 'on' or 'off'"):
        load({"VEDETTE_CREDITS": "none"})
