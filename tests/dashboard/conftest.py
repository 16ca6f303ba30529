"""A whole service with two sources on loopback, and a browser that is signed in to it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, BrowserContext, Page

from embedded.temporal import Temporal
from tests.automations.engine import Endpoint, endpoint
from tests.dashboard.browsing import launched, read_first_login, record_faults, sign_in
from tests.dashboard.services import running
from tests.monitors.watching import Scanner
from tests.pinned_packages import npm_packages
from tests.stacks import StackProcess


@pytest.fixture(scope="package")
async def scanner() -> AsyncGenerator[tuple[Endpoint, Scanner]]:
    """The server that stands for GreyNoise and AbuseIPDB, and what it says."""
    scanner = Scanner()
    async with endpoint() as served:
        served.handler = scanner.handle
        yield served, scanner


@pytest.fixture(scope="package")
async def stack(
    scratch: Path, temporal_server: Temporal, scanner: tuple[Endpoint, Scanner]
) -> AsyncGenerator[StackProcess]:
    """A whole `vedette up` that asks these two sources; the session's Temporal is only awaited."""
    async with running(scratch / "dashboard", scanner[0].url) as stack:
        yield stack


@pytest.fixture(scope="package")
async def browser() -> AsyncGenerator[Browser]:
    """A Chromium, the system's."""
    async with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
async def called() -> AsyncGenerator[Endpoint]:
    async with endpoint() as served:
        yield served


@pytest.fixture(scope="module")
async def api(stack: StackProcess) -> AsyncGenerator[httpx.AsyncClient]:
    headers = {"authorization": f"Bearer {stack.api_key}"}
    async with httpx.AsyncClient(
        base_url=stack.url, headers=headers, timeout=30, trust_env=False, verify=False
    ) as client:
        yield client


@pytest.fixture
async def context(browser: Browser, stack: StackProcess) -> AsyncGenerator[BrowserContext]:
    """A signed-in browser whose pages must be silent, and stay at home."""
    opened = await browser.new_context(base_url=stack.url)
    faults = record_faults(opened, stack.url)
    await sign_in(opened, read_first_login(stack))
    yield opened
    await opened.close()
    assert faults == []


@pytest.fixture
async def page(context: BrowserContext) -> Page:
    return await context.new_page()


@pytest.fixture(scope="module")
def axe() -> str:
    """The script of axe-core; no page may load it by itself."""
    return (
        npm_packages(Path(__file__).parent / "axe" / "package-lock.json") / "axe-core" / "axe.min.js"
    ).read_text()
