"""The site of the documentation: built from all pages, and shown at /docs under a closed policy."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import yaml
from playwright.async_api import Browser, Page, expect

from api.routes import docs as docs_routes
from docsite.page_markdown import convert
from services.documentation_site import DocumentationSite
from tests.api_server import Api
from tests.dashboard.browsing import launched, record_faults
from tests.documentation import drawings
from tests.pinned_packages import made_once, run
from tests.stacks import ROOT

LOCK = ROOT / "requirements-docs.lock"
CONFIG = ROOT / "docsite" / "mkdocs.yml"


@pytest.fixture(scope="module")
async def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, built as `make docs` builds it."""

    def install(folder: Path) -> None:
        run(sys.executable, "-m", "venv", folder)
        run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--require-hashes", "-r", LOCK)

    python = made_once(LOCK, install) / "bin" / "python"
    folder = tmp_path_factory.mktemp("site") / "docs"
    command = (python, "-P", "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder)
    said = await asyncio.to_thread(
        run, *command, "--config-file", CONFIG, cwd=ROOT, NO_MKDOCS_2_WARNING="1", PYTHONDONTWRITEBYTECODE="1"
    )
    assert said == ""
    return folder


@pytest.fixture
def site(built: Path, monkeypatch: pytest.MonkeyPatch) -> DocumentationSite:
    """The site, which the API of the test shows."""
    site = DocumentationSite(built)
    monkeypatch.setattr(docs_routes, "documentation_site", lambda: site)
    return site


@pytest.fixture
def no_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An API whose installation has not built the site."""
    site = DocumentationSite(tmp_path / "nowhere")
    monkeypatch.setattr(docs_routes, "documentation_site", lambda: site)


@pytest.fixture(scope="module")
async def browser() -> AsyncGenerator[Browser]:
    async with launched() as browser:
        yield browser


@pytest.fixture
async def page(browser: Browser, api: Api, site: DocumentationSite) -> AsyncGenerator[Page]:
    """A page that must be silent, and stay at home."""
    context = await browser.new_context(base_url=api.url)
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    faults = record_faults(context, api.url)
    yield await context.new_page()
    await context.close()
    assert faults == []


@pytest.mark.long
async def test_every_page_loads_under_the_policy_without_a_message_or_a_request_to_elsewhere(
    page: Page, built: Path
) -> None:
    names = sorted(path.relative_to(built).as_posix() for path in built.rglob("*.html"))
    assert len(names) > 50
    for name in names:
        answer = await page.goto(f"/docs/{name}")
        assert answer is not None and answer.status == 200, name
        assert "script-src 'self';" in answer.headers["content-security-policy"]
        await expect(page.locator("article h1")).to_have_count(1)
        broken = await page.evaluate("[...document.images].filter((one) => !one.naturalWidth).length")
        assert not broken, name


@pytest.mark.long
async def test_a_reader_searches_chooses_a_language_once_and_copies(page: Page) -> None:
    await page.goto("/docs/")
    await page.locator(".md-search__input").fill("idempotency")
    await expect(page.locator(".md-search-result__list")).to_contain_text("Idempotency-Key")
    await page.goto("/docs/getting-started.html")
    await page.locator(".tabbed-labels label", has_text="Python").first.click()
    await page.goto("/docs/lists.html")
    chosen = page.locator(".tabbed-labels label", has_text="Python").first
    await expect(page.locator(".tabbed-block pre:visible").first).to_contain_text("httpx")
    await expect(chosen).to_be_visible()
    await page.locator(".tabbed-block button[title^='Copy']:visible").first.click()
    assert "httpx" in await page.evaluate("navigator.clipboard.readText()")


@pytest.mark.long
async def test_a_reader_changes_the_colours_and_they_stay(page: Page) -> None:
    await page.goto("/docs/concepts.html")
    for _ in range(2):
        await page.locator("label[for^='__palette_']:visible").click()
    await page.goto("/docs/runs.html")
    await expect(page.locator("body")).to_have_attribute("data-md-color-scheme", "slate")


@pytest.mark.long
async def test_a_page_without_an_ending_leads_to_the_page_of_the_site(
    api: Api, site: DocumentationSite
) -> None:
    places = {
        path: (await api.http.get(f"/docs{path}")).headers.get("location")
        for path in ("", "/runs", "/decisions", "/decisions/sharding")
    }
    assert places == {
        "": "/docs/", "/runs": "/docs/runs.html", "/decisions": "/docs/decisions/index.html",
        "/decisions/sharding": "/docs/decisions/sharding.html",
    }  # fmt: skip
    for path in ("nothing", "..%2f..%2fsettings.py", "assets", "assets/nothing.js"):
        answer = await api.http.get(f"/docs/{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_agents_get_markdown_and_people_the_api_beside_the_site(
    api: Api, site: DocumentationSite
) -> None:
    paths = ("runs.md", "api", "reference", "workflow.schema.json", "search/search_index.json")
    types = {path: (await api.http.get(f"/docs/{path}")).headers["content-type"] for path in paths}
    assert types == {
        "runs.md": "text/markdown; charset=utf-8", "api": "text/html; charset=utf-8",
        "reference": "text/html; charset=utf-8", "workflow.schema.json": "application/json",
        "search/search_index.json": "application/json",
    }  # fmt: skip


@pytest.mark.usefixtures("no_site")
async def test_without_the_site_the_first_page_lists_all_pages_and_each_name_leads_to_its_markdown(
    api: Api,
) -> None:
    first = await api.http.get("/docs/")
    listed = re.findall(r'<td><a href="(/docs/[^"]+)"', first.text)
    assert {"/docs/runs.md", "/docs/decisions/sharding.md"} <= set(listed)
    assert {(await api.http.get(one)).status_code for one in listed} == {200}
    assert (await api.http.get("/docs/runs")).headers["location"] == "/docs/runs.md"


def names_in(navigation: object) -> list[str]:
    """Return the pages of a navigation, those of a folder as they are found."""
    match navigation:
        case str(name):
            folder = ROOT / "docs"
            return [path.relative_to(folder).as_posix() for path in folder.glob(name)]
        case list(parts):
            return [name for part in parts for name in names_in(part)]
        case dict(parts):
            return [name for part in parts.values() for name in names_in(part)]
    raise AssertionError(navigation)


def test_every_page_stands_once_in_the_navigation() -> None:
    named = names_in(yaml.safe_load(CONFIG.read_text())["nav"])
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(named) == sorted(pages)


def test_every_drawing_has_its_pictures_and_there_is_no_other() -> None:
    """Else: `make drawings`."""
    wanted = {path for one in drawings.find_drawings() for path in drawings.pictures_of(one).values()}
    assert set(drawings.FOLDER.glob("*.svg")) == wanted
    assert not [path.name for path in wanted if re.search(r"<script|@import", path.read_text())]


def test_blocks_of_several_languages_become_tabs_and_the_answer_stands_below() -> None:
    blocks = ("sh\ncurl x", "python\na", "json tool look_up\n{}", "json answer\n[]")
    text = "Ask:\n" + "".join(f"\n```{block}\n```\n" for block in blocks)
    assert [line for line in convert(text, 0, {}).splitlines() if line] == [
        "Ask:",
        '=== "curl"', "    ```sh", "    curl x", "    ```",
        '=== "Python"', "    ```python", "    a", "    ```",
        '=== "MCP"', '    ```json title="look_up"', "    {}", "    ```",
        '```json title="Answer"', "[]", "```",
    ]  # fmt: skip


def test_two_commands_in_a_row_are_no_tabs() -> None:
    assert "===" not in convert("```sh\ncurl x\n```\n\n```sh\ncurl y\n```\n", 0, {})


def test_links_out_of_the_folder_lose_their_target() -> None:
    assert convert("[a](../README.md) [b](c.md)", 0, {}) == "a [b](c.md)"
    assert convert("[a](../../README.md) [b](../c.md)", 1, {}) == "a [b](../c.md)"


def test_a_link_by_the_name_of_a_file_gets_the_title_of_its_page() -> None:
    text = convert("[runs.md](runs.md#list-runs), [x.md](../x.md)", 1, {"runs.md": "Runs"})
    assert text == "[Runs](runs.md#list-runs), [x.md](../x.md)"
