"""The pages at /docs/api and /docs/reference: from our own files alone, under a closed policy."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from api.http.openapi_texts import TAGS
from tests.api_server import Api

PAGES = ["/docs/api", "/docs/reference", *(f"/docs/reference/{tag}" for tag in TAGS)]
ASSETS = ["swagger-ui-bundle.js", "swagger-ui.css", "start.js", "style.css"]


class Loaded(HTMLParser):
    """What a page loads, links to and runs, and the names of its places."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.inline: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if "id" in found:
            self.ids.add(found["id"])
        if tag == "a":
            self.links.append(found["href"])
        else:
            self.loaded += [
                found[name] for name in ("src", "href", "srcset", "data", "action") if name in found
            ]
        if tag == "style" or (tag == "script" and "src" not in found):
            self.inline.append(tag)
        self.inline += [name for name in found if name.startswith("on") or name == "style"]


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_loads_only_files_of_the_service_and_has_no_code_in_it(api: Api, path: str) -> None:
    answer = await api.http.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    page = Loaded(answer.text)
    assert page.inline == []
    loaded = [one for one in page.loaded if one != "data:,"]
    assert loaded
    for one in loaded:
        assert re.fullmatch(r"/docs/assets/[a-z.-]+", one)
        assert (await api.http.get(one)).status_code == 200


@pytest.mark.parametrize("path", PAGES)
async def test_the_policy_of_a_page_names_no_other_host(api: Api, path: str) -> None:
    policy = (await api.http.get(path)).headers["content-security-policy"]
    directives = dict(one.strip().split(" ", 1) for one in policy.split(";"))
    assert directives["default-src"] == "'none'"
    assert {word for words in directives.values() for word in words.split()} <= {
        "'none'", "'self'", "data:", "'unsafe-inline'",
    }  # fmt: skip
    scripts = {"/docs/api": "'self'"}
    assert directives.get("script-src") == scripts.get(path)


@pytest.mark.parametrize("name", ASSETS)
async def test_a_file_of_a_page_is_kept_until_it_changes(api: Api, name: str) -> None:
    first = await api.http.get(f"/docs/assets/{name}")
    assert first.headers["cache-control"] == "public, max-age=3600"
    assert first.headers["content-type"].startswith(("text/javascript", "text/css"))
    again = await api.http.get(f"/docs/assets/{name}", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])


@pytest.mark.parametrize(
    "path", ["assets/redoc.standalone.js", "assets/favicon.png", "assets/..%2f__init__.py", "reference/x"]
)
async def test_nothing_else_can_be_had(api: Api, path: str) -> None:
    answer = await api.http.get(f"/docs/{path}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_the_first_page_leads_to_the_other_ways_to_read(api: Api) -> None:
    page = Loaded((await api.http.get("/docs/api")).text)
    assert {"/docs/", "/docs/reference", "/auth.md", "/llms.txt", "/openapi.json"} <= set(page.links)


async def test_the_reference_leads_to_every_operation_and_names_each_field(api: Api) -> None:
    document: dict[str, Any] = (await api.http.get("/openapi.json")).json()
    pages = {path: (await api.http.get(path)).text for path in PAGES}
    places = {path: Loaded(text).ids for path, text in pages.items()}
    links = Loaded(pages["/docs/reference"]).links
    for path, operations in document["paths"].items():
        for operation in operations.values():
            link = f"/docs/reference/{operation['tags'][0]}#{operation['operationId']}"
            assert (link in links) == ("x-same-as" not in operation), path
    for path, text in pages.items():
        for link in Loaded(text).links:
            target, _, place = link.partition("#")
            if place:
                assert place in places[target or path], link
    company = pages["/docs/reference/lookups"]
    for field in ("results[].linkedin", "profile.officers[].name", "sources", "location.country_code"):
        assert f"<code>{field}</code>" in company
