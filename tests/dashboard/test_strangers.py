"""What strangers write into any field is shown as text: no element, no link, no request, no script."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from urllib.parse import quote

import pytest
from playwright.async_api import Browser, expect

from tests.automations.engine import Endpoint
from tests.dashboard.browsing import settled
from tests.dashboard.planting import PAGES, TEXT, Planted, check, check_page, planting
from tests.monitors.watching import Scanner
from tests.stacks import StackProcess


@pytest.fixture(scope="module")
async def planted(
    browser: Browser, stack: StackProcess, called: Endpoint, scanner: tuple[Endpoint, Scanner]
) -> AsyncGenerator[Planted]:
    async with planting(browser, stack, called, scanner[1]) as planted:
        yield planted


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_shows_what_strangers_wrote_as_text(planted: Planted, name: str) -> None:
    await check_page(planted, name)


async def test_an_answer_of_a_lookup_shows_what_sources_wrote_as_text(planted: Planted) -> None:
    page = await planted.context.new_page()
    await page.goto("/app/lookup")
    await page.get_by_label("Target").fill("193.0.6.77")
    await page.get_by_role("button", name="Look up").click()
    await expect(page.get_by_role("row").filter(has_text="scanner name")).to_contain_text("<img src=x")
    await check(page, planted)
    await page.close()


async def test_a_dialog_shows_what_strangers_wrote_as_text(planted: Planted) -> None:
    page = await planted.context.new_page()
    await page.goto(f"/app{planted.pages['failed run']}")
    await page.get_by_role("button", name="Retry …").click()
    await page.get_by_label("From").select_option("input")
    await check(page, planted)
    await page.close()


@pytest.mark.parametrize(
    "path", ["/runs?step={0}&error_code={0}", "/runs?{0}={0}", "/nowhere/{0}", "/workflows?page={0}"]
)
async def test_an_address_is_shown_as_text(planted: Planted, path: str) -> None:
    """Addresses come from strangers too. The console may tell of the API's refusal alone."""
    page = await planted.context.new_page()
    await page.goto(f"/app{path.format(quote(TEXT[:90], safe=''))}")
    await settled(page)
    await check(page, planted, may_refuse=True)
    await page.close()
