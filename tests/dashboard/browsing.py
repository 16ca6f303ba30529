"""A Chromium with the dashboard in it: signing in, what its pages must not do, and runs to show."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx
from playwright.async_api import Browser, BrowserContext, Page, Request, async_playwright, expect

from models.accounts.keys import ALL_SCOPES
from services.operator import administration
from tests.programs import find_program
from tests.stacks import StackProcess

PASSWORD = "correct horse battery staple"
HOSTILE = "<img src=x onerror=alert(1)> \u202egnp.exe \u200b"


LOOKS = [("light", 1280), ("dark", 1280), ("light", 360), ("dark", 360)]

_FIND = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
  .filter((one) => ["serious", "critical"].includes(one.impact))
  .map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 200)).join(" | ")}`)"""


class Login(NamedTuple):
    """What signs an account in, and its key."""

    email: str
    password: str
    api_key: str


def read_first_login(stack: StackProcess) -> Login:
    """Return the login of the stack's first account."""
    account = json.loads((stack.data / "first-account.json").read_text())
    return Login(account["email"], account["password"], account["api_key"])


async def create_login(stack: StackProcess, name: str, credits: int = 1000) -> Login:
    """Create an account that owns nothing but credits."""
    email, database = f"{name}@example.com", stack.record.database_url
    await administration.create_account(database, email, name=None, granted=credits, password=PASSWORD)
    key = await administration.create_key(database, email, name="k", scopes=sorted(ALL_SCOPES), days=None)
    return Login(email, PASSWORD, key.key)


@asynccontextmanager
async def launched() -> AsyncGenerator[Browser]:
    """Run the system's Chromium for the block. The test skips where there is none, but not in CI."""
    program = find_program("chromium", "chromium-browser", "google-chrome")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        await browser.close()


async def sign_in(context: BrowserContext, login: Login) -> None:
    """Sign a browser in by the form."""
    page = await context.new_page()
    await page.goto("/")
    await page.get_by_label("E-mail").fill(login.email)
    await page.get_by_label("Password").fill(login.password)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", name="Needs you")).to_be_visible()
    await page.close()


def record_faults(context: BrowserContext, url: str) -> list[str]:
    """Return a list; console messages, script errors, dialogs and requests to elsewhere are added to it."""
    faults: list[str] = []
    context.on("console", lambda message: faults.append(f"{message.type}: {message.text}"))
    context.on("weberror", lambda error: faults.append(f"script: {error.error}"))
    context.on("dialog", lambda dialog: faults.append(f"dialog: {dialog.message}"))

    def note_request(request: Request) -> None:
        if not request.url.startswith((url, "data:")):
            faults.append(request.url)

    context.on("request", note_request)
    return faults


async def settled(page: Page) -> None:
    """Wait until the page waits for no answer."""
    await expect(page.locator("main")).to_be_visible()
    await expect(page.locator("[aria-busy=true]")).to_have_count(0)


async def make(api: httpx.AsyncClient, name: str, *steps: dict[str, Any]) -> str:
    """Create a workflow; return its id."""
    made = await api.post("/api/workflows", json={"name": name, "steps": steps})
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


async def start(api: httpx.AsyncClient, workflow: str, event: Any, wait: int = 20) -> dict[str, Any]:
    """Start a run, and wait so long for its end; return what is known of it."""
    path = f"/api/workflows/{workflow}/run{f'?wait={wait}' if wait else ''}"
    run = await api.post(path, json={"input": event})
    assert run.status_code in (200, 202), run.text
    return {"id": run.json().get("run_id"), **run.json()}


async def find_barriers(page: Page, axe: str) -> list[str]:
    """Return what axe finds serious, in light and dark, wide and narrow."""
    await page.evaluate(axe)
    found: list[str] = []
    for scheme, width in LOOKS:
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # pyright: ignore[reportArgumentType]
        await page.set_viewport_size({"width": width, "height": 800})
        seen: list[str] = await page.evaluate(_FIND)
        found += [f"{scheme} {width}: {one}" for one in seen]
    return found
