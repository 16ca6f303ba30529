"""Why something is as it is: changes field by field, the cause of a hundred failures, silent sources."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator

import httpx
import pytest
from aiohttp import web
from playwright.async_api import Page, expect

from database import Database
from tests.automations.engine import Endpoint, until
from tests.dashboard.browsing import make, start
from tests.dashboard.seeds import run_monitor
from tests.monitors.watching import Scanner, answering, reported, scanned_as
from tests.stacks import StackProcess


@pytest.fixture
async def database(stack: StackProcess) -> AsyncGenerator[Database]:
    """The database of the service."""
    opened = Database(stack.record.database_url, name="tests")
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def sources(scanner: tuple[Endpoint, Scanner]) -> Scanner:
    """The two sources, which say what they say at first."""
    fresh = Scanner()
    scanner[1].greynoise, scanner[1].abuseipdb = fresh.greynoise, fresh.abuseipdb
    return scanner[1]


async def test_a_change_is_read_field_by_field_and_a_silent_source_with_its_reason(
    page: Page, api: httpx.AsyncClient, database: Database, sources: Scanner
) -> None:
    body = {"name": "Our servers", "monitor_type": "ip", "frequency": "daily", "targets": ["193.0.6.139"]}
    monitor = (await api.post("/api/monitors", json=body)).json()["id"]
    await run_monitor(api, database, monitor)
    sources.greynoise, sources.abuseipdb = scanned_as("malicious"), reported("Data Center", 92)
    await page.goto("/app/monitors")
    await page.locator(f"a[href='/app/monitors/{monitor}']").click()
    await expect(page.get_by_text("Nothing changed.")).to_be_visible()
    await run_monitor(api, database, monitor)
    for field, old, new in (
        ("threat.classification", "benign", "malicious"),
        ("threat.abuse_score", "3", "92"),
    ):
        row = page.get_by_role("row").filter(has=page.get_by_role("cell", name=field, exact=True))
        await expect(row.locator(".old")).to_have_text(old, timeout=15_000)
        await expect(row.locator(".new")).to_have_text(new)
    sources.greynoise = answering(503)
    await run_monitor(api, database, monitor)
    silent = page.get_by_role("complementary").get_by_role("listitem").filter(has_text="greynoise").first
    await expect(silent).to_contain_text("silent", timeout=15_000)
    await expect(silent).to_contain_text("it failed")
    newest = page.get_by_role("complementary").get_by_role("button").filter(has_text="completed").first
    await newest.click()
    await page.get_by_label("also targets without changes").check()
    await expect(page.get_by_text("greynoise has not answered since")).to_be_visible()
    await page.goto("/app/account")
    balance = page.get_by_role("figure").filter(has_text="Balance: from 100,000 to")
    await expect(balance.locator("canvas")).to_be_visible()
    await balance.get_by_text("As a table").click()
    await expect(balance.get_by_role("cell", name="100,000")).to_be_visible()


async def test_a_source_that_is_not_asked_for_a_while_stands_on_the_first_page(
    page: Page, api: httpx.AsyncClient, sources: Scanner
) -> None:
    sources.greynoise = answering(500)

    async def cooled() -> bool:
        address = f"193.0.6.{len(sources.asked) % 200 + 1}"
        await api.post("/api/lookups/ip", json={"ip": address})
        rows = (await api.get("/api/providers")).json()["providers"]
        return any(row["name"] == "greynoise" and row["state"] == "cooling_down" for row in rows)

    await until(cooled)
    await page.goto("/app")
    await expect(page.get_by_role("listitem").filter(has_text="source greynoise")).to_be_visible()


async def test_a_hundred_failures_are_one_cause_that_is_retried_at_once_and_leads_to_its_runs(
    page: Page, api: httpx.AsyncClient, called: Endpoint
) -> None:
    called.answer = lambda request: web.json_response({}, status=404)
    tell = {"id": "tell", "type": "webhook", "config": {"url": f"{called.url}/crm"}}
    workflow = await make(api, "Tell the CRM a hundred times", tell)
    await page.goto("/app/errors")
    for _ in range(10):
        await asyncio.gather(*(start(api, workflow, {"order": n}, wait=30) for n in range(10)))
    row = page.get_by_role("row").filter(has_text="Tell the CRM a hundred times")
    await expect(row).to_have_count(1, timeout=15_000)
    await expect(row.get_by_role("cell", name="100", exact=True)).to_be_visible(timeout=15_000)
    await expect(row.get_by_role("cell", name="tell", exact=True)).to_be_visible()
    await expect(page.get_by_role("figure")).to_contain_text(re.compile(r"Over time: [1-9]\d\d failed runs"))
    await expect(page.get_by_role("figure").locator("canvas")).to_be_visible()
    called.answer = lambda request: web.json_response({})
    await row.get_by_role("button", name="Retry all").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("100 runs match; at most 0 credits.")
    confirm = dialog.get_by_role("button", name="Retry 100 runs")
    await expect(confirm).to_be_disabled()
    await dialog.get_by_label("Type 100 to confirm").fill("100")
    await confirm.click()
    await expect(dialog.get_by_role("status")).to_contain_text("completed 100 of 100 retried", timeout=30_000)
    await page.keyboard.press("Escape")
    await row.get_by_role("link").first.click()
    await expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    rows = page.locator("tbody tr")
    await expect(rows).to_have_count(50)
    await page.get_by_role("button", name="Older").click()
    await expect(page.get_by_role("button", name="Newer")).to_be_visible()
    await expect(rows).to_have_count(50)
    await rows.first.get_by_role("link", name="Tell the CRM a hundred times").click()
    await expect(page.get_by_text("The endpoint answered 404.").first).to_be_visible()
