"""Every page in every state is for everybody: axe finds nothing serious in it, however it is looked at."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, BrowserContext, Page, expect

from database import Database
from tests.automations.engine import Endpoint
from tests.dashboard.browsing import create_login, find_barriers, read_first_login, settled, sign_in
from tests.dashboard.seeds import Seeded, change_what_is_known, seed
from tests.monitors.watching import Scanner
from tests.stacks import StackProcess

pytestmark = pytest.mark.node
PAGES = ["", "/runs", "/errors", "/workflows", "/monitors", "/lookup", "/approvals", "/chat", "/account"]


@pytest.fixture(scope="module")
async def seeded(
    stack: StackProcess, api: httpx.AsyncClient, called: Endpoint, scanner: tuple[Endpoint, Scanner]
) -> AsyncGenerator[Seeded]:
    """An account in which something happens; its sources answer as before in the end."""
    database = Database(stack.record.database_url, name="tests")
    await database.open()
    made = await seed(api, called)
    before = scanner[1].greynoise, scanner[1].abuseipdb
    await change_what_is_known(api, database, made.monitor, scanner[1])
    yield made
    scanner[1].greynoise, scanner[1].abuseipdb = before
    await database.close()


@pytest.fixture(scope="module")
async def reader(browser: Browser, stack: StackProcess) -> AsyncGenerator[BrowserContext]:
    """The browser of that account, into which axe can be brought: pages keep it out by their policy."""
    opened = await browser.new_context(base_url=stack.url, bypass_csp=True)
    await sign_in(opened, read_first_login(stack))
    yield opened
    await opened.close()


async def look_up(page: Page) -> None:
    await page.get_by_label("Target").fill("8.8.8.8")
    await page.get_by_role("button", name="Look up").click()
    await expect(page.get_by_role("heading", name="Sources asked")).to_be_visible()


async def retry_with_input(page: Page) -> None:
    await page.get_by_role("button", name="Retry …").click()
    await page.get_by_label("From").select_option("input")
    # Chromium may send to a spelling service what it checks.
    await expect(page.get_by_role("textbox", name="Input")).to_have_attribute("spellcheck", "false")


def pressing(*names: str) -> Callable[[Page], Awaitable[None]]:
    """Press these buttons, one after the other."""

    async def press(page: Page) -> None:
        for name in names:
            await page.get_by_role("button", name=name).first.click()

    return press


async def make_key(page: Page) -> None:
    await page.get_by_role("button", name="Create a key").click()
    await page.get_by_label("Name").fill("for axe")
    await page.get_by_role("button", name="Create the key").click()
    await expect(page.locator("dialog pre")).to_be_visible()


async def ask_for_the_password(page: Page) -> None:
    refusal = {"code": "password_required", "detail": "The password, please."}
    await page.route("**/api/keys", lambda route: route.fulfill(status=403, json=refusal))
    await page.get_by_role("button", name="Create a key").click()
    await page.get_by_label("Name").fill("x")
    await page.get_by_role("button", name="Create the key").click()
    await expect(page.get_by_role("heading", name="Your password, please")).to_be_visible()


async def refuse_the_input(page: Page) -> None:
    await retry_with_input(page)
    await page.get_by_role("textbox", name="Input").fill("{")
    await page.get_by_role("button", name="Run it").click()
    await expect(page.get_by_role("alert")).to_be_visible()


async def unfold_child(page: Page) -> None:
    await page.locator("summary").filter(has_text="Score a visitor").click()
    await expect(page.get_by_role("link", name="To this run")).to_be_visible()


async def unfold(page: Page) -> None:
    await page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    await settled(page)


STATES: dict[str, tuple[str, Callable[[Page], Awaitable[None]] | None]] = {
    # First: a password that was given five minutes ago has to be given again.
    "made key": ("/account", make_key),
    **{name or "/home": (name, None) for name in PAGES},
    "filtered runs": ("/runs?status=failed&since=2026-01-01T00:00:00Z&step=alarm", None),
    "refused filter": ("/runs?colour=red", None),
    "no page": ("/nowhere", None),
    "failed run": ("/runs/{failed}", None),
    "repeated run": ("/runs/{repeated}", None),
    "waiting run": ("/runs/{waiting}", None),
    "run of items": ("/runs/{items}", None),
    "run with children": ("/runs/{parent}", unfold_child),
    "graph of a run": ("/runs/{failed}?view=graph", unfold),
    "no run": ("/runs/00000000-0000-4000-8000-000000000000", None),
    "retry": ("/runs/{failed}", pressing("Retry …")),
    "retry with input": ("/runs/{failed}", retry_with_input),
    "refused retry": ("/runs/{failed}", refuse_the_input),
    "workflow": ("/workflows/{workflow}", unfold),
    "step of a workflow": ("/workflows/{workflow}?step=risky", None),
    "monitor": ("/monitors/{monitor}", unfold),
    "all targets of a monitor": ("/monitors/{monitor}?all=yes", unfold),
    "answer of a lookup": ("/lookup", look_up),
    "new key": ("/account", pressing("Create a key")),
    "password": ("/account", ask_for_the_password),
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
async def test_a_page_has_no_barriers(reader: BrowserContext, seeded: Seeded, axe: str, state: str) -> None:
    path, act = STATES[state]
    page = await reader.new_page()
    await page.goto(f"/app{path.format(**seeded._asdict())}")
    await settled(page)
    if act is not None:
        await act(page)
    assert await find_barriers(page, axe) == []
    await page.close()


async def test_the_pages_of_an_empty_account_have_no_barriers(
    browser: Browser, stack: StackProcess, axe: str
) -> None:
    opened = await browser.new_context(base_url=stack.url, bypass_csp=True)
    await sign_in(opened, await create_login(stack, "empty"))
    page = await opened.new_page()
    found: dict[str, list[str]] = {}
    for name in PAGES:
        await page.goto(f"/app{name}")
        await settled(page)
        found[name] = await find_barriers(page, axe)
    await opened.close()
    assert found == {name: [] for name in PAGES}


async def test_the_pages_before_the_sign_in_have_no_barriers(
    browser: Browser, stack: StackProcess, api: httpx.AsyncClient, seeded: Seeded, axe: str
) -> None:
    opened = await browser.new_context(base_url=stack.url, bypass_csp=True)
    page = await opened.new_page()
    waiting: list[dict[str, Any]] = (await api.get("/api/workflows/approvals")).json()["approvals"]
    question = next(one["resume_url"] for one in waiting if one["run_id"] == seeded.waiting)
    found: dict[str, list[str]] = {}
    for path in ("/app/sign-in", "/app/sign-in/used", question, "/errors/not_found"):
        await page.goto(path)
        found[path] = await find_barriers(page, axe)
    await opened.close()
    assert not any(found.values()), found
