"""A web search: its queries, how results of several engines become one list, and the route."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from models.errors import Invalid
from providers.sources.aggregate import merge
from providers.sources.base import Query
from providers.websearch.brave import few_words
from providers.websearch.kind import KIND, derive, normalise
from providers.websearch.pages import page
from settings import ProviderSettings, Settings
from tests.api_server import Api, Person, running


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("Ada Lovelace", "Ada Lovelace"),
        ("  Ada\t\n Lovelace ", "Ada Lovelace"),
        ("Cafe\u0301", "Café"),
        ("site:example.com https://example.com/a?b=c", "site:example.com https://example.com/a?b=c"),
        ("x" * 400, "x" * 400),
    ],
)
def test_every_way_to_space_a_query_is_the_same_query(given: str, canonical: str) -> None:
    assert normalise(given, "/query").text == canonical


@pytest.mark.parametrize("given", ["", "   ", "a\x00b", "a\x1bb", "x" * 401, "x" * 10_000])
def test_what_no_engine_would_take_is_refused_with_an_example(given: str) -> None:
    with pytest.raises(Invalid) as refused:
        normalise(given, "/queries/0")
    error = refused.value.errors[0]
    assert (error.pointer, error.code) == ("/queries/0", "invalid_query")
    assert "Ada Lovelace" in error.message


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("<b>A</b> &amp; B", "<i>x</i>\n y", "2024-05-01T10:00:00Z"), ("A & B", "x y", "2024-05-01")),
        (("1 < 2", "a<b", "2024-05-01"), ("1 < 2", "a<b", "2024-05-01")),
        (("", "", "3 days ago"), ("https://example.org/", None, None)),
        (("T", None, None), ("T", None, None)),
    ],
)
def test_a_page_is_plain_text_and_a_date(given: tuple[str, str | None, str | None], expected: Any) -> None:
    title, snippet, published = given
    made = page(title, "https://example.org/", snippet, published)
    assert (made["title"], made["snippet"], made["published"]) == expected


def results(*urls: str) -> dict[str, Any]:
    return {"results": [page(url, url, None) for url in urls]}


def test_results_are_joined_by_address_each_engine_in_turn() -> None:
    answers = [
        ("searxng", results("https://www.example.org/a/", "https://example.net/")),
        ("brave", results("http://EXAMPLE.org/a#part", "https://example.org/A", "https://example.com/?q=1")),
    ]
    merged = merge(answers, KIND.rules)
    assert [one["url"] for one in merged.fields["results"]] == [
        "https://www.example.org/a/",
        "https://example.net/",
        "https://example.org/A",
        "https://example.com/?q=1",
    ]
    assert merged.sources["results"] == ["searxng", "brave"]
    assert merged.conflicts == {}


def test_the_total_is_the_greatest_or_else_what_was_found() -> None:
    merged = merge([("searxng", {"total": 7}), ("wikipedia", {"total": 1843})], KIND.rules)
    assert merged.fields["total"] == 1843
    moment = datetime.now(UTC)
    assert derive(results("https://a.example/", "https://b.example/"), moment) == {"total": (2, "results")}
    assert derive({}, moment) == {}


def test_a_query_of_more_words_than_an_engine_takes_is_not_sent_to_it() -> None:
    assert few_words(Query("websearch", "a " * 50))
    assert not few_words(Query("websearch", "a " * 51))


# The route


class Engines:
    """Wikipedia and a SearXNG instance."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.found = [{"title": f"Page {n}", "url": f"https://example.org/{n}"} for n in range(30)]

    async def searxng(self, request: web.Request) -> web.Response:
        self.asked.append(request.query["q"])
        return web.json_response({"results": self.found, "number_of_results": 0, "unresponsive_engines": []})

    async def wikipedia(self, request: web.Request) -> web.Response:
        hits = [{"title": "Ada Lovelace", "snippet": "a <span>mathematician</span>"}] if self.found else []
        told = {"searchinfo": {"totalhits": 1843 if self.found else 0}, "search": hits}
        return web.json_response({"batchcomplete": True, "query": told})


@pytest.fixture
def engines() -> Engines:
    return Engines()


@pytest.fixture
async def api(settings: Settings, engines: Engines) -> AsyncGenerator[Api]:
    app = web.Application()
    app.router.add_get("/search", engines.searxng)
    app.router.add_get("/w/api.php", engines.wikipedia)
    async with AsyncExitStack() as stack:
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        chosen = {name: ProviderSettings(base_url=url) for name in ("searxng", "wikipedia")}
        yield await stack.enter_async_context(running(settings, local_only=False, providers=chosen))


CREDITS = 10


async def search(person: Person, **body: Any) -> dict[str, Any]:
    response = await person.key.post("/api/agent/websearch", json=body)
    assert response.status_code == 200, response.text
    return response.json()


async def test_a_search_is_answered_by_all_engines_together(person: Person) -> None:
    answer = await search(person, query=" Ada  Lovelace ", limit=3)
    assert answer["query"] == "Ada Lovelace"
    assert [one["title"] for one in answer["results"]] == ["Page 0", "Ada Lovelace", "Page 1"]
    assert answer["total"] == 1843
    assert answer["enrichment"] == {
        "title": "Ada Lovelace",
        "summary": "a mathematician",
        "url": "https://en.wikipedia.org/wiki/Ada_Lovelace",
    }
    assert answer["credits"] == 1
    reports = {one["name"]: (one["status"], one.get("detail")) for one in answer["providers"]}
    assert reports.keys() == {"searxng", "wikipedia"}


async def test_another_limit_is_served_from_the_same_kept_answer(person: Person, engines: Engines) -> None:
    few, many = (
        await search(person, query="one two", limit=2),
        await search(person, query="one two", limit=50),
    )
    assert (len(few["results"]), len(many["results"])) == (2, 31)
    assert engines.asked == ["one two"]
    assert many["cached"] is True


async def test_twenty_results_are_given_unless_told_otherwise(person: Person) -> None:
    assert len((await search(person, query="default"))["results"]) == 20


async def test_nothing_found_is_an_answer_with_a_total_of_zero(person: Person, engines: Engines) -> None:
    engines.found = []
    answer = await search(person, query="nothing at all")
    assert (answer["results"], answer["total"], answer["enrichment"]) == ([], 0, None)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/query"),
        ({"query": ""}, "/query"),
        ({"query": "a", "limit": 0}, "/limit"),
        ({"query": "a", "limit": 51}, "/limit"),
        ({"query": "a", "limits": 5}, "/limits"),
    ],
)
async def test_a_bad_search_is_refused_with_its_field(
    body: dict[str, Any], pointer: str, person: Person
) -> None:
    response = await person.key.post("/api/agent/websearch", json=body)
    assert (response.status_code, response.json()["errors"][0]["pointer"]) == (400, pointer)


async def test_without_an_instance_of_ones_own_searxng_is_not_asked(settings: Settings) -> None:
    chosen = {"wikipedia": ProviderSettings(enabled=False)}
    async with running(settings, local_only=False, providers=chosen) as api:
        person = await api.person(credits=10)
        response = await person.key.post("/api/agent/websearch", json={"query": "a"})
    problem = response.json()
    details = {report["name"]: report["detail"] for report in problem["providers"]}
    assert (response.status_code, details["searxng"]) == (503, "no_base_url")
