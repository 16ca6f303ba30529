"""POST /api/agent/darkweb: pages of what all sources have, and who could not be asked."""

from __future__ import annotations

from typing import Any

import pytest

from providers.datasets import installed
from providers.lookup.composition import Selection
from providers.lookup.questions import LookupOptions
from settings import Settings
from tests.api_server import Person, running
from tests.company.fixture_servers import Servers, with_keys
from tests.darkweb.victims import install_victims, victim

PATH = "/api/agent/darkweb"
QUERY = {"query": "example.com"}


def statuses(answer: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    return {report["name"]: (report["status"], report.get("detail")) for report in answer["providers"]}


async def test_the_mentions_of_all_sources_are_one_page_the_latest_first(
    person: Person, servers: Servers
) -> None:
    servers.say("ahmia", "ok")
    response = await person.key.post(PATH, json={"query": " EXAMPLE.com "})
    assert response.status_code == 200, response.text
    answer = response.json()
    assert (answer["query"], answer["total"], answer["result_count"], answer["credits"]) == (
        "example.com", 2, 2, 1,
    )  # fmt: skip
    told = [(one["source"], one["matched"]) for one in answer["results"]]
    assert told == [("ahmia", True), ("lockbit3", True), ("ahmia", False), ("ahmia", False)]
    assert answer["sources"]["results"] == ["ransomwarelive", "ahmia"]
    assert statuses(answer).keys() == {"ransomwarelive", "ahmia"}


async def test_a_mention_has_only_the_parts_that_its_source_has(person: Person, servers: Servers) -> None:
    servers.say("ahmia", "empty")
    answer = (await person.key.post(PATH, json=QUERY)).json()
    assert answer["results"][0].keys() == {
        "source", "title", "body", "domain", "hackishness", "matched", "crawl_date", "emails", "leak", "cves",
    }  # fmt: skip
    assert answer["results"][0]["leak"]["affected_records"] is None


async def test_passwords_go_no_further(person: Person, servers: Servers) -> None:
    servers.say("ahmia", "ok")
    response = await person.key.post(PATH, json=QUERY)
    assert "ada@example.com:[redacted]" in response.text
    for secret in ("Winter2025", "Summer2026"):
        assert secret not in response.text


async def test_no_mention_is_an_answer_and_free(person: Person, servers: Servers, settings: Settings) -> None:
    install_victims(settings.data)
    servers.say("ahmia", "empty")
    answer = (await person.key.post(PATH, json=QUERY)).json()
    assert (answer["total"], answer["result_count"], answer["results"], answer["credits"]) == (0, 0, [], 0)
    assert answer["partial"] is False


async def test_hits_without_the_query_are_neither_counted_nor_charged(
    person: Person, servers: Servers, settings: Settings
) -> None:
    install_victims(settings.data)
    servers.say("ahmia", "other_pages")
    answer = (await person.key.post(PATH, json=QUERY)).json()
    assert [one["matched"] for one in answer["results"]] == [False, False]
    assert (answer["total"], answer["result_count"], answer["credits"]) == (0, 0, 0)
    assert answer["message"] == "No mentions were found."


async def test_a_search_that_was_sent_back_is_a_failure_and_not_no_mention(
    person: Person, servers: Servers, settings: Settings
) -> None:
    install_victims(settings.data)
    servers.say("ahmia", "sent_back")
    answer = (await person.key.post(PATH, json=QUERY)).json()
    assert (answer["total"], answer["results"], answer["partial"]) == (0, [], True)
    assert answer["message"] == "No mentions were found. There may be more: no answer from ahmia."
    assert statuses(answer)["ahmia"] == ("bad_response", "http_302")


async def test_offsets_lead_through_the_pages_without_asking_again(
    person: Person, servers: Servers, settings: Settings
) -> None:
    servers.say("ahmia", "empty")
    install_victims(
        settings.data,
        *(
            victim(
                post_title=f"Example {number}",
                discovered=f"2026-08-05 {number // 60:02d}:{number % 60:02d}:00",
            )
            for number in range(130)
        ),
    )
    seen: list[str] = []
    credits: list[int] = []
    for offset in range(0, 140, 20):
        answer = (await person.key.post(PATH, json=QUERY | {"offset": offset})).json()
        assert (answer["total"], answer["result_count"]) == (130, len(answer["results"]))
        credits.append(answer["credits"])
        seen += [one["title"] for one in answer["results"]]
    assert seen == [f"Example {number}" for number in reversed(range(130))]
    assert servers.asked == {"ahmia": 2}
    assert credits == [1, 0, 0, 0, 0, 1, 0]  # once for each block
    beyond = (await person.key.post(PATH, json=QUERY | {"offset": 140})).json()
    assert (beyond["results"], beyond["total"], beyond["credits"]) == ([], 130, 0)


async def test_a_name_in_another_case_or_encoding_is_not_paid_again(
    person: Person, servers: Servers, settings: Settings
) -> None:
    servers.say("ahmia", "empty")
    install_victims(settings.data, victim(post_title="Société Sample"))
    asked = ("Société Sample", "SOCIÉTÉ  SAMPLE", "socie\u0301te\u0301 sample")
    answers = [(await person.key.post(PATH, json={"query": query})).json() for query in asked]
    assert [answer["total"] for answer in answers] == [1, 1, 1]
    assert [answer["credits"] for answer in answers] == [1, 0, 0]
    assert answers[1]["query"] == "SOCIÉTÉ SAMPLE"


async def test_the_result_tells_which_block_it_is_from(darkweb_api: Any, servers: Servers) -> None:
    servers.say("ahmia", "empty")
    lookups = darkweb_api.services.lookups
    blocks = [
        (await lookups.lookup("darkweb", "example.com", LookupOptions(Selection(offset=n)))).block
        for n in (0, 99, 100, 250)
    ]
    assert blocks == [0, 0, 1, 2]


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("ada@example.org", {"intelx", "ahmia"}),
        ("example.org", {"intelx", "ahmia"}),
        ("8.8.8.8", {"intelx", "ahmia"}),
        ("some words", {"ahmia"}),
        ("one two three four five six seven eight nine ten eleven", set[str]()),
        ("word" * 26, set[str]()),
    ],
)
async def test_who_takes_which_sort_of_query(
    query: str, asked: set[str], settings: Settings, servers: Servers
) -> None:
    async with running(settings, providers=with_keys(servers), local_only=False) as api:
        person = await api.person(credits=100)
        await person.key.post(PATH, json={"query": query})
    assert set(servers.asked) == asked


async def test_when_every_source_fails_there_is_no_answer(
    person: Person, servers: Servers, settings: Settings
) -> None:
    (installed.folder(settings.data) / "manifest.json").unlink()
    response = await person.key.post(PATH, json=QUERY)
    assert (response.status_code, response.json()["code"]) == (502, "all_providers_failed")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"query": "a\x07bc"}, "/query"),
        ({"query": "x" * 10_000}, "/query"),
        ({}, "/query"),
        ({"query": "example.com", "offset": -1}, "/offset"),
        ({"query": "example.com", "limit": 5}, "/limit"),
    ],
)
async def test_bad_input_names_the_field(
    body: dict[str, Any], pointer: str, person: Person, servers: Servers
) -> None:
    response = await person.key.post(PATH, json=body)
    assert response.status_code == 400
    assert response.json()["errors"][0]["pointer"] == pointer
    assert not servers.asked
