"""The dashboard in a real browser, over a whole service: no page writes to the console, or asks elsewhere."""

from __future__ import annotations

import asyncio
import json
import re

import httpx
import pytest
from aiohttp import web
from playwright.async_api import BrowserContext, Page, Route, expect

from tests.automations.engine import Endpoint
from tests.dashboard.browsing import HOSTILE, make, settled, start
from tests.stacks import StackProcess

UTC_NOW = "2026-11-27T12:00:00Z"


async def test_a_failed_run_is_understood_and_run_again_from_the_failed_step(
    page: Page, api: httpx.AsyncClient, called: Endpoint
) -> None:
    called.answer = lambda request: web.json_response({}, status=404)
    first = {"id": "shape", "type": "transform", "config": {"expression": "trigger.order"}}
    tell = {"id": "tell", "type": "webhook", "config": {"url": f"{called.url}/crm"}}
    workflow = await make(api, "Tell the CRM", first, tell)
    await start(api, workflow, {"order": 4711})
    await page.goto("/app/runs?status=failed")
    await page.get_by_role("link", name="Tell the CRM").first.click()
    await expect(page.get_by_text("The endpoint answered 404.").first).to_be_visible()
    await expect(page.get_by_role("button", name=re.compile("tell"))).to_have_attribute(
        "aria-pressed", "true"
    )
    called.answer = lambda request: web.json_response({"ok": True})
    await page.get_by_role("button", name="Retry …").click()
    await page.get_by_role("button", name="Run it").click()
    await expect(page.get_by_role("link", name="an earlier run")).to_be_visible()
    await expect(page.locator("header.title .status")).to_contain_text("completed")


async def test_a_run_is_watched_from_its_beginning_to_its_end(page: Page, api: httpx.AsyncClient) -> None:
    ask = {"id": "ask", "type": "wait", "config": {"title": "Ship order 4711?", "message": HOSTILE}}
    workflow = await make(api, "Ship it", ask)
    run = await start(api, workflow, {}, wait=0)
    await page.goto(f"/app/runs/{run['id']}")
    await expect(page.locator("header.title .status")).to_contain_text("waiting")
    answered = await api.post(
        (await api.get("/api/workflows/approvals")).json()["approvals"][0]["resume_url"]
    )
    assert answered.status_code == 202
    await expect(page.locator("header.title .status")).to_contain_text("completed", timeout=15_000)


async def test_attempts_of_a_step_and_the_waits_between_are_drawn_apart(
    page: Page, api: httpx.AsyncClient, called: Endpoint
) -> None:
    statuses = iter((503, 503, 200))
    called.answer = lambda request: web.json_response({}, status=next(statuses))
    retry = {"max_attempts": 4, "initial_seconds": 0.5}
    tell = {"id": "tell", "type": "webhook", "config": {"url": f"{called.url}/flaky"}, "retry": retry}
    run = await start(api, await make(api, "Flaky", tell), {})
    await page.goto(f"/app/runs/{run['id']}")
    await expect(page.locator("rect.bar.completed")).to_have_count(1)
    titles = await page.locator(".waterfall .bar:not(.queued) title").all_text_contents()
    assert [title.partition(":")[0] for title in titles] == [
        "attempt 1", "waits for attempt 2", "attempt 2", "waits for attempt 3", "attempt 3",
    ]  # fmt: skip


async def test_changes_are_marked_as_seen_by_a_button_and_by_nothing_else(
    page: Page, api: httpx.AsyncClient
) -> None:
    body = {"name": "Resolvers", "monitor_type": "ip", "targets": ["8.8.8.8"]}
    path = f"/api/monitors/{(await api.post('/api/monitors', json=body)).json()['id']}"
    run = (await api.post(f"{path}/run")).json()["run_id"]

    async def results(route: Route) -> None:
        """Let the run have found a change: what sources say of an address does not change in a test."""
        answer = await route.fetch()
        [result] = (await api.get(f"{path}/runs/{run}/results")).json()
        change = {"changes": {"location.city": {"old": "Ulm", "new": "Linz"}}, "completed_at": UTC_NOW}
        seen = (await api.get(path)).json()["seen_at"] is not None
        found = [] if seen else [{**result, **change, "run_id": run}]
        await route.fulfill(response=answer, json={"results": found, "total": len(found)})

    async with asyncio.timeout(30):
        while (await api.get(f"{path}/runs/{run}")).json()["completed_at"] is None:
            await asyncio.sleep(0.1)
    await page.route("**/api/monitoring/results*", results)
    await page.goto(path.replace("/api", "/app"))
    await expect(page.get_by_role("heading", name="1 change that nobody has marked as seen")).to_be_visible()
    await expect(page.get_by_role("cell", name="Linz")).to_be_visible()
    assert (await api.get(path)).json()["seen_at"] is None
    await page.get_by_role("button", name="Mark as seen").click()
    await expect(page.get_by_text("Nothing has changed since you last looked")).to_be_visible()
    assert (await api.get(path)).json()["seen_run_id"] == run


