"""A user name lookup: its queries, who is asked for which names, and the route."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiohttp import web

from models.errors import Invalid
from providers.sources.base import RemoteSource
from providers.username.kind import KIND, normalise
from settings import ProviderSettings, Settings
from tests.api_server import Api, Person, running


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("octocat", "octocat"),
        (" @octocat\n", "octocat"),
        ("OctoCat", "OctoCat"),
        ("_a.b-c_", "_a.b-c_"),
        ("alice.example.com", "alice.example.com"),
        ("x" * 64, "x" * 64),
    ],
)
def test_a_name_is_taken_as_it_is_without_its_at_sign(given: str, canonical: str) -> None:
    assert normalise(given, "/username").text == canonical


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("https://github.com/octocat", "URL"),
        ("github.com/octocat", "URL"),
        ("ada@example.com", "address"),
        ("@ada@mastodon.social", "address"),
        ("", "1 to 64"),
        ("@", "1 to 64"),
        ("two words", "1 to 64"),
        ("..", "1 to 64"),
        ("-dash", "1 to 64"),
        ("jösé", "1 to 64"),
        ("a\x00b", "1 to 64"),
        ("a%2fb", "1 to 64"),
        ("a?b", "1 to 64"),
        ("x" * 65, "1 to 64"),
        ("x" * 10_000, "1 to 64"),
    ],
)
def test_what_is_no_user_name_is_refused_with_an_example(given: str, hint: str) -> None:
    with pytest.raises(Invalid) as refused:
        normalise(given, "/queries/1")
    error = refused.value.errors[0]
    assert (error.pointer, error.code) == ("/queries/1", "invalid_username")
    assert hint in error.message
    assert "octocat" in error.message


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("octocat", {"githubusers", "gitlab", "hackernews", "bluesky", "keybase", "mastodon"}),
        ("octo-cat", {"githubusers", "gitlab", "hackernews", "bluesky", "mastodon"}),
        ("octo--cat", {"gitlab", "hackernews", "bluesky", "mastodon"}),
        ("octo_cat", {"gitlab", "hackernews", "keybase", "mastodon"}),
        ("alice.example.com", {"gitlab", "bluesky", "mastodon"}),
        ("ada.1990", {"gitlab", "mastodon"}),
        ("john.local", {"gitlab", "mastodon"}),
        ("a", {"githubusers", "bluesky", "mastodon"}),
        ("x" * 16, {"githubusers", "gitlab", "bluesky", "keybase", "mastodon"}),
        ("x" * 40, {"gitlab", "bluesky"}),
        ("a.", {"gitlab"}),
    ],
)
def test_only_sites_that_allow_such_a_name_are_asked(name: str, asked: set[str]) -> None:
    query = normalise(name, "")
    sources = [source for source in KIND.sources if isinstance(source, RemoteSource) and source.spec.enabled]
    assert {source.spec.name for source in sources if source.takes(query)} == asked


def test_names_of_people_go_only_to_sources_marked_for_them() -> None:
    assert all(isinstance(source, RemoteSource) and source.spec.personal for source in KIND.sources)


# The route


class Sites:
    """Hacker News, which knows `jl`; Keybase, which knows nobody; Mastodon, which is out of order."""

    async def hackernews(self, request: web.Request) -> web.Response:
        known = {"id": "jl", "created": 1173923446} if request.match_info["name"] == "jl" else None
        return web.json_response(known)

    async def keybase(self, request: web.Request) -> web.Response:
        return web.json_response({"status": {"code": 0, "name": "OK"}, "them": [None]})

    async def mastodon(self, request: web.Request) -> web.Response:
        return web.Response(status=500)


@pytest.fixture
async def api(settings: Settings) -> AsyncGenerator[Api]:
    sites, app = Sites(), web.Application()
    app.router.add_get("/user/lookup.json", sites.keybase)
    app.router.add_get("/user/{name}.json", sites.hackernews)
    app.router.add_get("/api/v1/accounts/lookup", sites.mastodon)
    async with AsyncExitStack() as stack:
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        here = ProviderSettings(base_url=f"http://127.0.0.1:{runner.addresses[0][1]}")
        chosen = {source.spec.name: ProviderSettings(enabled=False) for source in KIND.sources}
        chosen |= dict.fromkeys(("hackernews", "keybase", "mastodon"), here)
        yield await stack.enter_async_context(running(settings, local_only=False, providers=chosen))


CREDITS = 10


async def look_up(person: Person, **body: Any) -> dict[str, Any]:
    response = await person.key.post("/api/agent/username", json=body)
    assert response.status_code == 200, response.text
    return response.json()


async def test_a_name_is_answered_with_the_sites_that_have_it(person: Person) -> None:
    answer = await look_up(person, username="@jl")
    told = {name: answer[name] for name in ("username", "total", "found", "checked", "credits", "partial")}
    assert told == {
        "username": "jl",
        "total": 1,
        "found": [
            {
                "site": "Hacker News",
                "url": "https://news.ycombinator.com/user?id=jl",
                "category": "news",
                "evidence": "the site's API has the profile jl, created 2007-03-15",
            }
        ],
        "checked": 2,  # the third failed
        "credits": 1,
        "partial": True,
    }
    statuses = {report["name"]: report["status"] for report in answer["providers"]}
    assert (statuses["hackernews"], statuses["keybase"], statuses["mastodon"]) == ("ok", "empty", "error")


async def test_a_name_that_nobody_has_has_no_total_while_a_site_is_silent(person: Person) -> None:
    answer = await look_up(person, query="nobody1")
    assert (answer["total"], answer["found"], answer["checked"]) == (None, [], 2)


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        ({}, "/username", "required"),
        ({"username": "a b"}, "/username", "invalid_username"),
        ({"query": "a b"}, "/query", "invalid_username"),
        ({"username": "a", "site": "x"}, "/site", "unknown_field"),
    ],
)
async def test_a_bad_name_is_refused_with_its_field(
    body: dict[str, Any], pointer: str, code: str, person: Person
) -> None:
    response = await person.key.post("/api/agent/username", json=body)
    error = response.json()["errors"][0]
    assert (response.status_code, error["pointer"], error["code"]) == (400, pointer, code)


async def test_with_everything_kept_local_no_name_leaves_the_machine(settings: Settings) -> None:
    async with running(settings, local_only=True) as api:
        person = await api.person(credits=10)
        response = await person.key.post("/api/agent/username", json={"username": "jl"})
    assert (response.status_code, response.json()["code"]) == (503, "no_provider")