async def test_an_approval_is_given_by_its_page_and_opening_it_changes_nothing(
    page: Page, api: httpx.AsyncClient, context: BrowserContext
) -> None:
    schema = {"type": "object", "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]}
    ask = {"id": "ask", "type": "wait", "config": {"title": "Refund Ada?", "input_schema": schema}}
    run = await start(api, await make(api, "Refund", ask), {}, wait=0)
    await page.goto("/app/approvals")
    card = page.get_by_role("listitem").filter(has_text="Refund Ada?")
    async with context.expect_page() as opened:
        await card.get_by_role("link", name="Answer").click()
    form = await opened.value
    await expect(form.get_by_role("heading", name="Refund Ada?")).to_be_visible()
    assert (await api.get(f"/api/workflows/runs/{run['id']}")).json()["status"] == "waiting"
    await form.get_by_label("Yes").check()
    await form.get_by_role("button", name="Send the answer").click()
    await expect(form.get_by_role("heading", name="Thank you")).to_be_visible()
    await expect(card).to_have_count(0, timeout=15_000)


async def test_a_lookup_is_read_to_its_sources(page: Page) -> None:
    await page.goto("/app/lookup")
    await page.get_by_label("Target").fill("185.220.101.1")
    await page.get_by_role("button", name="Look up").click()
    row = page.get_by_role("row").filter(has_text="security · is tor")
    await expect(row).to_contain_text("true")
    await expect(row).to_contain_text("tor")
    await expect(page.get_by_text("tor exit")).to_be_visible()


async def test_failed_items_are_found_however_far_behind_they_stand(
    page: Page, api: httpx.AsyncClient, called: Endpoint
) -> None:
    called.answer = lambda request: web.json_response(
        {}, status=404 if '"item":130' in request["body"] else 200
    )
    each = {
        "id": "each", "type": "webhook", "for_each": "trigger.items", "on_error": "continue",
        "config": {"url": f"{called.url}/each", "body": {"item": "{{item}}"}},
    }  # fmt: skip
    workflow = await make(api, "One of many", each)
    run = await start(api, workflow, {"items": list(range(150))})
    await page.goto(f"/app/runs/{run['id']}?step=each")
    await expect(page.locator(".items li")).to_have_count(1)
    await expect(page.locator(".items li")).to_contain_text("item 130")


@pytest.mark.parametrize(
    "kind",
    ["ip", "domain", "email", "phone", "company", "breach", "validate", "username", "darkweb", "websearch"],
)
async def test_each_kind_of_lookup_takes_the_target_that_its_page_sends(
    context: BrowserContext, stack: StackProcess, kind: str
) -> None:
    """Whatever its sources know: without them the service may say so."""
    assert context.browser is not None
    apart = await context.browser.new_context(base_url=stack.url)
    await apart.add_cookies(await context.cookies())  # pyright: ignore[reportArgumentType]
    page = await apart.new_page()
    await page.goto(f"/app/lookup?kind={kind}")
    field = page.get_by_label("Target")
    await field.fill(await field.get_attribute("placeholder") or "")
    async with page.expect_response(f"**/api/lookups/{kind}") as answered:
        await page.get_by_role("button", name="Look up").click()
    assert (await answered.value).status != 400, await (await answered.value).text()
    await apart.close()


async def test_what_strangers_write_is_shown_as_text(
    page: Page, api: httpx.AsyncClient, called: Endpoint
) -> None:
    said = {HOSTILE: HOSTILE, "link": "javascript:alert(1)", "other": "https://xn--e1afmkfd.example/x",
            "__proto__": {"polluted": True}, "long": "x" * 300_000,
            "omitted": {"omitted": True, "bytes": 1, "url": "http://["}}  # fmt: skip
    called.answer = lambda request: web.Response(text=json.dumps(said), content_type="application/json")
    tell = {"id": "tell", "name": HOSTILE, "type": "webhook", "config": {"url": f"{called.url}/x"}}
    workflow = await make(api, HOSTILE, tell)
    run = await start(api, workflow, {"constructor": {"prototype": {"polluted": True}}, "text": HOSTILE})
    for path in (
        f"/app/runs/{run['id']}",
        f"/app/workflows/{workflow}",
        "/app/runs",
        "/app/workflows",
        "/app",
    ):
        await page.goto(path)
        shown = page.get_by_text("⟦U+202E⟧gnp.exe").locator("visible=true").first
        await expect(shown).to_be_visible()
        assert await page.locator("img[src='x']").count() == 0
        assert await page.locator("a[href^='javascript']").count() == 0
        assert await page.evaluate("({}).polluted") is None
    await page.goto(f"/app/runs/{run['id']}")
    link = page.get_by_role("link", name="https://xn--e1afmkfd.example/x").first
    await expect(link).to_have_attribute("rel", re.compile("noopener noreferrer"))
    await expect(page.get_by_text("(xn--e1afmkfd.example)").first).to_be_visible()


async def test_eight_tabs_all_live_on_one_connection(context: BrowserContext) -> None:
    tabs = [await context.new_page() for _ in range(8)]
    for tab in tabs:
        await tab.goto("/app/workflows")
    for tab in tabs:
        await expect(tab.get_by_role("heading", name="Workflows", exact=True)).to_be_visible()


async def test_a_key_is_made_and_shown_once(page: Page) -> None:
    await page.goto("/app/account")
    await page.get_by_role("button", name="Create a key").click()
    await page.get_by_label("Name").fill("made in a browser")
    await page.get_by_role("button", name="Create the key").click()
    await expect(page.locator("dialog pre")).to_contain_text("vedette_")
    await page.get_by_role("button", name="Close").click()
    await expect(page.get_by_role("cell", name="made in a browser")).to_be_visible()


async def test_signing_out_leads_to_the_sign_in_page_and_back_shows_nothing(context: BrowserContext) -> None:
    page = await context.new_page()
    await page.goto("/app/account")
    await expect(page.get_by_role("heading", name="Keys", exact=True)).to_be_visible()
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
    await page.go_back()
    await expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()


@pytest.mark.parametrize("width", [360, 1400])
async def test_no_page_is_wider_than_the_window(page: Page, width: int) -> None:
    await page.set_viewport_size({"width": width, "height": 800})
    for name in ("", "/runs", "/errors", "/workflows", "/monitors", "/lookup", "/approvals", "/account"):
        await page.goto(f"/app{name}")
        await settled(page)
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
